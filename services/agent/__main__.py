"""Run the agent: `python -m services.agent`."""

from __future__ import annotations

from services.agent.service import build
from services.agent.settings import AgentSettings
from shared.service import main

if __name__ == "__main__":
    main("agent", AgentSettings, build)

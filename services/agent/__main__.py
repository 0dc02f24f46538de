"""Run the agent: `python -m placet.agent`."""

from __future__ import annotations

from placet.agent.service import build
from placet.agent.settings import AgentSettings
from placet.runtime.service import main

if __name__ == "__main__":
    main("agent", AgentSettings, build)

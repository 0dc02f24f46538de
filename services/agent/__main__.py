"""Run the agent: `python -m placet.agent`."""

from __future__ import annotations

import placet.runtime.service
from placet.agent.service import build
from placet.agent.settings import AgentSettings

if __name__ == "__main__":
    placet.runtime.service.main("agent", AgentSettings, build)

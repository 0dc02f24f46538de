"""Test own tools and agents: a context to call a tool with, the tools of a rulebook, a model that follows a script.

Nothing here needs a database, a broker or a model::

    async def test_the_weather_is_told(monkeypatch):
        monkeypatch.setenv("WEATHER_KEY", "secret")
        async with open_tools("rulebook.yaml") as tools:
            assert {"sky": "clear"} == (await tools.call("weather", city="Izmir")).data
"""

from __future__ import annotations

from placet.testing.model import ScriptedModel, call, say
from placet.testing.tools import TestedTools, open_tools, tool_context
from placet.testing.workspaces import TestedWorkspace

__all__ = ["ScriptedModel", "TestedTools", "TestedWorkspace", "call", "open_tools", "say", "tool_context"]

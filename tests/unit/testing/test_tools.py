"""Tools are tested without an executor: the same checks, the same resources, the same errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.testing import ScriptedModel, call, open_tools, say, tool_context
from placet.tools import DidNotRun, SecretMissing, ToolError, secret
from placet.tools.resources import ToolLoadError

CODE = """
from contextlib import asynccontextmanager
from placet.tools import DidNotRun, ToolContext, ToolError, secret

@asynccontextmanager
async def open_resources(settings):
    yield {"key": secret("A_TESTED_KEY")}

async def weather(context: ToolContext, city: str) -> dict:
    if city == "Atlantis":
        raise ToolError("There is no such city.", code="unknown_city")
    context.report(0.5, "asking")
    return {"city": city, "for": context.requester, "key": context.resource("key", str)}

def probe(city: str) -> DidNotRun:
    return DidNotRun()
"""
RULEBOOK = """
tools:
  weather:
    description: Tells the weather.
    category: safe_read
    function: MODULE:weather
    verify: MODULE:probe
    parameters: {type: object, properties: {city: {type: string, minLength: 2}}, required: [city]}
rules: []
"""


@pytest.fixture
def rulebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a rulebook with one tool, whose module can be imported and whose secret is set."""
    module = f"tested_tools_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("A_TESTED_KEY", "s3cret")
    path = tmp_path / "rulebook.yaml"
    path.write_text(RULEBOOK.replace("MODULE", module))
    return path


async def test_a_tool_is_called_with_its_resources_open(rulebook: Path) -> None:
    """What it returns, reports and is told are at hand."""
    async with open_tools(rulebook) as tools:
        reply = await tools.call("weather", context=tool_context(requester="ada"), city="Izmir")
        found = await tools.verify("weather", city="Izmir")
    assert {"city": "Izmir", "for": "ada", "key": "s3cret"} == reply.data
    assert ([(0.5, "asking")], DidNotRun()) == (tools.reports, found)


@pytest.mark.parametrize(("city", "code"), [("Atlantis", "unknown_city"), ("X", "invalid_arguments")])
async def test_a_refusal_is_what_the_model_would_get(rulebook: Path, city: str, code: str) -> None:
    """The tool's own, and that of the rulebook's schema."""
    async with open_tools(rulebook) as tools:
        with pytest.raises(ToolError) as refused:
            await tools.call("weather", city=city)
    assert code == refused.value.code


async def test_what_would_stop_an_executor_stops_the_test(rulebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing secret, and a function that is not there."""
    monkeypatch.delenv("A_TESTED_KEY")
    with pytest.raises(SecretMissing, match=r"^the secret A_TESTED_KEY is missing: set A_TESTED_KEY, or "):
        async with open_tools(rulebook):
            raise AssertionError
    rulebook.write_text(RULEBOOK.replace("MODULE:weather", "json:wether"))  # noqa: ASYNC240 - a few bytes
    with pytest.raises(ToolLoadError, match="has no function 'wether'"):
        async with open_tools(rulebook):
            raise AssertionError


def test_a_secret_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As containers get theirs; the end of its line is no part of it."""
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("A_TESTED_KEY_FILE", str(tmp_path / "key"))
    assert "from a file" == secret("A_TESTED_KEY")
    monkeypatch.setenv("A_TESTED_KEY_FILE", str(tmp_path / "lost"))
    with pytest.raises(SecretMissing, match="cannot be read"):
        secret("A_TESTED_KEY")


def test_a_scripted_model_answers_by_how_much_was_said() -> None:
    """One answer after the other, the last one from then on, and only with tools that it is offered."""
    model = ScriptedModel(call("pay", amount=2), say("Done."))
    tools = [{"function": {"name": "pay"}}]
    first = model([{"role": "user"}], tools)
    later = [{"role": "user"}, {"role": "assistant"}, {"role": "tool"}]
    assert ("call_0_0", '{"amount": 2}') == (
        first["tool_calls"][0]["id"],
        first["tool_calls"][0]["function"]["arguments"],
    )
    assert [{"content": "Done."}] * 2 == [model(later, tools), model([*later, *later], tools)]
    assert {"content": "I have no tool for this."} == model([], [])

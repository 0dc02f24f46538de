"""Profiles: what each agent is made of."""

from __future__ import annotations

import pytest

from placet.agent.profiles import Profiles, given
from placet.agent.rules import settle
from placet.agent.settings import HOUSE_WORDS, AgentSettings
from placet.contracts.messages.tool_calls import Category
from placet.domain.agents import AgentEntry, Agents, ModelEntry
from placet.domain.catalog import Catalog, ToolSpec
from tests.support.agents import PAY, SEARCH, ScriptedModel, says
from tests.unit.agent.test_rules import a_claim

SECRET = ToolSpec(
    name="unlock",
    description="Unlock it.",
    parameters={"type": "object", "properties": {"pin": {"type": "string"}}, "required": ["pin"]},
    category=Category.UNSAFE_API,
    redact=["/pin"],
)
SHOP = Catalog([SEARCH, PAY, SECRET])
HOUSE = AgentSettings(
    model="openai/house",
    model_api_base="http://house.example/v1",
    model_api_key="house-key",
    model_fallbacks=({"model": "openai/spare"},),
    agent_max_steps=7,
)


def profiles(**entries: AgentEntry) -> Profiles:
    """Return the profiles of a file with these entries."""
    return Profiles(Agents(entries), SHOP, HOUSE.behaviour, lambda _: ScriptedModel([]))


def test_an_agent_has_the_tools_that_it_is_given() -> None:
    """Globs choose from the rulebook; `final_answer` comes beside them where the agent ends with it."""
    made = profiles(a=AgentEntry(tools=["se*", "pay"]), b=AgentEntry(tools=[], final_answer=True), c=AgentEntry())
    found = [made.find("acme", name) for name in "abc"]
    assert [["search", "pay"], ["final_answer"], ["search", "pay", "unlock"]] == [
        list(profile.tools) for profile in found if profile
    ]


def test_a_tool_that_is_not_given_does_not_exist_and_its_secrets_stay_hidden() -> None:
    """A call of it is invalid and names only the agent's own tools; what it would redact is shown to nobody."""
    tools = given(SHOP, ["search"])
    settlement = settle(says("", ("unlock", '{"pin": "1234"}')), a_claim(), tools, HOUSE.behaviour())
    (call,) = settlement.calls
    assert call.result is not None
    assert ("invalid", "", 0) == (call.result.kind, call.shown_arguments, settlement.open_calls)
    assert "there is no tool 'unlock'; the tools are: search" == call.result.error


def test_an_unknown_agent_is_nobody() -> None:
    """No name leads to another agent's tools, and no tenant to another tenant's agent."""
    made = profiles(default=AgentEntry(), theirs=AgentEntry(tenants=["globex"]))
    assert [None, None] == [made.find("acme", name) for name in ("theirs", "nobody")]
    assert made.find("globex", "theirs") is not None


def test_what_an_entry_leaves_out_is_as_the_settings_say() -> None:
    """Settings are the defaults of every agent."""
    behaviour, model = HOUSE.behaviour(AgentEntry(pending="wait")), HOUSE.model_settings(AgentEntry(retries=0))
    assert (7, "wait", "hold") == (behaviour.steps_max, behaviour.pending, behaviour.while_pending)
    assert ("openai/house", "http://house.example/v1", 0) == (model.model, model.api_base, model.retries)
    assert ["openai/spare"] == [each.model for each in model.fallbacks]


def test_the_houses_key_and_address_never_go_to_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent with a model of its own takes neither address nor key nor fallbacks of the settings."""
    plain = HOUSE.model_settings(AgentEntry(model="anthropic/other"))
    assert ("anthropic/other", None, None, ()) == (plain.model, plain.api_base, plain.api_key, plain.fallbacks)
    monkeypatch.setenv("OTHER_KEY", "other-key")
    spare = ModelEntry(model="openai/third", model_api_key_env="OTHER_KEY")
    own = HOUSE.model_settings(AgentEntry(model="anthropic/other", model_api_key_env="OTHER_KEY", fallbacks=[spare]))
    assert own.api_key is not None
    assert ["other-key"] * 2 == [each.api_key.get_secret_value() for each in own.chain() if each.api_key]


def test_every_agent_is_told_the_houses_rules() -> None:
    """Whoever an agent is told to be, it hears that consent is arranged elsewhere and that tools return data."""
    told = HOUSE.behaviour(AgentEntry(instructions="You are a clerk.\n")).instructions
    assert f"You are a clerk.\n\n{HOUSE_WORDS}" == told
    assert HOUSE_WORDS in HOUSE.behaviour().instructions

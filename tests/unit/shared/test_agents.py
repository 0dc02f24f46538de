"""The file of agents: what it may say, how its mistakes are told, and for whom an agent exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.domain.agents import Agents, load_agents
from placet.domain.catalog import Catalog
from placet.domain.yaml_source import RulebookInvalid
from tests.support.agents import PAY, SEARCH

SHOP = Catalog([SEARCH, PAY])
FILE = """\
version: 1
agents:
  default: {}
  clerk:
    description: Knows where things are.
    model: openai/gpt-4o-mini
    model_api_key_env: CLERK_KEY
    fallbacks: [{model: anthropic/claude-x, model_api_key_env: CLERK_KEY}]
    tools: [sea*]
    tenants: [acme, shop-*]
    labels: {desk: clerks}
    budget: {tokens_per_conversation: 1000, cost_per_day: 2.5}
"""


def problems_of(folder: Path, text: str) -> list[str]:
    """Return what is wrong with a file, each with its line and column."""
    path = folder / "agents.yaml"
    path.write_text(text)
    with pytest.raises(RulebookInvalid) as caught:
        load_agents(path, catalog=SHOP, environment={"CLERK_KEY": "hush"})
    return [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]


def an_agent(line: str) -> str:
    """Return a file with one agent of one line."""
    return f"version: 1\nagents:\n  a: {{{line}}}\n"


def loaded(folder: Path) -> Agents:
    """Return the agents of the example."""
    path = folder / "agents.yaml"
    path.write_text(FILE)
    return load_agents(path, catalog=SHOP, environment={"CLERK_KEY": "hush"})


def test_an_agent_is_read_as_it_stands(tmp_path: Path) -> None:
    """What an entry says arrives in the value; what it leaves out is left to the settings."""
    clerk = loaded(tmp_path).find("acme", "clerk")
    assert clerk is not None
    assert ("openai/gpt-4o-mini", "CLERK_KEY", ["sea*"]) == (clerk.model, clerk.model_api_key_env, clerk.tools)
    assert (1000, 2.5, None) == (
        clerk.budget.tokens_per_conversation,
        clerk.budget.cost_per_day,
        clerk.budget.tokens_per_day,
    )
    assert (None, None, None, None) == (clerk.instructions, clerk.max_steps, clerk.stream, clerk.pseudonyms)


def test_an_agent_exists_for_its_tenants_alone(tmp_path: Path) -> None:
    """Another tenant neither finds it nor sees its name; an unknown name is nobody's."""
    agents = loaded(tmp_path)
    assert ["default", "clerk"] == list(agents.of("shop-1"))
    assert ["default"] == list(agents.of("globex"))
    assert (None, None) == (agents.find("globex", "clerk"), agents.find("acme", "clark"))


def test_without_a_file_every_name_is_the_one_agent() -> None:
    """Nothing changes for whoever has no file: any name is answered, and the list knows `default`."""
    agents = load_agents(None)
    assert agents.find("acme", "anything") == agents.find("globex", "else")
    assert (["default"], ["a", "b"]) == (list(agents.of("acme")), list(load_agents(None, names=["a", "b"]).of("x")))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agents: {a: {}}\n", "1:1: key 'version' is missing"),
        ("version: 2\nagents: {a: {}}\n", "1:10: 'version' should be 1"),
        ("version: 1\nagents: {}\n", "2:9: 'agents' should have at least 1 item after validation, not 0"),
        (an_agent("modle: x"), "3:7: unknown key 'modle'"),
        (an_agent("model_api_key: hush"), "3:7: unknown key 'model_api_key'"),
        (an_agent("max_steps: '5'"), "3:18: 'max_steps' should be a valid integer"),
        (an_agent("tools: null"), "3:14: 'tools' should be a valid list"),
        (an_agent("tools: [pya]"), "3:15: unknown tool 'pya', did you mean 'pay'?"),
        (an_agent("tools: [search, refund*]"), "3:23: pattern 'refund*' matches no tool"),
        (an_agent("model: m, model_api_key_env: NO_KEY"), "3:36: the environment variable NO_KEY is not set"),
        (an_agent("fallbacks: [{model: m, model_api_key_env: NO}]"), "3:49: the environment variable NO is not set"),
        (an_agent("model_api_base: 'http://x'"), "3:7: 'model_api_base' belongs to a model: name it with 'model'"),
        (an_agent("model_api_key_env: CLERK_KEY"), "3:7: 'model_api_key_env' belongs to a model: name it with 'model'"),
        (an_agent("budget: {tokens_per_day: 0}"), "3:32: 'tokens_per_day' should be greater than or equal to 1"),
        (an_agent("budget: {tokens: 5}"), "3:16: unknown key 'tokens'"),
        (an_agent("pending: hurry"), "3:16: 'pending' should be 'continue', 'wait' or 'supersede'"),
    ],
)
def test_a_mistake_is_told_by_its_place(tmp_path: Path, text: str, problem: str) -> None:
    """Line and column lead to what is wrong; secrets and unknown keys are refused, an empty key is not "all"."""
    assert [problem] == problems_of(tmp_path, text)


def test_a_name_is_one_that_messages_can_carry(tmp_path: Path) -> None:
    """An agent that no message could name is a mistake."""
    (problem,) = problems_of(tmp_path, "version: 1\nagents:\n  'a b': {}\n")
    assert problem.startswith("3:3: ")


def test_no_tools_are_no_tools(tmp_path: Path) -> None:
    """An empty list gives nothing, and a file that is missing is no file without agents."""
    path = tmp_path / "agents.yaml"
    path.write_text(an_agent("tools: []"))
    found = load_agents(path, catalog=SHOP).find("acme", "a")
    assert found is not None
    assert [] == found.tools
    with pytest.raises(RulebookInvalid, match="cannot be read"):
        load_agents(tmp_path / "none.yaml")

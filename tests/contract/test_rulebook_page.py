"""docs/rulebook.md is the reference: every key with its default, and every problem that a check can tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from placet.domain.catalog import ToolSpec
from placet.domain.directory_file import PersonEntry, SlackEntry
from placet.domain.duty_entries import GroupEntry, HoursEntry, OnCallEntry
from placet.domain.yaml_source import parse_yaml, read_yaml
from placet.policy.rulebook import load_rulebook, rulebook_from
from placet.policy.rulebook.entries import (
    ApprovalEntry,
    EscalationEntry,
    FileEntry,
    GrantTermsEntry,
    MatchEntry,
    PanelEntry,
    RuleEntry,
    RulingEntry,
    StageEntry,
)
from placet.policy.rules.cases import CaseEntry, CasesEntry, ExpectEntry, cases_from, run_cases
from placet.policy.rules.explain import CallEntry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "rulebook.md").read_text()
INVALID = ROOT / "tests" / "unit" / "policy" / "invalid"
EXAMPLES = sorted(ROOT.glob("deploy/examples/*.cases.yaml"))
#: The name of a tool is its key.
MODELS: dict[type[BaseModel], set[str]] = {
    FileEntry: set(),
    ToolSpec: {"name"},
    RuleEntry: set(),
    MatchEntry: set(),
    RulingEntry: set(),
    # No rule of a file asks what several rules ask; the commit of staged calls does.
    ApprovalEntry: {"also"},
    PanelEntry: set(),
    EscalationEntry: set(),
    GrantTermsEntry: set(),
    StageEntry: set(),
    PersonEntry: set(),
    SlackEntry: set(),
    GroupEntry: set(),
    HoursEntry: set(),
    OnCallEntry: set(),
    CasesEntry: set(),
    CaseEntry: set(),
    CallEntry: set(),
    ExpectEntry: set(),
}
#: Defaults that words say better than values.
IN_WORDS: dict[tuple[str, str], str] = {
    ("FileEntry", "tools"): "required",
    ("FileEntry", "defaults"): "none of its own",
    ("FileEntry", "fallback"): "`operators`",
    ("FileEntry", "channels"): "unchecked",
    ("FileEntry", "people"): "empty",
    ("FileEntry", "groups"): "empty",
    ("FileEntry", "owners"): "empty",
    ("ToolSpec", "summary"): "the call itself",
    ("RuleEntry", "match"): "every call",
    ("MatchEntry", "tool"): "`*`",
    ("MatchEntry", "requester"): "`*`",
    ("ApprovalEntry", "condition"): "none",
    ("ApprovalEntry", "on_message_while_pending"): "the agent's",
    ("ApprovalEntry", "while_pending"): "the agent's",
    ("HoursEntry", "days"): "Monday to Friday",
    ("ExpectEntry", "rule"): "not compared",
    ("ExpectEntry", "approvers"): "not compared",
    ("ExpectEntry", "approvals"): "not compared",
}


def documented(model: type[BaseModel]) -> dict[str, str]:
    """Return the keys and defaults of the table that stands for a model."""
    _, _, rest = PAGE.partition(f"<!-- fields: {model.__name__} -->\n")
    rows = rest.split("\n\n")[0].splitlines()[2:]
    cells = [row.strip("|").split("|") for row in rows]
    return {key.strip().strip("`"): default.strip() for key, default, *_ in cells}


def default_of(model: type[BaseModel], name: str) -> str:
    """Return a field's default as the page writes it."""
    field = model.model_fields[name]
    if (model.__name__, name) in IN_WORDS:
        return IN_WORDS[model.__name__, name]
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if value in ("", [], {}):
        return "empty"
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_key_stands_on_the_page_with_its_default(model: type[BaseModel]) -> None:
    """No key more, none less, and no default from yesterday."""
    names = model.model_fields.keys() - MODELS[model]
    assert {name: default_of(model, name) for name in names} == documented(model)


def told_problems() -> list[str]:
    """Return the texts of every problem that the tests of invalid rulebooks expect."""
    lines = [line for path in sorted(INVALID.glob("*.expected")) for line in path.read_text().splitlines()]
    return sorted({line.split(": ", 1)[1] for line in lines})


def patterns() -> list[re.Pattern[str]]:
    """Return the problems of the page's table, `…` standing for anything."""
    _, _, table = PAGE.partition("## What a check can say")
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    found = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    return [re.compile(".*".join(map(re.escape, text.split("…")))) for text in found]


@pytest.mark.parametrize("problem", told_problems())
def test_every_problem_is_explained(problem: str) -> None:
    """Who is told that something is wrong finds on the page what it means."""
    assert any(pattern.match(problem) for pattern in patterns())


def test_the_page_s_own_example_is_right() -> None:
    """It can be copied."""
    (first, cases) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    rulebook = rulebook_from(parse_yaml("example", first.encode()))
    _, found = cases_from(parse_yaml("cases", cases.encode()))
    assert [[]] == [result.differences for result in run_cases(found, rulebook).cases]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_decide_as_their_cases_say(path: Path) -> None:
    """Each example rulebook is right, and every one of its cases passes."""
    named, cases = cases_from(read_yaml(path))
    results = run_cases(cases, load_rulebook(path.parent / (named or ""))).cases
    assert [] == [(result.name, result.differences) for result in results if not result.passed]


def test_there_are_three_examples_and_each_has_cases() -> None:
    """A shop, deployments, a coding agent."""
    rulebooks = sorted(path.name for path in ROOT.glob("deploy/examples/*.yaml") if path.name.count(".") == 1)
    assert ["coding-agent.yaml", "deploy.yaml", "shop.yaml"] == rulebooks
    assert [name.replace(".yaml", ".cases.yaml") for name in rulebooks] == [path.name for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_cases_reach_every_rule_of_their_example(path: Path) -> None:
    """A rule that no case reaches is a rule that nobody has shown to work."""
    named, cases = cases_from(read_yaml(path))
    rules = {rule.name for rule in load_rulebook(path.parent / (named or "")).rules}
    assert set() == rules - {case.entry.expect.rule for case in cases}

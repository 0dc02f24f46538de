"""Reports of trials in words: the same values that the API answers, a line at a time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from placet.cli.trials import complaints, lines
from placet.domain.trials import (
    CaseResult,
    CasesReport,
    Change,
    CheckReport,
    Example,
    Explanation,
    Outcome,
    Report,
    Simulation,
)
from placet.domain.yaml_source import Problem

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
EXPLANATION = Explanation(
    effect="deny",
    rule="no",
    reason="Not here.",
    model_reason="not here.",
    notes=[],
    tried=[],
    deciders=[],
    approval=None,
)
SIMULATION = Simulation(
    rulebook_digest="0" * 64,
    calls=9,
    changed=2,
    renamed=0,
    granted=0,
    vetoed=0,
    complete=False,
    changes=[
        Change(
            before=Outcome(effect="allow", rule="small"),
            after=Outcome(effect="require_approval", rule="payments"),
            other_approval=False,
            count=2,
            examples=[Example(call_id="c1", judged_at=NOON, tool="pay", summary="")],
        )
    ],
)
CASES = CasesReport(
    passed=1,
    failed=1,
    cases=[
        CaseResult(name="good", line=3, passed=True, differences=[]),
        CaseResult(name="bad", line=7, passed=False, differences=["effect: expected deny, found allow"]),
    ],
)


@pytest.mark.parametrize(
    ("report", "said", "wrong"),
    [
        (CheckReport(file="f", valid=True, tools=5, rules=4), ["f: 5 tools, 4 rules, no problems"], []),
        (CheckReport(file="f", valid=True, tools=1, rules=1), ["f: 1 tool, 1 rule, no problems"], []),
        (CheckReport(file="f", valid=False, problems=[Problem("f", 2, 3, "odd")]), [], ["f:2:3: odd"]),
        (EXPLANATION, ["deny by no: Not here.", "the model hears: not here."], []),
        (CASES, ["f: 1 of 2 cases pass"], ["f:7: bad", "  effect: expected deny, found allow"]),
        (
            SIMULATION,
            [
                "9 calls replayed, 2 would be decided otherwise",
                "there were more; these are the newest",
                "2 of them: allow (small) → require_approval (payments)",
                "    c1  pay",
            ],
            [],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_report_is_told_and_what_is_wrong_apart(report: Report, said: list[str], wrong: list[str]) -> None:
    """What went well goes to standard output, complaints with their places to standard error."""
    assert (said, wrong) == (list(lines(report, "f")), list(complaints(report, "f")))


@pytest.mark.parametrize("report", [EXPLANATION, SIMULATION, CASES], ids=lambda value: type(value).__name__)
def test_a_report_comes_back_from_json_as_it_was(report: Report) -> None:
    """What the API answers is what the command line reads again, nothing lost."""
    assert report == type(report).model_validate(report.as_json())

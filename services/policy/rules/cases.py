"""A rulebook's own tests: calls with the verdicts that its author expects, in a YAML file beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, ValidationError

from placet.domain.trials import CaseResult, CasesReport
from placet.domain.yaml_source import WrittenEntry, YamlSource
from placet.policy.rules.explain import CallEntry, argument_problems
from placet.policy.rules.model import OPERATORS, Effect, Rulebook
from placet.policy.rules.verdicts import Verdict, judge


class ExpectEntry(WrittenEntry):
    """What a case expects. What is left out is not compared."""

    effect: Effect
    rule: Annotated[str | None, Field(description="The rule's name, or `default:<category>`.")] = None
    approvers: Annotated[
        list[str] | None, Field(description="Everybody who is asked, the alternatives included; in any order.")
    ] = None
    approvals: Annotated[int | None, Field(description="How many must approve, of `approvers` of the rule.")] = None


class CaseEntry(WrittenEntry):
    """One of `cases`."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    call: CallEntry
    expect: ExpectEntry


class CasesEntry(WrittenEntry):
    """The top of a file of cases."""

    rulebook: Annotated[str | None, Field(description="The rulebook that they test, beside this file.")] = None
    cases: Annotated[list[object], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Case:
    """One case, and where it stands."""

    entry: CaseEntry
    #: Line in its file, from 1.
    line: int


def cases_from(source: YamlSource) -> tuple[str | None, list[Case]]:
    """Return the rulebook that a file names and its cases; raise RulebookInvalid with everything wrong in it."""
    try:
        head = CasesEntry.model_validate(source.data)
    except ValidationError as error:
        source.report_validation(error, ())
        head = CasesEntry.model_construct(rulebook=None, cases=[])
    cases = []
    for index, body in enumerate(head.cases):
        try:
            entry = CaseEntry.model_validate(body)
        except ValidationError as error:
            source.report_validation(error, ("cases", index))
            continue
        cases.append(Case(entry, source.line_of(("cases", index))))
    source.check()
    return head.rulebook, cases


def run_cases(cases: list[Case], rulebook: Rulebook) -> CasesReport:
    """Return what became of each case, in their order."""
    results = [_run(case, rulebook) for case in cases]
    passed = sum(result.passed for result in results)
    return CasesReport(passed=passed, failed=len(results) - passed, cases=results)


def _run(case: Case, rulebook: Rulebook) -> CaseResult:
    entry = case.entry
    verdict = judge(entry.call.facts(rulebook), rulebook, only_tried=True)
    differences = _differences(entry.expect, verdict)
    if verdict.spec is not None:
        differences += [
            f"arguments: {problem}; the agent would never propose it"
            for problem in argument_problems(verdict.spec, entry.call.proposed)
        ]
    return CaseResult(name=entry.name, line=case.line, passed=not differences, differences=differences)


def _differences(expect: ExpectEntry, verdict: Verdict) -> list[str]:
    # Of a staged call whose rule names nobody, operators decide.
    approval = verdict.approval or (OPERATORS if verdict.plan else None)
    asked: set[str] = set()
    if approval is not None:
        panels = [*approval.alternatives, *(panel for demand in approval.also for panel in demand.panels)]
        asked = {*approval.approvers, *(each for panel in panels for each in panel.approvers)}
    pairs: list[tuple[str, object, object]] = [
        ("effect", expect.effect.value, verdict.effect.value),
        ("rule", expect.rule, verdict.rule),
        ("approvers", None if expect.approvers is None else sorted(set(expect.approvers)), sorted(asked)),
        ("approvals", expect.approvals, approval.approvals if approval else 0),
    ]
    return [
        f"{what}: expected {wanted}, found {found}"
        for what, wanted, found in pairs
        if wanted is not None and wanted != found
    ]

"""Reports of trials in words, one function each; for programs they are what the API answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from placet.domain.trials import CasesReport, CheckReport, Explanation, Report, Simulation


@singledispatch
def lines(report: Report, file: str) -> Iterator[str]:
    """Yield a report about `file` as lines for people; raise TypeError for a kind that nobody prints."""
    raise TypeError(f"no words for {type(report).__name__} of {file}")


@singledispatch
def complaints(report: Report, file: str) -> Iterator[str]:
    """Yield the lines of a report that say what is wrong, each with the place in `file`; none for most kinds."""
    del report, file
    yield from ()


@lines.register
def _(report: CheckReport, file: str) -> Iterator[str]:
    if not report.problems:
        yield f"{file}: {_count(report.tools, 'tool')}, {_count(report.rules, 'rule')}, no problems"
        yield from (f"note: {note}" for note in report.notes)


@complaints.register
def _(report: CheckReport, file: str) -> Iterator[str]:
    del file
    yield from map(str, report.problems)


@lines.register
def _(report: Explanation, file: str) -> Iterator[str]:
    del file
    yield f"{report.effect} by {report.rule}: {report.reason}"
    if report.model_reason:
        yield f"the model hears: {report.model_reason}"
    yield from (f"note: {note}" for note in report.notes)
    width = max((len(tried.rule) for tried in report.tried), default=0)
    for tried in report.tried:
        yield f"  {tried.rule:<{width}}  {tried.outcome.replace('_', ' ')}  {tried.why}".rstrip()
    if report.stage:
        yield f"staged: {', '.join(f'{name} {value}' for name, value in report.stage.items())}"
    for deciders in report.deciders:
        who = ", ".join(deciders.people) or "nobody"
        yield f"may approve: {deciders.approvals} of {', '.join(deciders.approvers)} (now {who})"


@lines.register
def _(report: CasesReport, file: str) -> Iterator[str]:
    yield f"{file}: {report.passed} of {len(report.cases)} cases pass"
    yield from (f"note: {note}" for note in report.notes)


@complaints.register
def _(report: CasesReport, file: str) -> Iterator[str]:
    for result in report.cases:
        if not result.passed:
            yield f"{file}:{result.line}: {result.name}"
            yield from (f"  {difference}" for difference in result.differences)


@lines.register
def _(report: Simulation, file: str) -> Iterator[str]:
    del file
    yield f"{report.calls} calls replayed, {report.changed} would be decided otherwise"
    if not report.complete:
        yield "there were more; these are the newest"
    yield from (f"note: {note}" for note in report.notes)
    for count, why in (
        (report.granted, "let through by a grant"),
        (report.vetoed, "held or refused by a veto window"),
        (report.commits, "commits of calls that are older, or would not be staged now"),
    ):
        if count:
            yield f"{count} of them not compared: {why}"
    for change in report.changes:
        before, after = (f"{each.effect} ({each.rule})" for each in (change.before, change.after))
        more = ", decided by others" if change.other_approval else ""
        yield f"{change.count} of them: {before} → {after}{more}"
        for example in change.examples:
            yield f"    {example.call_id}  {example.summary or example.tool}"


def _count(number: int, of: str) -> str:
    return f"{number} {of}" if number == 1 else f"{number} {of}s"

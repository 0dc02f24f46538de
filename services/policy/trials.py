"""Trying a rulebook for somebody who asks: checked, explained, tested or replayed, and never used.

What takes the processor long runs in a thread or page by page, so that calls are judged meanwhile.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

from placet.contracts.messages import RulebookTried, TryRulebook
from placet.domain.trials import Report
from placet.domain.yaml_source import Problem, RulebookInvalid, YamlSource, parse_yaml
from placet.policy.active import ActiveRulebook
from placet.policy.rulebook import rulebook_from
from placet.policy.rulebook.check import check_source
from placet.policy.rules import Rulebook
from placet.policy.rules.cases import cases_from, run_cases
from placet.policy.rules.explain import call_from, explain
from placet.policy.rules.simulate import Replay
from placet.policy.store import rulebooks
from placet.runtime.work import Work

#: Past proposals that one simulation replays at most.
REPLAYED_MAX = 20_000
#: How a text that was sent is called in problems.
RULEBOOK, CASES, CALL = "rulebook", "cases", "call"


async def try_rulebook(asked: TryRulebook, work: Work, active: ActiveRulebook) -> None:
    """Answer with the report of a trial, or with what is wrong in what was sent."""
    report: Report | None = None
    problems: list[Problem] = []
    try:
        report = await _report(asked, work, active.rulebook)
    except RulebookInvalid as error:
        problems = error.problems
    work.emit(
        RulebookTried(
            tenant=asked.tenant,
            trial_id=asked.trial_id,
            answer_to=asked.answer_to,
            report=report.as_json() if report else {},
            problems=[problem.as_json() for problem in problems],
        )
    )


async def _report(asked: TryRulebook, work: Work, active: Rulebook) -> Report:
    match asked.kind:
        case "check":
            return await asyncio.to_thread(_check, asked.rulebook, active)
        case "explain":
            return await asyncio.to_thread(_explain, asked, active)
        case "test":
            return await asyncio.to_thread(_test, asked, active)
        case "simulate":
            rulebook = await asyncio.to_thread(_rulebook, asked.rulebook, active)
            return await _simulate(asked, work, rulebook)


def _check(text: str, active: Rulebook) -> Report:
    return check_source(lambda: _source(RULEBOOK, text), RULEBOOK, active.directory)


def _explain(asked: TryRulebook, active: Rulebook) -> Report:
    rulebook = _rulebook(asked.rulebook, active)
    return explain(call_from(asked.call, rulebook, CALL), rulebook)


def _test(asked: TryRulebook, active: Rulebook) -> Report:
    _, cases = cases_from(_source(CASES, asked.cases))
    return run_cases(cases, _rulebook(asked.rulebook, active))


async def _simulate(asked: TryRulebook, work: Work, rulebook: Rulebook) -> Report:
    replay, complete = Replay(rulebook), True
    async for page in rulebooks.past_proposals(work, asked.tenant, timedelta(seconds=asked.since_seconds)):
        if replay.calls + len(page) > REPLAYED_MAX:
            complete = False
            break
        await asyncio.to_thread(replay.add, page)
    return replay.report(complete=complete)


def _rulebook(text: str, active: Rulebook) -> Rulebook:
    """Return the rulebook that was sent, or the active one. A file that the text names is never opened."""
    return rulebook_from(_source(RULEBOOK, text), active.directory) if text else active


def _source(name: str, text: str) -> YamlSource:
    return parse_yaml(name, text.encode())

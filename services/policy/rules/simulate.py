"""Replaying past proposals against another rulebook: what would have been different, how often, and for example.

Pure: the past is handed in page by page. Limits, grants and veto windows depend on what happened in between, so they
are not replayed: a call that a grant let through or a veto window held is left out, and a rule with limits may have
had room or not, whichever fits what happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from services.policy.rules.call import CallFacts
from services.policy.rules.explain import argument_problems
from services.policy.rules.model import Effect, Rulebook
from services.policy.rules.verdicts import Verdict, judge
from services.policy.rules.watched import VETO_WINDOW
from shared.catalog import render_summary
from shared.messages.approvals import ApprovalRule
from shared.trials import Change, Example, Outcome, Simulation

#: Examples kept of each kind of change.
EXAMPLES_MAX = 3
#: How the rule of a verdict begins that a grant took the place of.
GRANTED = "grant:"
#: What a call gets whose arguments do not fit the other rulebook's tool: the agent answers it itself.
INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Past:
    """One proposal of the past and the verdict that it got."""

    call: CallFacts
    effect: Effect
    rule: str
    #: Who decided it; None where nobody was asked.
    approval: ApprovalRule | None
    judged_at: datetime


@dataclass(slots=True)
class _Group:
    count: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass
class Replay:
    """Replays calls one by one against `rulebook`."""

    rulebook: Rulebook
    calls: int = 0
    renamed: int = 0
    granted: int = 0
    vetoed: int = 0
    _groups: dict[tuple[str, str, str, str, bool], _Group] = field(default_factory=dict)

    def add(self, past: Sequence[Past]) -> None:
        """Replay some calls, the newest first."""
        for each in past:
            self._add(each)

    def report(self, *, complete: bool = True) -> Simulation:
        """Return what was found so far."""
        changes = [
            Change(
                before=Outcome(effect=before, rule=before_rule),
                after=Outcome(effect=after, rule=after_rule),
                other_approval=other_approval,
                count=group.count,
                examples=group.examples,
            )
            for (before, before_rule, after, after_rule, other_approval), group in self._groups.items()
        ]
        return Simulation(
            rulebook_digest=self.rulebook.digest,
            calls=self.calls,
            changed=sum(change.count for change in changes),
            renamed=self.renamed,
            granted=self.granted,
            vetoed=self.vetoed,
            complete=complete,
            changes=sorted(changes, key=lambda change: -change.count),
        )

    def _add(self, past: Past) -> None:
        self.calls += 1
        if past.rule.startswith(GRANTED):
            self.granted += 1
            return
        if past.rule == VETO_WINDOW:
            self.vetoed += 1
            return
        effect, verdict = self._judged_now(past)
        if _same(past, effect, verdict):
            self.renamed += verdict.rule != past.rule
            return
        key = (past.effect.value, past.rule, effect, verdict.rule, effect == past.effect)
        group = self._groups.setdefault(key, _Group())
        group.count += 1
        if len(group.examples) < EXAMPLES_MAX:
            group.examples.append(_example(past, verdict))

    def _judged_now(self, past: Past) -> tuple[str, Verdict]:
        """Return the effect and verdict that the call would get from an agent that offers the tool as it is now."""
        call, spec = past.call, self.rulebook.tools.get(past.call.tool)
        if spec is None:
            verdict = judge(call, self.rulebook)
            return verdict.effect.value, verdict
        now = replace(call, schema_digest=spec.schema_digest)
        first = verdict = judge(now, self.rulebook)
        if spec.schema_digest != call.schema_digest and argument_problems(spec, call.arguments):
            return INVALID, first
        exhausted: set[str] = set()
        while verdict.demands and not _same(past, verdict.effect, verdict):
            exhausted.add(verdict.rule)
            verdict = judge(now, self.rulebook, exhausted)
        chosen = verdict if _same(past, verdict.effect, verdict) else first
        return chosen.effect.value, chosen


def _same(past: Past, effect: str, verdict: Verdict) -> bool:
    return effect == past.effect and verdict.approval == past.approval


def _example(past: Past, verdict: Verdict) -> Example:
    call, spec = past.call, verdict.spec
    summary = render_summary(spec, dict(call.arguments), "en") if spec else ""
    return Example(call_id=call.call_id, judged_at=past.judged_at, tool=call.tool, summary=summary)

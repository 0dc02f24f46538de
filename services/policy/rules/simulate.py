"""Replaying past proposals against another rulebook: what would have been different, how often, and for example.

Pure: the past is handed in page by page. Grants and veto windows depend on what people did in between, so a call that a
grant let through or a veto window held is left out. Limits are replayed in the order of time, as if every call that
they had room for had run and nothing had come before; so are counters of earlier calls, where none were looked at. A
commit is replayed with those of its calls that would be staged now; where none would be, or one is older than what is
replayed, it is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from placet.contracts.messages.approvals import ApprovalRule
from placet.contracts.messages.stage import COMMIT_TOOL
from placet.domain.catalog import render_summary
from placet.domain.trials import Change, Example, Outcome, Simulation
from placet.policy.rules.call import COUNTERS, CallFacts, facts_from
from placet.policy.rules.explain import argument_problems
from placet.policy.rules.grants import GRANTED
from placet.policy.rules.limits import Demand
from placet.policy.rules.model import Effect, Rulebook
from placet.policy.rules.staging import StagedEntry, wanted_entries
from placet.policy.rules.verdicts import VETO_WINDOW, Verdict, judge

#: Examples kept of each kind of change.
EXAMPLES_MAX = 3
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


@dataclass(frozen=True, slots=True)
class Kept:
    """The same as it is kept, which takes far less room than what it says."""

    #: What the rules looked at, UTF-8, beside `columns`.
    facts: bytes
    columns: Mapping[str, str]
    effect: str
    rule: str
    #: JSON text; None where nobody was asked.
    approval: str | None
    judged_at: datetime

    def read(self) -> Past:
        """Return what it says."""
        approval = ApprovalRule.model_validate_json(self.approval) if self.approval else None
        return Past(facts_from(self.facts, self.columns), Effect(self.effect), self.rule, approval, self.judged_at)


@dataclass(slots=True)
class _Group:
    count: int = 0
    examples: list[Example] = field(default_factory=list)


@dataclass(slots=True)
class _Window:
    """What was taken of one limit within its window, the oldest first."""

    taken: deque[tuple[datetime, Decimal]] = field(default_factory=deque)
    total: Decimal = Decimal(0)

    def slide(self, since: datetime) -> None:
        """Forget what was taken until then."""
        while self.taken and self.taken[0][0] <= since:
            self.total -= self.taken.popleft()[1]


@dataclass
class Replay:
    """Replays calls one by one against `rulebook`."""

    rulebook: Rulebook
    calls: int = 0
    renamed: int = 0
    granted: int = 0
    vetoed: int = 0
    commits: int = 0
    _past: list[Past | Kept] = field(default_factory=list)
    #: Calls that were staged -> what a commit would have of each by now; None: it would not be staged.
    _staged: dict[str, StagedEntry | None] = field(default_factory=dict)
    _groups: dict[tuple[str, str, str, str, bool], _Group] = field(default_factory=dict)
    #: By counter and seconds.
    _windows: dict[tuple[str, int], _Window] = field(default_factory=dict)
    #: By tool and what calls share: when they were judged, the oldest first.
    _judged: dict[tuple[str, str, str], list[datetime]] = field(default_factory=dict)

    def add(self, past: Sequence[Past | Kept]) -> None:
        """Take some calls, the newest first."""
        self._past += past
        self.calls += len(past)

    def report(self, *, complete: bool = True) -> Simulation:
        """Replay what was taken and return what was found."""
        while self._past:
            past = self._past.pop()
            self._add(self._counted(past.read() if isinstance(past, Kept) else past))
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
            commits=self.commits,
            complete=complete,
            changes=sorted(changes, key=lambda change: -change.count),
        )

    def _counted(self, past: Past) -> Past:
        """Return the call with counters of earlier ones: those that it was judged with, else of what was replayed."""
        if not self.rulebook.uses_history:
            return past
        call, history = past.call, dict[str, int]()
        shared = {name: (call.tool, name, getattr(call, name)) for name, _ in COUNTERS.values()}
        for counter, (name, within) in COUNTERS.items():
            judged = self._judged.setdefault(shared[name], [])
            history[counter] = len(judged) - bisect_right(judged, past.judged_at - within)
        for key in shared.values():
            self._judged[key].append(past.judged_at)
        return replace(past, call=replace(call, history=history | dict(call.history)))

    def _add(self, past: Past) -> None:
        if past.call.tool == COMMIT_TOOL:
            self._add_commit(past)
            return
        if past.rule.startswith(GRANTED):
            self.granted += 1
            return
        if past.rule == VETO_WINDOW:
            self.vetoed += 1
            return
        effect, verdict = self._judged_now(past)
        if past.effect is Effect.STAGE:
            entry = verdict.tried_entry(past.call.call_id, past.call.requester)
            self._staged[past.call.call_id] = entry if effect == Effect.STAGE else None
        self._compare(past, effect, verdict)

    def _add_commit(self, past: Past) -> None:
        wanted = wanted_entries(past.call.arguments)
        entries = [entry for each in wanted if (entry := self._staged.get(each)) is not None]
        if not entries or not all(each in self._staged for each in wanted):
            self.commits += 1
            return
        arguments = {**past.call.arguments, "entries": [each.call_id for each in entries]}
        verdict = self._within_limits(replace(past.call, arguments=arguments, staged=tuple(entries)), past.judged_at)
        self._compare(past, verdict.effect.value, verdict)

    def _compare(self, past: Past, effect: str, verdict: Verdict) -> None:
        if _same(past, effect, verdict):
            self.renamed += verdict.rule != past.rule
            return
        key = (past.effect.value, past.rule, effect, verdict.rule, effect == past.effect)
        group = self._groups.setdefault(key, _Group())
        group.count += 1
        group.examples = [_example(past, verdict), *group.examples][:EXAMPLES_MAX]

    def _judged_now(self, past: Past) -> tuple[str, Verdict]:
        """Return the effect and verdict that the call would get from an agent that offers the tool as it is now."""
        call, spec = past.call, self.rulebook.tools.get(past.call.tool)
        if spec is None:
            verdict = judge(call, self.rulebook)
            return verdict.effect.value, verdict
        now = replace(call, schema_digest=spec.schema_digest)
        if spec.schema_digest != call.schema_digest and argument_problems(spec, call.arguments):
            return INVALID, judge(now, self.rulebook)
        verdict = self._within_limits(now, past.judged_at)
        return verdict.effect.value, verdict

    def _within_limits(self, call: CallFacts, at: datetime) -> Verdict:
        """Return the verdict on a call by the first rule whose limits have room for it, which it takes."""
        exhausted: set[str] = set()
        while (verdict := judge(call, self.rulebook, exhausted)).demands and not self._take(verdict.demands, at):
            exhausted.add(verdict.rule)
        return verdict

    def _take(self, demands: Sequence[Demand], at: datetime) -> bool:
        """Take what a call asks of every limit of a rule; False, and nothing is taken, where one has no room."""
        # Two limits of one counter and window take once.
        amounts = {(each.counter_id, each.within_seconds): each.amount for each in demands}
        windows = {key: self._windows.setdefault(key, _Window()) for key in amounts}
        for (_, seconds), window in windows.items():
            window.slide(at - timedelta(seconds=seconds))
        totals = {key: window.total + amounts[key] for key, window in windows.items()}
        if any(totals[each.counter_id, each.within_seconds] > each.at_most for each in demands):
            return False
        for key, window in windows.items():
            window.taken.append((at, amounts[key]))
            window.total = totals[key]
        return True


def _same(past: Past, effect: str, verdict: Verdict) -> bool:
    return effect == past.effect and verdict.approval == past.approval


def _example(past: Past, verdict: Verdict) -> Example:
    call, spec = past.call, verdict.spec
    summary = render_summary(spec, dict(call.arguments), "en") if spec else ""
    return Example(call_id=call.call_id, judged_at=past.judged_at, tool=call.tool, summary=summary)

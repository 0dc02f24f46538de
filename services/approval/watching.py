"""Says so when what waits cannot be approved by anybody as people and groups are now: a group that became empty, say.

It changes nothing: such an approval can still be denied by whom its rule names, and expires as a no.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from prometheus_client import Gauge

from placet.approval import store
from placet.approval.rules import Approval
from placet.domain import deciders
from placet.domain.directory import Directory
from placet.runtime.work import UnitOfWork

log = structlog.get_logger(__name__)

UNDECIDABLE = Gauge(
    "placet_approval_undecidable", "Pending approvals that nobody can approve as people and groups are now."
)
#: Approvals of one set that are looked at one by one, the newest, where it takes the call to say who may decide.
EACH_MAX = 200
#: People who are asked about in a set before the rest of it is left to later looks.
ASKED_MAX = 2_000
#: Where counting ends.
COUNT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Pending approvals of one rule that nobody can approve, and why."""

    tenant: str
    rule: str
    problem: str
    #: How many there are, at most COUNT_MAX; EACH_MAX where each was looked at.
    approvals: int
    #: One of them.
    approval_id: str


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was found of an approval as it was at a revision, by the people of then."""

    revision: int
    directory: Directory
    problem: str


@dataclass
class Watch:
    """Looks again and again; each finding is logged once, until it is gone."""

    units: UnitOfWork
    directory: Callable[[], Directory]
    _told: set[tuple[str, str, str]] = field(default_factory=set)
    #: By id of the approval: those of the last look that were judged one by one.
    _judged: dict[str, _Judged] = field(default_factory=dict)

    async def run_once(self) -> None:
        """Look once."""
        found = await self.look()
        UNDECIDABLE.set(sum(each.approvals for each in found))
        now = {(each.tenant, each.rule, each.problem): each for each in found}
        for key in now.keys() - self._told:
            each = now[key]
            ids = {"tenant": each.tenant, "rule": each.rule, "example": each.approval_id}
            log.warning("approval.undecidable", **ids, approvals=each.approvals, problem=each.problem)
        self._told = set(now)

    async def look(self) -> list[Finding]:
        """Return what nobody can approve now, set by set: as quick among very many approvals as among few."""
        directory, judged = self.directory(), dict[str, _Judged]()
        async with self.units.begin() as work:
            newest = await store.newest_of_sets(work.connection)
        found = [each for first in newest for each in await self._look_at(first, directory, judged)]
        self._judged = judged
        return found

    async def _look_at(self, first: Approval, directory: Directory, judged: dict[str, _Judged]) -> Sequence[Finding]:
        """Return what is found in the set of which `first` is the newest."""
        if not deciders.depends_on_call(first.approval_rule, deciders.named(first)):
            problem, _ = await _judge(first, directory)
            if not problem:
                return []
            async with self.units.begin() as work:
                return [_finding(first, problem, await store.count_set(work.connection, first, COUNT_MAX))]
        async with self.units.begin() as work:
            newest = await store.list_set(work.connection, first, EACH_MAX)
        found: dict[str, list[Approval]] = {}
        left = ASKED_MAX
        for approval in newest:
            known = self._judged.get(approval.approval_id)
            if left > 0 and (known is None or (approval.revision, directory) != (known.revision, known.directory)):
                problem, asked = await _judge(approval, directory)
                known, left = _Judged(approval.revision, directory, problem), left - asked
            if known is not None:
                judged[approval.approval_id] = known
                if known.problem:
                    found.setdefault(known.problem, []).append(approval)
        return [_finding(approvals[0], problem, len(approvals)) for problem, approvals in found.items()]


async def _judge(approval: Approval, directory: Directory) -> tuple[str, int]:
    """Return why nobody can approve it, empty where somebody can, and how many people were asked about for that.

    A condition may be dear, and a group large: decisions have their turn after each person.
    """
    problem, asked = "", 0
    for problem in deciders.person_by_person(approval, directory):  # noqa: B007 - the last one counts
        asked += 1
        await asyncio.sleep(0)
    return problem, asked


def _finding(approval: Approval, problem: str, approvals: int) -> Finding:
    return Finding(approval.call.tenant, approval.rule, problem, approvals, approval.approval_id)

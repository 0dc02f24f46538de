"""Says so when what waits cannot be approved by anybody as people and groups are now: a group that became empty, say.

It changes nothing: such an approval can still be denied by whom its rule names, and expires as a no.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from prometheus_client import Gauge

from placet.approval import store
from placet.approval.rules import Approval
from placet.domain import deciders
from placet.domain.directory import Directory
from placet.runtime.sql import Connection
from placet.runtime.work import UnitOfWork

log = structlog.get_logger(__name__)

UNDECIDABLE = Gauge(
    "placet_approval_undecidable", "Pending approvals that nobody can approve as people and groups are now."
)
#: Approvals of one set that are looked at one by one, the newest, where it takes the call to say who may decide.
EACH_MAX = 200
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


@dataclass
class Watch:
    """Looks again and again; each finding is logged once, until it is gone."""

    units: UnitOfWork
    directory: Callable[[], Directory]
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    async def run_once(self) -> int:
        """Look once; always 0, because there is nothing to go on with."""
        found = await self.look()
        UNDECIDABLE.set(sum(each.approvals for each in found))
        now = {(each.tenant, each.rule, each.problem): each for each in found}
        for key in now.keys() - self._told:
            each = now[key]
            ids = {"tenant": each.tenant, "rule": each.rule, "example": each.approval_id}
            log.warning("approval.undecidable", **ids, approvals=each.approvals, problem=each.problem)
        self._told = set(now)
        return 0

    async def look(self) -> list[Finding]:
        """Return what nobody can approve now, set by set: as quick among very many approvals as among few."""
        directory = self.directory()
        async with self.units.begin() as work:
            newest = await store.newest_of_sets(work.connection)
            return [each for first in newest for each in await _look_at(work.connection, first, directory)]


async def _look_at(connection: Connection, first: Approval, directory: Directory) -> Sequence[Finding]:
    """Return what is found in the set of which `first` is the newest."""
    if not deciders.depends_on_call(first.approval_rule, deciders.named(first)):
        problem = deciders.undecidable(first, directory)
        return [_finding(first, problem, await store.count_set(connection, first, COUNT_MAX))] if problem else []
    found: dict[str, list[Approval]] = {}
    for approval in await store.list_set(connection, first, EACH_MAX):
        if problem := deciders.undecidable(approval, directory):
            found.setdefault(problem, []).append(approval)
    return [_finding(approvals[0], problem, len(approvals)) for problem, approvals in found.items()]


def _finding(approval: Approval, problem: str, approvals: int) -> Finding:
    return Finding(approval.call.tenant, approval.rule, problem, approvals, approval.approval_id)

"""The duties of the clock: close what nobody decided in time; remind and escalate; index what has no words yet.

Any number of replicas may do them: each approval ends once, and each step is done once.
"""

from __future__ import annotations

import structlog

from services.approval import closing, notices, store
from services.approval.rules import timers
from services.approval.states import Event
from shared.signing import Signer
from shared.work import UnitOfWork

log = structlog.get_logger(__name__)


async def expire_overdue(units: UnitOfWork, most: int, signer: Signer) -> int:
    """Close up to `most` approvals that are overdue by the database clock; return how many there were."""
    async with units.begin() as work:
        expired = await store.expire_overdue(work.connection, most)
        votes = await store.votes_on(work.connection, expired)
        for approval in expired:
            cast = votes.get(approval.approval_id, ())
            closing.close(work, approval, Event.TIME_OUT, actor="clock", signer=signer, votes=cast)
    if expired:
        log.info("approval.expired", approvals=len(expired))
    return len(expired)


async def take_steps(units: UnitOfWork, most: int) -> int:
    """Do the next step of up to `most` approvals that have one due; return how many there were."""
    async with units.begin() as work:
        taken = [timers.take_step(approval) for approval in await store.lock_due(work.connection, most)]
        await store.save_steps(work.connection, [approval for approval, _ in taken])
        for approval, step in taken:
            closing.record(work, approval, step.kind, actor="clock", before=approval.state)
            closing.tell(work, approval, notices.stepped(approval, step))
    if taken:
        log.info("approval.stepped", approvals=len(taken))
    return len(taken)


async def index_words(units: UnitOfWork, most: int) -> int:
    """Let up to `most` approvals be searched that were opened before there were words; return how many there were."""
    async with units.begin() as work:
        indexed = await store.index_words(work.connection, most)
    if indexed:
        log.info("approval.indexed", approvals=indexed)
    return indexed

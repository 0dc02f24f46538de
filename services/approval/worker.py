"""The expiry duty: closes what nobody decided in time. Any number of replicas may do it; each approval ends once."""

from __future__ import annotations

import structlog

from services.approval import closing, store
from services.approval.states import Event
from shared.work import UnitOfWork

log = structlog.get_logger(__name__)


async def expire_overdue(units: UnitOfWork, most: int) -> int:
    """Close up to `most` approvals that are overdue by the database clock; return how many there were."""
    async with units.begin() as work:
        expired = await store.expire_overdue(work.connection, most)
        for approval in expired:
            closing.close(work, approval, Event.TIME_OUT, actor="clock")
    if expired:
        log.info("approval.expired", approvals=len(expired))
    return len(expired)

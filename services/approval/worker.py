"""The duties of the clock: close what nobody decided in time; remind and escalate; index the words of cards.

Any number of replicas may do them: each approval ends once, and each step is done once.
"""

from __future__ import annotations

from datetime import timedelta

from placet.approval import closing, notices, store
from placet.approval.rules import take_step
from placet.approval.states import Event
from placet.contracts.signing import Signer
from placet.runtime import points
from placet.runtime.work import UnitOfWork


async def expire_overdue(units: UnitOfWork, most: int, signer: Signer) -> int:
    """Close up to `most` approvals that are overdue by the database clock; return how many there were."""
    async with units.begin() as work:
        expired = await store.expire_overdue(work.connection, most)
        votes = await store.votes_on(work.connection, expired)
        closing.close_all(work, expired, Event.TIME_OUT, actor="clock", signer=signer, votes=votes)
        if expired:
            points.reached("approval.expiring")
    return len(expired)


async def take_steps(units: UnitOfWork, most: int) -> int:
    """Do the next step of up to `most` approvals that have one due; return how many there were."""
    async with units.begin() as work:
        taken = [take_step(approval) for approval in await store.lock_due(work.connection, most)]
        await store.save_steps(work.connection, [approval for approval, _ in taken])
        for approval, step in taken:
            closing.record(work, approval, step.kind, actor="clock", before=approval.state)
            closing.tell(work, approval, notices.stepped(approval, step))
    return len(taken)


async def index_words(units: UnitOfWork, most: int, behind: timedelta = timedelta(0)) -> int:
    """Let up to `most` changes of cards that are `behind` old be searched; return how many there were.

    One replica at a time does it.
    """
    async with units.database.transaction() as connection:
        return await store.index_words(connection, most, behind)

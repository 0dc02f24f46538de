"""What the notifier does with each message: it only notes that cards are due; the worker sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import structlog

from services.notifier import rules, store
from services.notifier.states import MACHINE, Event
from services.notifier.store import Added, News, Revised
from shared.consumer import Arrival
from shared.errors import Transient
from shared.gathering import waves
from shared.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed
from shared.work import Change, Work

log = structlog.get_logger(__name__)

N = TypeVar("N", ApprovalProgressed, ApprovalClosed)


async def announce(arrivals: Sequence[Arrival[ApprovalOpened]], work: Work) -> None:
    """Make one card per channel due: calls wait for people."""
    opened = [each.message for each in arrivals]
    await store.add_deliveries(
        work, (Added(rules.card_of(each), each.revision, name) for each in opened for name in rules.channels_for(each))
    )


async def redraw(arrivals: Sequence[Arrival[ApprovalProgressed]], work: Work) -> None:
    """Make the cards due again: approvals moved on."""
    for progressed in await _revise(work, arrivals, rules.progress):
        raise _too_early(progressed)


async def close(arrivals: Sequence[Arrival[ApprovalClosed]], work: Work) -> None:
    """Let the cards say how it ended: approvals are over."""
    for closed in await _revise(work, arrivals, rules.closing):
        if not rules.may_be_unannounced(closed):
            raise _too_early(closed)
        log.info("approval.unannounced", approval_id=closed.approval_id, approval_state=closed.state)


async def _revise(work: Work, arrivals: Sequence[Arrival[N]], changes: Callable[[N], dict[str, Any]]) -> list[N]:
    """Make the cards due that can still change; return the news of approvals that have no card."""
    unannounced: list[N] = []
    for wave in waves(arrivals, key=lambda each: each.message.approval_id):
        messages = [each.message for each in wave]
        revised = await store.revise(work, [News(each.approval_id, each.revision, changes(each)) for each in messages])
        for each in wave:
            work.cause = each.cause
            work.record(*map(_change, revised.get(each.message.approval_id, ())))
        unannounced += [each for each in messages if each.approval_id not in revised]
    return unannounced


def _change(delivery: Revised) -> Change:
    after = MACHINE.next_state(delivery.before, Event.REVISED) if delivery.moved else delivery.before
    return Change(
        delivery.tenant, MACHINE.name, delivery.delivery_id, Event.REVISED, delivery.before, after, actor="notifier"
    )


def _too_early(news: ApprovalProgressed | ApprovalClosed) -> Transient:
    return Transient(f"approval {news.approval_id} was not announced yet")

"""What the notifier does with each message: it only notes that cards are due; the worker sends them."""

from __future__ import annotations

from typing import Any

import structlog

from services.notifier import rules, store
from services.notifier.states import MACHINE, Event, State
from shared.errors import Transient
from shared.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed
from shared.work import Change, Work

log = structlog.get_logger(__name__)


async def announce(opened: ApprovalOpened, work: Work) -> None:
    """Make one card per channel due: a call waits for people."""
    card = rules.card_of(opened)
    await store.add_deliveries(work, card, opened.revision, rules.channels_for(opened))


async def redraw(progressed: ApprovalProgressed, work: Work) -> None:
    """Make the cards due again: the approval moved on."""
    if not await _revise(work, progressed, rules.progress(progressed)):
        raise _too_early(progressed)


async def close(closed: ApprovalClosed, work: Work) -> None:
    """Let the cards say how it ended: the approval is over."""
    if await _revise(work, closed, rules.closing(closed)):
        return
    if not rules.may_be_unannounced(closed):
        raise _too_early(closed)
    log.info("approval.unannounced", approval_id=closed.approval_id, approval_state=closed.state)


async def _revise(work: Work, news: ApprovalProgressed | ApprovalClosed, changes: dict[str, Any]) -> bool:
    """Make the cards due that can still change; tell whether the approval has any card."""
    revised = await store.revise(work, news.approval_id, news.revision, changes)
    for delivery in revised:
        after = MACHINE.next_state(delivery.before, Event.REVISED) if delivery.moved else delivery.before
        work.record(_change(delivery, after))
    return bool(revised)


def _change(delivery: store.Revised, after: State) -> Change:
    return Change(
        delivery.tenant, MACHINE.name, delivery.delivery_id, Event.REVISED, delivery.before, after, actor="notifier"
    )


def _too_early(news: ApprovalProgressed | ApprovalClosed) -> Transient:
    return Transient(f"approval {news.approval_id} was not announced yet")

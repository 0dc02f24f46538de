"""What the notifier does with each message: it only notes that cards are due; the worker sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import structlog

from services.notifier import rules, store
from services.notifier.states import MACHINE, Event, State
from services.notifier.store import Added, News, Revised
from shared.consumer import Arrival
from shared.errors import Transient
from shared.gathering import waves
from shared.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed
from shared.work import Change, Work

log = structlog.get_logger(__name__)

N = TypeVar("N", ApprovalProgressed, ApprovalClosed)


async def announce(arrivals: Sequence[Arrival[ApprovalOpened]], work: Work) -> None:
    """Make one card per channel due: calls wait for people. Channels of escalations get theirs too, asleep."""
    await store.add_deliveries(work, (added for each in arrivals for added in _cards(each.message)))


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
        revised = await store.revise(work, [_news(each, changes) for each in messages])
        for each in wave:
            work.cause = each.cause
            work.record(*map(_change, revised.get(each.message.approval_id, ())))
        unannounced += [each for each in messages if each.approval_id not in revised]
    return unannounced


def _cards(opened: ApprovalOpened) -> Iterator[Added]:
    card, revision = rules.card_of(opened), opened.revision
    yield from (Added(card, revision, name, State.DUE) for name in rules.channels_for(opened))
    yield from (Added(card, revision, name, State.ASLEEP) for name in rules.later_channels_for(opened))


def _news(message: N, changes: Callable[[N], dict[str, Any]]) -> News:
    return News(message.approval_id, message.revision, changes(message), rules.woken(message))


def _change(delivery: Revised) -> Change:
    event = Event.ESCALATED if delivery.woken else Event.REVISED
    after = MACHINE.next_state(delivery.before, event) if delivery.moved else delivery.before
    return Change(delivery.tenant, MACHINE.name, delivery.delivery_id, event, delivery.before, after, actor="notifier")


def _too_early(news: ApprovalProgressed | ApprovalClosed) -> Transient:
    return Transient(f"approval {news.approval_id} was not announced yet")

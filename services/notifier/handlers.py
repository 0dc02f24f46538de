"""What the notifier does with each message: it only notes that cards are due; the worker sends them.

But for the log: its line is written as soon as the transaction is committed, because nobody keeps it waiting.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import structlog

from placet.contracts.errors import Refused, Transient
from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalCommented,
    ApprovalOpened,
    ApprovalProgressed,
    Message,
    RetryDelivery,
    RetryWebhookEvent,
    ToolCallFinished,
    ToolCallProgressed,
)
from placet.notifier import rules, store
from placet.notifier.announcing import Announcer
from placet.notifier.changes import change_of
from placet.notifier.channels.log import note, note_news
from placet.notifier.rules import Delivery, Moved
from placet.notifier.states import MACHINE, Event
from placet.notifier.store.askers import load_askers
from placet.notifier.store.calls import take
from placet.notifier.store.events import add_events, lock_event, restart_event
from placet.notifier.store.workspaces import load_plans
from placet.notifier.webhook_endpoints import Endpoint
from placet.notifier.webhook_events import heard
from placet.runtime.batcher import waves
from placet.runtime.consumer import Arrival
from placet.runtime.work import Cause, Change, UnitOfWork, Work
from placet.surfaces.plan import Plan

log = structlog.get_logger(__name__)

N = TypeVar("N", ApprovalProgressed, ApprovalClosed, ToolCallFinished, ToolCallProgressed)
C = TypeVar("C", ToolCallFinished, ToolCallProgressed)


async def hear(
    arrivals: Sequence[Arrival[Any]],
    work: Work,
    *,
    cards: Mapping[type[Message], Callable[..., Awaitable[None]] | None],
    announcer: Announcer,
    endpoints: Mapping[str, Endpoint],
) -> None:
    """Let `cards` do with messages what they mean for cards, and note what webhooks hear of them.

    One handler for all types: an envelope is one transaction, and takes its calls before anything else.
    """
    await take(work, [_call_of(each.message) for each in arrivals if cards[type(each.message)] is not None])
    for kind, run in groupby(arrivals, key=lambda each: type(each.message)):
        if draw := cards[kind]:
            await draw(list(run), work, announcer)
    events = (each for arrival in arrivals for each in heard(arrival.message, arrival.cause.id, endpoints, work.now))
    await add_events(work, events)


async def hear_quietly(
    arrivals: Sequence[Arrival[Any]],
    work: Work,
    *,
    cards: Callable[..., Awaitable[None]] | None,
    announcer: Announcer,
    units: UnitOfWork,
    queue: str,
) -> None:
    """Do the same where only the log hears of approvals, and store nothing, once it was seen that they have no cards.

    They have where a rule names a channel that is not here. A handler for `Once`. Lines of the log are no promise: an
    event that comes twice has two.
    """
    messages = [each.message for each in arrivals]
    if cards is None:
        return
    if any(map(announcer.may_have_card, messages)) and await _have_cards(messages, work, announcer):
        async with units.begin() as own:
            ids = [each.cause.id for each in arrivals]
            taken = await own.run(units.database.queries.take_new, queue=queue, ids=ids)
            fresh = {row["message_id"] for row in taken}
            new = [each for each in arrivals if each.cause.id in fresh]
            await take(own, [_call_of(each.message) for each in new])
            await cards(new, own, announcer)
        return
    told = [each for each in messages if announcer.may_have_card(each) and not isinstance(each, ApprovalProgressed)]
    work.act(*(partial(note_news, each) for each in told))


async def _have_cards(messages: Sequence[Any], work: Work, announcer: Announcer) -> bool:
    """Tell whether any of these approvals or calls has a card, or gets one."""
    if any(isinstance(each, ApprovalOpened) for each in messages):
        return any(announcer.has_card(each) for each in messages)
    return await store.have_cards(
        work,
        approval_ids=[each.approval_id for each in messages if isinstance(each, ApprovalProgressed | ApprovalClosed)],
        call_ids=[each.call_id for each in messages if isinstance(each, ToolCallFinished)],
    )


async def announce(arrivals: Sequence[Arrival[ApprovalOpened]], work: Work, announcer: Announcer) -> None:
    """Make one card per address due: calls wait for people. Addresses of escalations get theirs too, asleep."""
    shown = [each for each in arrivals if announcer.has_card(each.message)]
    for each in arrivals:
        if each not in shown:
            work.act(partial(note_news, each.message))
    plans = await load_plans(work, [each.message for each in shown], announcer.tools)
    askers = await load_askers(work, [each.message for each in shown])
    made = ((each.cause, added) for each in shown for added in _deliveries_of(each, work, announcer, plans, askers))
    await _add(work, made)


def _deliveries_of(
    arrival: Arrival[ApprovalOpened],
    work: Work,
    announcer: Announcer,
    plans: Mapping[str, Plan],
    askers: Mapping[str, str],
) -> Iterable[Delivery]:
    approval_id = arrival.message.approval_id
    plan, opened_by = plans.get(approval_id), askers.get(approval_id, "")
    # Its news may have been on their way when the house was backed up, or what it commits was staged before.
    is_old = work.restored_at is not None and arrival.time <= work.restored_at
    restored_at = work.restored_at if is_old or (plan is not None and plan.restored) else None
    return announcer.open(arrival.message, work.now, plan, restored_at=restored_at, opened_by=opened_by)


async def redraw(arrivals: Sequence[Arrival[ApprovalProgressed]], work: Work, announcer: Announcer) -> None:
    """Make the cards due again: approvals moved on. Who is asked too gets one now."""
    for wave in waves(arrivals, key=lambda each: each.message.approval_id):
        found = await store.lock_approvals(work, [each.message.approval_id for each in wave])
        joining = [
            (each.cause, added)
            for each in wave
            if each.message.approval_id in found
            for added in announcer.join(each.message, found[each.message.approval_id], work.now)
        ]
        await _move(work, wave, [found.get(each.message.approval_id, []) for each in wave], announcer.progress)
        await _add(work, joining)
        for each in wave:
            if each.message.approval_id not in found and announcer.has_channels:
                raise _too_early(each.message)


async def close(arrivals: Sequence[Arrival[ApprovalClosed]], work: Work, announcer: Announcer) -> None:
    """Let the cards say how it ended: approvals are over."""
    for wave in waves(arrivals, key=lambda each: each.message.approval_id):
        found = await store.lock_approvals(work, [each.message.approval_id for each in wave])
        await _move(work, wave, [found.get(each.message.approval_id, []) for each in wave], announcer.close)
        for each in wave:
            closed = each.message
            if closed.approval_id in found:
                continue
            if not announcer.has_channels:
                work.act(partial(note_news, closed))
                continue
            if not rules.may_be_unannounced(closed):
                raise _too_early(closed)
            log.debug("approval.unannounced", approval_id=closed.approval_id, approval_state=closed.state)


async def advance(arrivals: Sequence[Arrival[ToolCallProgressed]], work: Work, announcer: Announcer) -> None:
    """Let cards that change in place say how far the call is."""
    await _move_cards_of_calls(arrivals, work, announcer.advance)


async def finish(arrivals: Sequence[Arrival[ToolCallFinished]], work: Work, announcer: Announcer) -> None:
    """Let the cards say how the call itself ended. Most calls needed nobody's yes, and have no cards.

    News of a call that was held may come before the news that it waits: it comes again when the card is there.
    """

    def move(news: ToolCallFinished, found: list[Delivery], at: datetime) -> Iterable[Moved]:
        if news.held and not found and not announcer.has_channels:
            work.act(partial(note_news, news))
        elif news.held and not found:
            raise Transient(f"the approval of call {news.call_id} was not announced yet")
        return announcer.finish(news, found, at)

    await _move_cards_of_calls(arrivals, work, move)


async def command(
    arrivals: Sequence[Arrival[Any]], work: Work, *, handlers: Mapping[type[Message], Callable[..., Awaitable[None]]]
) -> None:
    """Give messages to their handlers one by one, once everything is taken that any of them is about."""
    messages = [each.message for each in arrivals]
    await take(
        work,
        [each.event_id for each in messages if isinstance(each, RetryWebhookEvent)],
        approval_ids=[each.approval_id for each in messages if isinstance(each, ApprovalCommented)],
        delivery_ids=[each.delivery_id for each in messages if isinstance(each, RetryDelivery)],
    )
    for each in arrivals:
        work.cause = each.cause
        await handlers[type(each.message)](each.message, work)


async def comment(message: ApprovalCommented, work: Work, *, announcer: Announcer) -> None:
    """Let the cards of an approval that have a thread tell what somebody said. Where there is none, nobody is told."""
    found = (await store.lock_approvals(work, [message.approval_id])).get(message.approval_id, [])
    moved = [each for each in announcer.comment(message, found, work.now) if each.changed]
    work.record(*map(change_of, moved))
    await store.change(work, [each.after for each in moved])


async def retry(message: RetryDelivery, work: Work) -> None:
    """Show a card again where it was given up: an operator wants it so."""
    delivery = await store.lock(work, message.delivery_id)
    if delivery is None or delivery.tenant != message.tenant:
        raise Refused(f"there is no delivery {message.delivery_id}")
    moved = rules.retried(delivery, work.now)
    work.record(change_of(moved, actor=message.by))
    await store.change(work, [moved.after] if moved.changed else [])


async def retry_event(message: RetryWebhookEvent, work: Work) -> None:
    """Post an event again that was given up: an operator wants it so. One that was not stays as it is."""
    found = await lock_event(work, message.event_id, message.tenant)
    if found is None:
        raise Refused(f"there is no webhook event {message.event_id}")
    state = MACHINE.after(found.state, Event.RETRIED)
    detail = {"channel": f"webhook:{found.webhook}", "type": found.type}
    change = Change(
        message.tenant,
        MACHINE.name,
        message.event_id,
        Event.RETRIED,
        found.state,
        state,
        actor=message.by,
        detail=detail,
    )
    work.record(change)
    if state is not found.state:
        await restart_event(work, message.event_id, state)


async def _move_cards_of_calls(
    arrivals: Sequence[Arrival[C]], work: Work, move: Callable[[C, list[Delivery], datetime], Iterable[Moved]]
) -> None:
    for wave in waves(arrivals, key=lambda each: each.message.call_id):
        found = await store.lock_calls(work, [each.message.call_id for each in wave])
        theirs = [_same_tenant(each.message, found.get(each.message.call_id, [])) for each in wave]
        await _move(work, wave, theirs, move)


async def _move(
    work: Work,
    arrivals: Sequence[Arrival[N]],
    found: Sequence[list[Delivery]],
    move: Callable[[N, list[Delivery], datetime], Iterable[Moved]],
) -> None:
    """Do to the deliveries found for each message what it means for them, and keep it in the history."""
    changed: list[Delivery] = []
    for each, deliveries in zip(arrivals, found, strict=True):
        work.cause = each.cause
        for moved in move(each.message, deliveries, work.now):
            work.record(change_of(moved))
            line = rules.noted(moved.after, work.now)
            if line.changed:
                _note(work, line)
            if line.after is not moved.before:
                changed.append(line.after)
    await store.change(work, changed)


async def _add(work: Work, opened: Iterable[tuple[Cause, Delivery]]) -> None:
    """Store new deliveries, each with what it goes back to; those that are there already stay as they are."""
    lines = [(cause, rules.noted(each, work.now)) for cause, each in opened]
    added = await store.add(work, (line.after for _, line in lines))
    for cause, line in lines:
        if line.changed and line.after.delivery_id in added:
            # What was announced twice is one delivery.
            added.discard(line.after.delivery_id)
            work.cause = cause
            _note(work, line)


def _note(work: Work, line: Moved) -> None:
    """Let the log have the line of a delivery after the commit."""
    work.record(change_of(line))
    work.act(partial(note, line.after.card))


def _call_of(news: Any) -> str:
    """Return the id of the call that news is about."""
    return str(news.call.call_id if isinstance(news, ApprovalOpened) else news.call_id)


def _same_tenant(news: ToolCallFinished | ToolCallProgressed, found: list[Delivery]) -> list[Delivery]:
    return [each for each in found if each.tenant == news.tenant]


def _too_early(news: ApprovalProgressed | ApprovalClosed) -> Transient:
    return Transient(f"approval {news.approval_id} was not announced yet")

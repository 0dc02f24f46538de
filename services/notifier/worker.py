"""Sends due cards: claim, act outside any transaction, settle.

Cards are sent one after the other. What becomes of them is written as it comes: while one transaction writes, the
next cards gather for the next one, so a quick channel costs one write a round and a slow one is never written late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from services.notifier import rules, store
from services.notifier.channels import Channel, ChannelFailed
from services.notifier.states import MACHINE, Event, State
from services.notifier.store import Settled
from services.notifier.tables import DeliveryRow
from shared.gathering import Gathering
from shared.work import Change, UnitOfWork

log = structlog.get_logger(__name__)

#: Cards that one round claims.
BATCH = 50

#: A delivery, and why sending it failed; empty where it was sent.
Tried = tuple[DeliveryRow, str]


class Worker:
    """Sends the cards of every tenant."""

    def __init__(self, units: UnitOfWork, channels: Mapping[str, Channel]) -> None:
        self._units = units
        self._channels = channels
        self._settling = Gathering(self._settle, size_max=BATCH)

    async def run_once(self) -> int:
        """Send what is due; return how many cards were tried if more may be due, else 0."""
        async with self._units.begin() as work:
            claimed = await store.claim_due(work, BATCH)
        settling: list[asyncio.Task[None]] = []
        try:
            for delivery in claimed:
                tried = (delivery, await self._send(delivery))
                settling.append(asyncio.create_task(self._settling.join(tried)))
        finally:
            await asyncio.gather(*settling)
        return len(claimed) if len(claimed) == BATCH else 0

    async def _send(self, delivery: DeliveryRow) -> str:
        """Return why sending failed, or nothing."""
        channel = self._channels.get(delivery.channel)
        if channel is None:
            return f"no channel is called {delivery.channel!r}"
        try:
            await channel.send(delivery.card, revision=delivery.revision)
        except ChannelFailed as error:
            return str(error)
        return ""

    async def _settle(self, tried: list[Tried]) -> None:
        """Write what became of cards, in one transaction."""
        async with self._units.begin() as work:
            settled = [_settled(delivery, error, work.now) for delivery, error in tried]
            written = await store.settle(work, settled)
            ours = [each for each in settled if each.claimed.delivery_id in written and each.state is not State.DUE]
            work.record(*(_change(each) for each in ours))
        for each in ours:
            if each.state is State.GIVEN_UP:
                ids = {"delivery_id": each.claimed.delivery_id, "channel": each.claimed.channel}
                log.error("delivery.given_up", **ids, reason=each.error)


def _settled(delivery: DeliveryRow, error: str, now: datetime) -> Settled:
    """Return what a delivery is after a try."""
    wait = rules.retry_after(delivery.attempt) if error else None
    if wait is not None:
        return Settled(delivery, State.DUE, error, delivery.sent_revision, now + timedelta(seconds=wait))
    state = MACHINE.next_state(State.DUE, _event(error))
    shown = delivery.sent_revision if error else delivery.revision
    return Settled(delivery, state, error, shown, delivery.due_at)


def _event(error: str) -> Event:
    return Event.FAILED_FOR_GOOD if error else Event.SUCCEEDED


def _change(settled: Settled) -> Change:
    delivery = settled.claimed
    return Change(
        tenant=delivery.tenant,
        machine=MACHINE.name,
        subject_id=delivery.delivery_id,
        event=_event(settled.error),
        from_state=State.DUE,
        to_state=settled.state,
        actor="notifier",
        detail={"approval_id": delivery.approval_id, "channel": delivery.channel, "revision": delivery.revision},
    )

"""Sends due cards: claim, act outside any transaction, settle.

One worker for each kind of channel, so that an outage of one is nothing to the others; and of one kind, who is slow
keeps nobody else: each place that is told has a round of its own, and no more than a part of the tries. What becomes of
cards is written as it comes: while one transaction writes, the next cards gather for the next one, so a quick channel
costs one write a round and a slow one is never written late.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import prometheus_client as metrics
import structlog

from placet.notifier import rules, store, undelivered
from placet.notifier.cards import Address
from placet.notifier.changes import change_of
from placet.notifier.channels import Channel, ChannelFailed, Delivered, JointChannel, sharing
from placet.notifier.claiming import Capacity, Manners, claim
from placet.notifier.rules import Delivery, Moved, Tried
from placet.notifier.send_round import failed_by_bug, in_turns, side_by_side
from placet.notifier.states import Event, State
from placet.notifier.store import ALL, Claims, Pause, SharedPlace
from placet.notifier.store.calls import take
from placet.runtime import points
from placet.runtime.batcher import Batcher
from placet.runtime.work import UnitOfWork

log = structlog.get_logger(__name__)

#: Cards and mails that are on their way at once, to all places of a kind.
AT_ONCE = 64
#: How long a claimed card belongs to its worker, and how long a channel may take for it: well within that.
LEASE_SECONDS = 60.0
SEND_SECONDS = 20.0

#: Tries in a row that must fail before a channel counts as failing: a mailbox may say once that it is busy.
FAILING = 2

FAILED = metrics.Counter("placet_delivery_tries_failed_total", "Tries of cards that failed, but for good.", ["channel"])
GIVEN_UP = metrics.Counter("placet_deliveries_given_up_total", "Cards that a channel could not show.", ["channel"])


class Worker:
    """Sends the cards of some kinds of channels, for every tenant."""

    def __init__(
        self,
        units: UnitOfWork,
        channels: Mapping[str, Channel],
        *,
        claims: Claims = ALL,
        manners: Manners | None = None,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self._units = units
        self._channels = channels
        self._claims = claims
        self._manners = manners or Manners()
        self._send_seconds = send_seconds
        self._settling = Batcher[Tried, None](self._settle, size_max=AT_ONCE, isolate=True)
        #: Tries of the last rounds, by the place that they are for; and whether the last look left anything due.
        self._tries: dict[SharedPlace, int] = {}
        self._more = False
        #: Tries of channels that failed since the last one that did not; with the tenants who share the channel.
        self._failed: Counter[tuple[str, ...]] = Counter()

    async def run_once(self) -> int:
        """Send until nothing is due and every try has ended; return 1 if more may be due, else 0."""
        await in_turns(self._begin)
        return int(self._more)

    async def _begin(self, busy: Collection[SharedPlace]) -> Mapping[SharedPlace, Iterable[Awaitable[None]]]:
        """Claim what is due at places that nothing is on its way to; return the tries for each of these."""
        self._tries = {place: self._tries[place] for place in busy}
        capacity = Capacity(AT_ONCE - sum(self._tries.values()), busy, self._place_told)
        if capacity.tries <= 0:
            return {}
        async with self._units.begin() as work:
            lease = timedelta(seconds=LEASE_SECONDS)
            mails, self._more = await claim(work, self._claims, self._manners, capacity, lease)
        begun: dict[SharedPlace, list[list[Delivery]]] = defaultdict(list)
        for mail in mails:
            begun[self._place_told(mail[0])].append(mail)
        self._tries |= {place: len(its) for place, its in begun.items()}
        return {place: map(self._deliver, its) for place, its in begun.items()}

    def _sharing(self, delivery: Delivery) -> tuple[str, ...]:
        return sharing(self._channels.get(delivery.address.kind), delivery.tenant)

    def _place_told(self, delivery: Delivery) -> SharedPlace:
        address = delivery.address
        return tuple((tenant, address.channel, address.recipient) for tenant in self._sharing(delivery))

    async def _deliver(self, together: list[Delivery]) -> None:
        tried = await self._send(together)
        self._tell_of_channel(tried[0])
        await side_by_side(self._settling.submit(each) for each in tried)

    async def _send(self, together: list[Delivery]) -> list[Tried]:
        """Show the cards of one mail, or the one card, and return what came of each."""
        address = together[0].address
        if unfit := self._unfit(address):
            return _failed(together, unfit, permanent=True)
        points.reached("notifier.sending")
        try:
            async with asyncio.timeout(self._send_seconds):
                shown = await self._show(together)
        except ChannelFailed as error:
            failed = _failed(together, str(error), error.retry_after, permanent=error.permanent)
            return [replace(each, reference=error.reference, refused=error.refused) for each in failed]
        except TimeoutError:
            return _failed(together, f"no answer within {self._send_seconds:g} s")
        except Exception as error:  # noqa: BLE001 - whatever a card does to its channel, its tries must end
            bug = failed_by_bug(error, channel=address.channel, approval_id=together[0].approval_id)
            return _failed(together, str(bug))
        points.reached("notifier.sent")
        return [
            Tried(each, reference=its.reference, shown=its.shown) for each, its in zip(together, shown, strict=True)
        ]

    def _unfit(self, address: Address) -> str:
        """Return why nothing is ever sent to an address; empty where something may be."""
        if address.kind in rules.PERSONAL and not address.recipient:
            return "nobody who may decide has an address here"
        if self._manners.told_at(address) != address:
            return "whose address it was is not active any more, or has another one"
        return "" if address.kind in self._channels else f"no channel is called {address.channel!r}"

    async def _show(self, together: list[Delivery]) -> list[Delivered]:
        first, channel = together[0], self._channels[together[0].address.kind]
        if len(together) > 1 and isinstance(channel, JointChannel):
            return await channel.send_joint([each.card for each in together], first.address, key=first.key)
        shown = [channel.send(each.card, each.address, each.reference, key=each.key) for each in together]
        return [await each for each in shown]

    def _tell_of_channel(self, tried: Tried) -> None:
        """Say when a channel begins to fail, and when it works again: cards are only given up long after."""
        channel, tenants = tried.claimed.address.channel, self._sharing(tried.claimed)
        key, whose = (channel, *tenants), {"tenants": tenants} if any(tenants) else {}
        if tried.error and not tried.permanent:
            FAILED.labels(tried.claimed.address.kind).inc()
            self._failed[key] += 1
            if self._failed[key] == FAILING:
                log.warning("channel.failing", channel=channel, **whose, reason=tried.error)
        elif not tried.error and self._failed.pop(key, 0) >= FAILING:
            log.info("channel.works", channel=channel, **whose)

    async def _settle(self, tried: list[Tried]) -> None:
        """Write what became of cards, in one transaction; of one that another worker has claimed since, nothing."""
        async with self._units.begin() as work:
            await take(work, [each.claimed.call_id for each in tried])
            now = await store.lock_claimed(work, [each.claimed for each in tried])
            moved = [
                rules.settled(now[each.claimed.delivery_id], each, work.now)
                for each in tried
                if each.claimed.delivery_id in now
            ]
            await store.settle(work, [each.after for each in moved])
            told = self._manners.told_at
            await store.add(work, (new for each in moved for new in undelivered.moved_to(each.after, told, work.now)))
            await store.pause(work, self._pauses(tried, work.now))
            work.record(*(change_of(each) for each in moved if each.after.state is not each.before.state))
        _tell_of(moved, self._channels)

    def _pauses(self, tried: Sequence[Tried], at: datetime) -> Iterator[Pause]:
        """Yield the rests that channels asked for: for all who share one, who would be told the same."""
        for each in tried:
            if each.retry_after_seconds:
                until = at + timedelta(seconds=each.retry_after_seconds)
                channel = each.claimed.address.channel
                yield from (Pause(tenant, channel, until) for tenant in self._sharing(each.claimed))


def _failed(
    together: Sequence[Delivery], error: str, retry_after: float | None = None, *, permanent: bool = False
) -> list[Tried]:
    failed = Tried(together[0], None, error, retry_after, permanent=permanent, refused=permanent)
    return [replace(failed, claimed=each) for each in together]


def _tell_of(moved: Sequence[Moved], channels: Collection[str]) -> None:
    for each in moved:
        if (each.event, each.after.state) == (Event.FAILED_FOR_GOOD, State.GIVEN_UP):
            address = each.after.address
            GIVEN_UP.labels(address.kind).inc()
            ids = {"delivery_id": each.after.delivery_id, "approval_id": each.after.approval_id}
            # Said once when the notifier starts: no line for each approval.
            say = log.error if address.kind in channels else log.debug
            say("delivery.given_up", **ids, channel=address.channel, reason=each.after.error)

"""Takes what is to be sent now: what its channel's pace, quiet hours and the cards that wait already leave over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate, pairwise

from placet.notifier import card_limits, joint_mails, store
from placet.notifier.card_limits import Limits
from placet.notifier.cards import Address
from placet.notifier.changes import change_of
from placet.notifier.quiet_hours import QuietHours, hush
from placet.notifier.rules import Delivery, Moved
from placet.notifier.store import Claims, Pause, SharedPlace
from placet.notifier.store.stops import saying_stops
from placet.runtime.work import UnitOfWork, Work

#: Addresses that one round recounts.
PLACES = 50


#: Part of the capacity that is left that one place may take: however many are silent, others find room.
_SHARE = 4


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much may be sent now beside what is on its way."""

    #: Cards and mails.
    tries: int
    #: Places that something is on its way to.
    busy: Collection[SharedPlace]
    #: The place that a delivery is told at: who is slow there is slow for all who share it.
    place_told: Callable[[Delivery], SharedPlace]


def _never(_delivery: Delivery) -> QuietHours | None:
    return None


def _there(address: Address) -> Address:
    return address


@dataclass(frozen=True)
class Manners:
    """How this installation treats channels and people."""

    limits: Limits = field(default_factory=Limits)
    #: Kind of channel -> cards a minute, for each tenant and channel.
    per_minute: Mapping[str, int] = field(default_factory=dict)
    hours_of: Callable[[Delivery], QuietHours | None] = _never
    #: Whether calls that one person is asked about within a short while share a mail.
    joins: bool = False
    #: Where whom an address means is told now; None where nowhere.
    told_at: Callable[[Address], Address | None] = _there


async def claim(
    work: Work, claims: Claims, manners: Manners, capacity: Capacity, lease: timedelta
) -> tuple[list[list[Delivery]], bool]:
    """Claim deliveries for this worker, until the lease runs out; tell too whether more may be due.

    Those of one list are told at once, by one mail; all others are lists of one.
    """
    found = await store.claimable(work, claims, capacity.tries, capacity.busy)
    hushed = hush(found, manners.hours_of, work.now)
    await store.change(work, [each.after for each in hushed])
    rest = _without(found, hushed)
    if manners.joins:
        rest += await _company(work, rest)
    rest = await _with_room(work, rest, manners.limits)
    mails = joint_mails.mails_of(rest) if manners.joins else [[each] for each in rest]
    mails = _in_part(mails, max(1, capacity.tries // _SHARE), capacity.place_told)
    mails = await _in_pace(work, mails, manners.per_minute)
    claimed = await store.claim(work, [each for mail in mails for each in mail], lease)
    claimed = await saying_stops(work, claimed)
    ends = list(accumulate(map(len, mails), initial=0))
    return [claimed[begin:end] for begin, end in pairwise(ends)], len(found) == capacity.tries


def _in_part(
    mails: list[list[Delivery]], share: int, place_told: Callable[[Delivery], SharedPlace]
) -> list[list[Delivery]]:
    """Return the mails without what is more than the share of its place."""
    places: dict[SharedPlace, list[list[Delivery]]] = defaultdict(list)
    for mail in mails:
        places[place_told(mail[0])].append(mail)
    return [mail for its in places.values() for mail in its[:share]]


async def _company(work: Work, due: list[Delivery]) -> list[Delivery]:
    """Return what waits for others and goes out with what is due; it is locked, and waits for no lock."""
    sharing = [each for each in due if joint_mails.may_share(each)]
    return joint_mails.company(due, await store.company(work, sharing, joint_mails.CALLS_MAX)) if sharing else []


async def _in_pace(work: Work, mails: list[list[Delivery]], per_minute: Mapping[str, int]) -> list[list[Delivery]]:
    """Return what the pace of its channel lets through; a mail counts once, whatever it lists."""
    first = [mail[0] for mail in mails]
    lanes = {card_limits.lane_of(each) for each in first if each.address.kind in per_minute}
    if not lanes:
        return mails
    spoken_for = await store.pace(work, lanes)
    let, until = card_limits.in_pace(first, spoken_for, per_minute, work.now)
    await store.pause(work, (Pause(*lane, at) for lane, at in until.items()))
    through = {each.delivery_id for each in let}
    return [mail for mail in mails if mail[0].delivery_id in through]


async def _with_room(work: Work, found: list[Delivery], limits: Limits) -> list[Delivery]:
    """Return what there is room for, and keep the rest back; what another transaction counts is left to the next look.

    These deliveries are locked, and a recount locks addresses first: waiting for one here would be a deadlock.
    """
    places = {card_limits.place_of(each) for each in found if card_limits.is_held_up(each)} if limits.exist else set()
    if not places:
        return found
    free = await store.try_places(work, places)
    found = [each for each in found if not card_limits.is_held_up(each) or card_limits.place_of(each) in free]
    kept = card_limits.keep_back(found, await store.shown_at(work, free), limits)
    await store.change(work, [each.after for each in kept])
    work.record(*map(change_of, kept))
    return _without(found, kept)


async def recount(units: UnitOfWork, limits: Limits) -> int:
    """Let through what there is room for again, and put right what cards count; one address a transaction.

    Return how many addresses were looked at if more may wait, else 0.
    """
    async with units.begin() as work:
        places = await store.crowded(work, PLACES)
    for place in places:
        async with units.begin() as work:
            await _recount(work, place, limits)
    return len(places) if len(places) == PLACES else 0


async def _recount(work: Work, place: store.Place, limits: Limits) -> None:
    """Recount one address. What others have locked counts as it is, and is moved at the next look."""
    await store.queue_up(work, [place])
    waiting, free = await store.waiting_at(work, place)
    waiting.sort(key=lambda each: (each.approval_id, each.delivery_id))
    moved = [each for each in card_limits.recount(waiting, limits, work.now) if each.before.delivery_id in free]
    await store.change(work, [each.after for each in moved])
    work.record(*(change_of(each) for each in moved if each.after.state is not each.before.state))


def _without(deliveries: list[Delivery], moved: list[Moved]) -> list[Delivery]:
    gone = {each.before.delivery_id for each in moved}
    return [each for each in deliveries if each.delivery_id not in gone]

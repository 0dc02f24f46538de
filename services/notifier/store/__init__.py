"""All SQL of the notifier. What is stored is what the rules say; a worker whose lease ran out settles nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from placet.notifier.cards import DOUBT, Address, as_json, from_json
from placet.notifier.rules import Delivery
from placet.notifier.states import State
from placet.runtime.queries import Query, load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__)
#: What a delivery and its row have alike.
_ALIKE = tuple(each.name for each in fields(Delivery) if each.name not in {"address", "state", "card"})

#: Tenant, channel, recipient.
Place: TypeAlias = tuple[str, ...]
#: What is one place for some tenants, as each of them has it; an empty tenant stands for all of them.
SharedPlace: TypeAlias = tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Claims:
    """Which deliveries a worker claims: those of some kinds of channels, or all others; of every kind by default."""

    kinds: tuple[str, ...] = ()
    among: bool = False


ALL = Claims()


@dataclass(frozen=True, slots=True)
class Pause:
    """A channel that sends nothing for a tenant, or for any where `tenant` is empty, before `free_at`."""

    tenant: str
    channel: str
    free_at: datetime


async def add(work: Work, deliveries: Iterable[Delivery]) -> set[str]:
    """Store deliveries and return the ids of the new ones; one that is there already stays as it is."""
    added: dict[str, Delivery] = {}
    for each in deliveries:
        added.setdefault(each.delivery_id, each)
    rows = await work.run(QUERIES.add, added=_rows(added.values()), now=work.now) if added else []
    return {row["delivery_id"] for row in rows}


async def lock_approvals(work: Work, approval_ids: Collection[str]) -> dict[str, list[Delivery]]:
    """Lock the deliveries of approvals whose calls were taken; return them by approval."""
    return await _lock(work, QUERIES.lock_approvals, approval_ids, "approval_id")


async def lock_calls(work: Work, call_ids: Collection[str]) -> dict[str, list[Delivery]]:
    """Lock the deliveries of the approvals of calls that were taken; return them by call."""
    return await _lock(work, QUERIES.lock_calls, call_ids, "call_id")


async def have_cards(work: Work, *, approval_ids: Sequence[str], call_ids: Sequence[str]) -> bool:
    """Tell whether any of these approvals, or of those of these calls, has deliveries."""
    return bool(await work.run(QUERIES.have_cards, approval_ids=approval_ids, call_ids=call_ids))


async def change(work: Work, deliveries: Sequence[Delivery]) -> None:
    """Write what news or an operator made of locked deliveries; who is sending one keeps its lease."""
    if deliveries:
        await work.run(QUERIES.change, changed=_rows(deliveries))


async def claimable(work: Work, claims: Claims, limit: int, busy: Collection[SharedPlace]) -> list[Delivery]:
    """Lock and return due deliveries that nobody sends and whose channel does not rest, the longest due first.

    `busy` are places that are passed over.
    """
    passed = [" ".join(place) for shared in busy for place in shared]
    rows = await work.run(QUERIES.claimable, kinds=claims.kinds, among=claims.among, most=limit, busy=passed)
    return [_delivery(row) for row in rows]


async def company(work: Work, deliveries: Iterable[Delivery], limit: int) -> list[Delivery]:
    """Lock and return what may go out in the mails of these deliveries: first asks at the same addresses.

    `limit` is how many calls a mail has at most: each that was tried before has all of its own again.
    """
    deliveries = list(deliveries)
    places = {(each.tenant, each.address.channel, each.address.recipient) for each in deliveries}
    joints = sorted({each.joint for each in deliveries if each.joint})
    rows = await work.run(QUERIES.company, places=_places(places), joints=joints, most=limit * (1 + len(joints)))
    return [_delivery(row) for row in rows]


async def claim(work: Work, deliveries: Sequence[Delivery], lease: timedelta) -> list[Delivery]:
    """Claim locked deliveries for this worker: nobody else sends them until the lease runs out.

    They are stored as in doubt until the try is settled, and returned as they were.
    """
    if deliveries:
        ids, joints = [each.delivery_id for each in deliveries], [each.joint for each in deliveries]
        await work.run(QUERIES.claim, ids=ids, joints=joints, lease=lease, doubt={DOUBT: "yes"})
    return [replace(each, fence=each.fence + 1, attempt=each.attempt + 1) for each in deliveries]


async def lock_claimed(work: Work, claimed: Iterable[Delivery]) -> dict[str, Delivery]:
    """Lock claimed deliveries whose calls were taken; return those by id that nobody has claimed since."""
    fences = {each.delivery_id: each.fence for each in claimed}
    locked = await _lock(work, QUERIES.lock, fences, "delivery_id")
    return {key: each for key, (each,) in locked.items() if each.fence == fences[key]}


async def settle(work: Work, deliveries: Sequence[Delivery]) -> None:
    """Write what became of locked deliveries after a try, and let go of them."""
    if deliveries:
        await work.run(QUERIES.settle, settled=_rows(deliveries))


async def pause(work: Work, pauses: Iterable[Pause]) -> None:
    """Let channels rest; a longer rest that was said before stays."""
    latest: dict[tuple[str, str], datetime] = {}
    for each in pauses:
        key = each.tenant, each.channel
        latest[key] = max(each.free_at, latest.get(key, each.free_at))
    rows = [{"tenant": tenant, "channel": channel, "free_at": at} for (tenant, channel), at in latest.items()]
    if rows:
        await work.run(QUERIES.pause, paces=rows)


async def pace(work: Work, lanes: Iterable[tuple[str, str]]) -> dict[tuple[str, str], datetime]:
    """Lock and return until when the channels of tenants are spoken for."""
    rows = [{"tenant": tenant, "channel": channel} for tenant, channel in sorted(lanes)]
    found = await work.run(QUERIES.pace, paces=rows)
    return {(row["tenant"], row["channel"]): row["free_at"] for row in found}


async def queue_up(work: Work, places: Iterable[Place]) -> None:
    """Return when no other transaction counts what waits at these addresses.

    Addresses come before deliveries: who has locked deliveries waits for no address, but asks `try_places`.
    """
    await work.run(QUERIES.queue_up, places=_places(places))


async def try_places(work: Work, places: Iterable[Place]) -> set[Place]:
    """Return those of these addresses at which no other transaction counts what waits; it waits for none."""
    return {_place(row) for row in await work.run(QUERIES.try_places, places=_places(places))}


async def shown_at(work: Work, places: Iterable[Place]) -> dict[Place, Counter[str]]:
    """Return how many cards of each topic wait at addresses and are shown there, or are being sent."""
    shown: dict[Place, Counter[str]] = defaultdict(Counter)
    for row in await work.run(QUERIES.shown, places=_places(places)):
        shown[_place(row)][row["topic"]] = row["cards"]
    return shown


async def crowded(work: Work, limit: int) -> list[Place]:
    """Return addresses where cards are kept back, or where a card says that some are."""
    return [_place(row) for row in await work.run(QUERIES.crowded, most=limit)]


async def waiting_at(work: Work, place: Place) -> tuple[list[Delivery], set[str]]:
    """Return what waits at an address, shown or kept back, and the ids of what could be locked without waiting."""
    (here,) = _places([place])
    free = {row["delivery_id"] for row in await work.run(QUERIES.free, **here)}
    return [_delivery(row) for row in await work.run(QUERIES.waiting, **here)], free


async def untold(work: Work, limit: int) -> list[str]:
    """Return pending approvals that may be known to nobody: a card of theirs was given up, or comes too late."""
    return [row["approval_id"] for row in await work.run(QUERIES.untold, most=limit)]


async def lock(work: Work, delivery_id: str) -> Delivery | None:
    """Lock and return one delivery whose call was taken; None where there is none."""
    found = await _lock(work, QUERIES.lock, [delivery_id], "delivery_id")
    return found[delivery_id][0] if found else None


async def load(work: Work, delivery_ids: Collection[str]) -> list[Delivery]:
    """Return deliveries that this transaction has locked already."""
    return [_delivery(row) for row in await work.run(QUERIES.load, ids=list(delivery_ids))]


def _place(row: Mapping[str, str]) -> Place:
    return row["tenant"], row["channel"], row["recipient"]


def _places(places: Iterable[Place]) -> list[dict[str, str]]:
    return [dict(zip(("tenant", "channel", "recipient"), place, strict=True)) for place in places]


async def _lock(work: Work, query: Query, ids: Collection[str], key: str) -> dict[str, list[Delivery]]:
    found: dict[str, list[Delivery]] = defaultdict(list)
    for row in await work.run(query, ids=list(ids), taken=list(work.held)):
        found[row[key]].append(_delivery(row))
    return found


def _delivery(row: Mapping[str, Any]) -> Delivery:
    return Delivery(
        address=Address(row["channel"], row["recipient"], row["person"]),
        state=State(row["state"]),
        card=from_json(row["card"]),
        **{name: row[name] for name in _ALIKE},
    )


def _rows(deliveries: Iterable[Delivery]) -> list[dict[str, Any]]:
    return [
        {name: getattr(each, name) for name in _ALIKE}
        | asdict(each.address)
        | {"state": each.state, "card": as_json(each.card), "pending": each.card.is_open}
        for each in deliveries
    ]

"""All SQL of the notifier. What is stored is what the rules say; a worker whose lease ran out settles nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import sqlalchemy as sa
from pydantic_core import to_jsonable_python

from placet.notifier.cards import Address, as_json, from_json
from placet.notifier.rules import Delivery
from placet.notifier.states import State
from placet.notifier.store import statements
from placet.runtime.work import Work

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
    if not added:
        return set()
    rows = [_row(each) for each in added.values()]
    return set((await work.connection.execute(statements.ADD, {"added": rows, "now": work.now})).scalars())


async def lock_approvals(work: Work, approval_ids: Collection[str]) -> dict[str, list[Delivery]]:
    """Lock the deliveries of approvals whose calls were taken; return them by approval."""
    return await _lock(work, statements.LOCK_APPROVALS, approval_ids, lambda each: each.approval_id)


async def lock_calls(work: Work, call_ids: Collection[str]) -> dict[str, list[Delivery]]:
    """Lock the deliveries of the approvals of calls that were taken; return them by call."""
    return await _lock(work, statements.LOCK_CALLS, call_ids, lambda each: each.call_id)


async def have_cards(work: Work, *, approval_ids: Sequence[str], call_ids: Sequence[str]) -> bool:
    """Tell whether any of these approvals, or of those of these calls, has deliveries."""
    asked = {"approval_ids": list(approval_ids), "call_ids": list(call_ids)}
    return (await work.connection.execute(statements.HAVE_CARDS, asked)).first() is not None


async def change(work: Work, deliveries: Sequence[Delivery]) -> None:
    """Write what news or an operator made of locked deliveries; who is sending one keeps its lease."""
    if deliveries:
        await work.connection.execute(statements.CHANGE, {"changed": [_row(each) for each in deliveries]})


async def note(work: Work, deliveries: Sequence[Delivery]) -> None:
    """Write what news made of locked deliveries, and that they show it already."""
    if deliveries:
        await work.connection.execute(statements.NOTE, {"noted": [_row(each) for each in deliveries]})


async def claimable(work: Work, claims: Claims, limit: int, busy: Collection[SharedPlace]) -> list[Delivery]:
    """Lock and return due deliveries that nobody sends and whose channel does not rest, the longest due first.

    `busy` are places that are passed over.
    """
    passed = [" ".join(place) for shared in busy for place in shared]
    asked = {"kinds": list(claims.kinds), "known": claims.among, "most": limit, "busy": passed}
    return [_delivery(row) for row in await work.connection.execute(statements.CLAIMABLE, asked)]


async def company(work: Work, deliveries: Iterable[Delivery], limit: int) -> list[Delivery]:
    """Lock and return what may go out in the mails of these deliveries: first asks at the same addresses."""
    deliveries = list(deliveries)
    places = {(each.tenant, each.address.channel, each.address.recipient) for each in deliveries}
    joints = sorted({each.joint for each in deliveries if each.joint})
    asked = {"places": _places(places), "joints": joints, "most": limit}
    return [_delivery(row) for row in await work.connection.execute(statements.COMPANY, asked)]


async def claim(work: Work, deliveries: Sequence[Delivery], lease: timedelta) -> list[Delivery]:
    """Claim locked deliveries for this worker: nobody else sends them until the lease runs out.

    They are stored as in doubt until the try is settled, and returned as they were.
    """
    if deliveries:
        ids = [each.delivery_id for each in deliveries]
        await work.connection.execute(statements.CLAIM, {"ids": ids, "lease": lease})
    if joined := [{"delivery_id": each.delivery_id, "joint": each.joint} for each in deliveries if each.joint]:
        await work.connection.execute(statements.JOIN, {"joined": joined})
    return [replace(each, fence=each.fence + 1, attempt=each.attempt + 1) for each in deliveries]


async def lock_claimed(work: Work, claimed: Iterable[Delivery]) -> dict[str, Delivery]:
    """Lock claimed deliveries whose calls were taken; return those by id that nobody has claimed since."""
    fences = {each.delivery_id: each.fence for each in claimed}
    locked = await _lock(work, statements.LOCK, fences, lambda each: each.delivery_id)
    return {key: each for key, (each,) in locked.items() if each.fence == fences[key]}


async def settle(work: Work, deliveries: Sequence[Delivery]) -> None:
    """Write what became of locked deliveries after a try, and let go of them."""
    if deliveries:
        await work.connection.execute(statements.SETTLE, {"settled": [_row(each) for each in deliveries]})


async def pause(work: Work, pauses: Iterable[Pause]) -> None:
    """Let channels rest; a longer rest that was said before stays."""
    latest: dict[tuple[str, str], datetime] = {}
    for each in pauses:
        key = each.tenant, each.channel
        latest[key] = max(each.free_at, latest.get(key, each.free_at))
    rows = [{"tenant": tenant, "channel": channel, "free_at": at} for (tenant, channel), at in latest.items()]
    if rows:
        await work.connection.execute(statements.PAUSE, {"paces": to_jsonable_python(rows)})


async def pace(work: Work, lanes: Iterable[tuple[str, str]]) -> dict[tuple[str, str], datetime]:
    """Lock and return until when the channels of tenants are spoken for."""
    rows = [{"tenant": tenant, "channel": channel} for tenant, channel in sorted(lanes)]
    found = await work.connection.execute(statements.PACE, {"paces": rows})
    return {(row.tenant, row.channel): row.free_at for row in found}


async def queue_up(work: Work, places: Iterable[Place]) -> None:
    """Return when no other transaction counts what waits at these addresses.

    Addresses come before deliveries: who has locked deliveries waits for no address, but asks `try_places`.
    """
    await work.connection.execute(statements.QUEUE_UP, {"places": _places(places)})


async def try_places(work: Work, places: Iterable[Place]) -> set[Place]:
    """Return those of these addresses at which no other transaction counts what waits; it waits for none."""
    found = await work.connection.execute(statements.TRY_PLACES, {"places": _places(places)})
    return {(row.tenant, row.channel, row.recipient) for row in found}


async def shown_at(work: Work, places: Iterable[Place]) -> dict[Place, Counter[str]]:
    """Return how many cards of each topic wait at addresses and are shown there, or are being sent."""
    shown: dict[Place, Counter[str]] = defaultdict(Counter)
    for row in await work.connection.execute(statements.SHOWN, {"places": _places(places)}):
        shown[row.tenant, row.channel, row.recipient][row.topic] = row.cards
    return shown


async def crowded(work: Work, limit: int) -> list[Place]:
    """Return addresses where cards are kept back, or where a card says that some are."""
    found = await work.connection.execute(statements.CROWDED, {"most": limit})
    return [(row.tenant, row.channel, row.recipient) for row in found]


async def waiting_at(work: Work, place: Place) -> tuple[list[Delivery], set[str]]:
    """Return what waits at an address, shown or kept back, and the ids of what could be locked without waiting."""
    asked = {"places": _places([place])}
    free = set((await work.connection.execute(statements.FREE, asked)).scalars())
    return [_delivery(row) for row in await work.connection.execute(statements.WAITING, asked)], free


async def untold(work: Work, limit: int) -> list[str]:
    """Return pending approvals that may be known to nobody: a card of theirs was given up, or comes too late."""
    return list((await work.connection.execute(statements.UNTOLD, {"most": limit})).scalars())


async def lock(work: Work, delivery_id: str) -> Delivery | None:
    """Lock and return one delivery whose call was taken; None where there is none."""
    found = await _lock(work, statements.LOCK, [delivery_id], lambda each: each.delivery_id)
    return found[delivery_id][0] if found else None


async def load(work: Work, delivery_ids: Collection[str]) -> list[Delivery]:
    """Return deliveries that this transaction has locked already."""
    return [_delivery(row) for row in await work.connection.execute(statements.LOAD, {"ids": list(delivery_ids)})]


def _places(places: Iterable[Place]) -> list[dict[str, str]]:
    return [dict(zip(("tenant", "channel", "recipient"), place, strict=True)) for place in places]


async def _lock(work: Work, statement: sa.Select[Any], ids: Collection[str], key: Any) -> dict[str, list[Delivery]]:
    found: dict[str, list[Delivery]] = defaultdict(list)
    for row in await work.connection.execute(statement, {"ids": list(ids), "taken": list(work.held)}):
        delivery = _delivery(row)
        found[key(delivery)].append(delivery)
    return found


def _delivery(row: Any) -> Delivery:
    return Delivery(
        delivery_id=row.delivery_id,
        tenant=row.tenant,
        approval_id=row.approval_id,
        call_id=row.call_id,
        address=Address(row.channel, row.recipient, row.person),
        state=State(row.state),
        revision=row.revision,
        card=from_json(row.card),
        due_at=row.due_at,
        topic=row.topic,
        rank=row.rank,
        alerted=row.alerted,
        urgent=row.urgent,
        tell_by=row.tell_by,
        sent_revision=row.sent_revision,
        version=row.version,
        sent_version=row.sent_version,
        reference=row.reference,
        attempt=row.attempt,
        fence=row.fence,
        error=row.error,
        joint=row.joint,
    )


def _row(delivery: Delivery) -> Mapping[str, Any]:
    values = {name: getattr(delivery, name) for name in statements.COLUMNS if hasattr(delivery, name)}
    address = delivery.address
    row: Mapping[str, Any] = to_jsonable_python(
        values
        | {
            "channel": address.channel,
            "recipient": address.recipient,
            "person": address.person,
            "pending": delivery.card.is_open,
            "card": as_json(delivery.card),
        }
    )
    return row

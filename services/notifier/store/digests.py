"""Digests: what gathers for one person, claimed by one worker at a time, and told as of the version that was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.notifier.cards import Address, Card, as_json, from_json
from services.notifier.tables import DigestItemRow, DigestRow
from shared.database import table_of
from shared.work import Work

_DIGESTS = table_of(DigestRow)
_ITEMS = table_of(DigestItemRow)
_TIME = sa.TIMESTAMP(timezone=True)
#: What one digest lists at most; the rest comes with the next.
ITEMS_MAX = 50


@dataclass(frozen=True, slots=True)
class Digest:
    """A claimed digest."""

    tenant: str
    recipient: str
    person: str
    attempt: int
    failures: int


@dataclass(frozen=True, slots=True)
class Item:
    """One approval in a digest."""

    card: Card
    address: Address
    version: int
    #: 0 where its person has heard nothing of it.
    told_version: int


def _text(name: str) -> sa.BindParameter[str]:
    return sa.bindparam(name, type_=sa.Text)


def _add_statement() -> pg.Insert:
    names = ("tenant", "recipient", "approval_id", "channel", "person")
    values = {name: _text(name) for name in names} | {
        "card": sa.bindparam("card", type_=pg.JSONB),
        "version": 1,
        "told_version": 0,
        "changed_at": sa.bindparam("now", type_=_TIME),
    }
    insert = pg.insert(_ITEMS).values(values)
    newer = insert.excluded.card != _ITEMS.c.card
    return insert.on_conflict_do_update(
        index_elements=["tenant", "recipient", "approval_id"],
        set_={
            "card": insert.excluded.card,
            "version": _ITEMS.c.version + 1,
            "changed_at": insert.excluded.changed_at,
        },
        where=newer,
    )


def _due_statement() -> pg.Insert:
    values = {name: _text(name) for name in ("tenant", "recipient", "person")} | {
        "attempt": 0,
        "failures": 0,
        "due_at": sa.bindparam("due_at", type_=_TIME),
    }
    insert = pg.insert(_DIGESTS).values(values)
    return insert.on_conflict_do_update(
        index_elements=["tenant", "recipient"],
        set_={"due_at": sa.func.least(_DIGESTS.c.due_at, insert.excluded.due_at)},
    )


def _here(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.tenant == _text("of_tenant"), table.c.recipient == _text("of_recipient")


def _claim_statement() -> sa.Update:
    due = (
        sa.select(_DIGESTS.c.tenant, _DIGESTS.c.recipient)
        .where(_DIGESTS.c.due_at <= sa.func.now())
        .order_by(_DIGESTS.c.due_at)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    lease = sa.bindparam("lease_until", type_=_TIME)
    return (
        sa.update(_DIGESTS)
        .where(_DIGESTS.c.tenant == due.c.tenant, _DIGESTS.c.recipient == due.c.recipient)
        .values(due_at=lease, attempt=_DIGESTS.c.attempt + 1)
        .returning(*(_DIGESTS.c[name] for name in Digest.__slots__))
    )


_UNTOLD = _ITEMS.c.told_version < _ITEMS.c.version
_ADD = _add_statement()
_DUE = _due_statement()
_CLAIM = _claim_statement()
_LIST = sa.select(_ITEMS).where(*_here(_ITEMS), _UNTOLD).order_by(_ITEMS.c.changed_at).limit(ITEMS_MAX)
_LOCK = (
    sa.select(_DIGESTS.c.attempt)
    .where(*_here(_DIGESTS), _DIGESTS.c.attempt == sa.bindparam("mine", type_=sa.Integer))
    .with_for_update()
)
_TELL = (
    sa.update(_ITEMS)
    .where(*_here(_ITEMS), _ITEMS.c.approval_id == _text("of_approval"))
    .values(told_version=sa.bindparam("told", type_=sa.Integer))
)
_LEFT = sa.select(sa.func.count()).select_from(_ITEMS).where(*_here(_ITEMS), _UNTOLD)
_AGAIN = (
    sa.update(_DIGESTS)
    .where(*_here(_DIGESTS))
    .values(due_at=sa.bindparam("again_at", type_=_TIME), failures=sa.bindparam("failed", type_=sa.Integer))
)
_END = sa.delete(_DIGESTS).where(*_here(_DIGESTS))


async def gather(work: Work, card: Card, address: Address, due_at: datetime) -> None:
    """Note a card for a person's digest, which is due then or sooner; the same card again changes nothing."""
    place = {"tenant": card.tenant, "recipient": address.recipient, "person": address.person}
    item = {"approval_id": card.approval_id, "channel": address.channel, "card": as_json(card), "now": work.now}
    changed = await work.connection.execute(_ADD, {**place, **item})
    if changed.rowcount:
        await work.connection.execute(_DUE, {**place, "due_at": due_at})


async def claim_digests(work: Work, most: int, lease: timedelta) -> list[Digest]:
    """Claim due digests for this worker: nobody else sees them until the lease runs out."""
    found = await work.connection.execute(_CLAIM, {"most": most, "lease_until": work.now + lease})
    return [Digest(**row) for row in found.mappings()]


async def list_untold(work: Work, digest: Digest) -> list[Item]:
    """Return what a digest has to tell, oldest news first."""
    found = await work.connection.execute(_LIST, _key(digest))
    return [
        Item(from_json(row.card), Address(row.channel, row.recipient, row.person), row.version, row.told_version)
        for row in found
    ]


async def settle_told(work: Work, digest: Digest, told: Sequence[Item], next_at: datetime) -> bool:
    """Note what a digest told; what came meanwhile is told with the next. False: another worker has it by now."""
    if not await _is_mine(work, digest):
        return False
    for each in told:
        values = {"of_approval": each.card.approval_id, "told": each.version}
        await work.connection.execute(_TELL, {**_key(digest), **values})
    left = (await work.connection.execute(_LEFT, _key(digest))).scalar_one()
    if left:
        await work.connection.execute(_AGAIN, {**_key(digest), "again_at": next_at, "failed": 0})
    else:
        await work.connection.execute(_END, _key(digest))
    return True


async def settle_failed(work: Work, digest: Digest, again_at: datetime) -> None:
    """Note that a digest did not arrive, and when it is tried again."""
    if await _is_mine(work, digest):
        values = {"again_at": again_at, "failed": digest.failures + 1}
        await work.connection.execute(_AGAIN, {**_key(digest), **values})


async def _is_mine(work: Work, digest: Digest) -> bool:
    found = await work.connection.execute(_LOCK, {**_key(digest), "mine": digest.attempt})
    return found.first() is not None


def _key(digest: Digest) -> dict[str, str]:
    return {"of_tenant": digest.tenant, "of_recipient": digest.recipient}

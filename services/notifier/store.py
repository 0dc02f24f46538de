"""All SQL of the notifier. Statements are built once: building one costs more than running it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.notifier.rules import Card, delivery_id
from services.notifier.states import MACHINE, Event, State
from services.notifier.tables import DeliveryRow
from shared.database import table_of
from shared.sql import records
from shared.work import Work

DELIVERIES = table_of(DeliveryRow)
#: How long a claimed card belongs to its worker.
LEASE = timedelta(seconds=30)

_TIME = sa.TIMESTAMP(timezone=True)
_CAN_CHANGE = tuple(state.value for state, event in MACHINE.transitions if event is Event.REVISED)


@dataclass(frozen=True, slots=True)
class Added:
    """A card that a channel is to show."""

    card: Card
    revision: int
    channel: str
    #: DUE, or ASLEEP where only an escalation asks there.
    state: State


@dataclass(frozen=True, slots=True)
class News:
    """A newer revision of an approval, and what it changes on its cards."""

    approval_id: str
    revision: int
    changes: dict[str, Any]
    #: Channels that are told from now on too.
    woken: list[str]


@dataclass(frozen=True, slots=True)
class Revised:
    """A card of which a newer revision was heard."""

    delivery_id: str
    tenant: str
    before: State
    #: Whether the card changed because of it; False where it was given up or shows this revision already.
    moved: bool
    #: Whether it was asleep and is due now.
    woken: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """A claimed card after one try."""

    claimed: DeliveryRow
    #: DUE where it is tried again at `due_at`.
    state: State
    error: str
    sent_revision: int
    due_at: datetime


_ADDED: dict[str, Any] = {
    **dict.fromkeys(("delivery_id", "tenant", "approval_id", "channel", "state"), sa.Text),
    "revision": sa.Integer,
    "card": pg.JSONB,
}
_NEWS: dict[str, Any] = {"approval_id": sa.Text, "revision": sa.Integer, "changes": pg.JSONB, "woken": pg.JSONB}


def _given(**columns: Any) -> sa.TableValuedAlias:
    """Return the rows that arrays make, one array per column, named like it with an s."""
    arrays = [sa.bindparam(f"{name}s", type_=pg.ARRAY(kind)) for name, kind in columns.items()]
    return sa.func.unnest(*arrays).table_valued(*columns).render_derived("given")


def _add_statement() -> sa.Insert:
    added, now = records("added", _ADDED), sa.bindparam("now", type_=_TIME)
    values: dict[str, sa.ColumnElement[Any]] = {
        **{name: added.c[name] for name in _ADDED},
        "sent_revision": sa.literal(0),
        "attempt": sa.literal(0),
        "due_at": now,
        "updated_at": now,
        "error": sa.literal(""),
    }
    source = sa.select(*values.values()).order_by(added.c.delivery_id)
    return pg.insert(DELIVERIES).from_select(list(values), source).on_conflict_do_nothing()


def _revise_statement() -> sa.Select[Any]:
    """Lock the deliveries of approvals, change those that can change and lag behind, and return all as they were.

    They are locked in the order of their ids, so that two batches cannot lock each other out. One that is asleep is
    woken also by an older revision, as long as its approval is pending.
    """
    news, now = records("news", _NEWS), sa.bindparam("now", type_=_TIME)
    before = _before(news)
    can_change = before.c.state.in_([sa.literal_column(f"'{state}'") for state in _CAN_CHANGE])
    newer = before.c.revision < before.c.newest
    asleep: sa.ColumnElement[str] = sa.literal_column(f"'{State.ASLEEP}'")
    due: sa.ColumnElement[str] = sa.literal_column(f"'{State.DUE}'")
    moved = (
        sa.update(DELIVERIES)
        .where(DELIVERIES.c.delivery_id == before.c.delivery_id, can_change, sa.or_(newer, before.c.woken))
        .values(
            state=sa.case((sa.and_(before.c.state == asleep, sa.not_(before.c.woken)), asleep), else_=due),
            revision=sa.func.greatest(before.c.revision, before.c.newest),
            card=sa.case((newer, DELIVERIES.c.card.op("||")(before.c.changes)), else_=DELIVERIES.c.card),
            due_at=now,
            updated_at=now,
            attempt=0,
        )
        .returning(DELIVERIES.c.delivery_id)
        .cte("moved")
    )
    found = before.outerjoin(moved, moved.c.delivery_id == before.c.delivery_id)
    is_moved = moved.c.delivery_id.is_not(None).label("moved")
    columns = (before.c.approval_id, before.c.delivery_id, before.c.tenant, before.c.state, is_moved, before.c.woken)
    return sa.select(*columns).select_from(found)


def _before(news: sa.TableValuedAlias) -> sa.CTE:
    names = ("delivery_id", "approval_id", "tenant", "state", "revision")
    wakes = sa.and_(
        DELIVERIES.c.state == sa.literal_column(f"'{State.ASLEEP}'"),
        sa.func.jsonb_exists(news.c.woken, DELIVERIES.c.channel),
        DELIVERIES.c.card.op("->>")(sa.literal_column("'state'")) == sa.literal_column("'pending'"),
    )
    return (
        sa.select(
            *(DELIVERIES.c[name] for name in names),
            news.c.revision.label("newest"),
            news.c.changes,
            wakes.label("woken"),
        )
        .join_from(news, DELIVERIES, DELIVERIES.c.approval_id == news.c.approval_id)
        .order_by(DELIVERIES.c.delivery_id)
        .with_for_update(of=DELIVERIES)
        .cte("before")
    )


def _claim_statement() -> sa.Update:
    due = (
        sa.select(DELIVERIES.c.delivery_id)
        .where(DELIVERIES.c.state == sa.literal_column(f"'{State.DUE}'"), DELIVERIES.c.due_at <= sa.func.now())
        .order_by(DELIVERIES.c.due_at)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    return (
        sa.update(DELIVERIES)
        .where(DELIVERIES.c.delivery_id == due.c.delivery_id)
        .values(due_at=sa.func.now() + LEASE, attempt=DELIVERIES.c.attempt + 1)
        .returning(DELIVERIES)
    )


def _settle_statement() -> sa.Update:
    given = _given(
        delivery_id=pg.TEXT,
        attempt=pg.INTEGER,
        revision=pg.INTEGER,
        state=pg.TEXT,
        error=pg.TEXT,
        sent_revision=pg.INTEGER,
        due_at=_TIME,
    )
    same = [DELIVERIES.c[name] == given.c[name] for name in ("delivery_id", "attempt", "revision")]
    told = {name: given.c[name] for name in ("state", "error", "sent_revision", "due_at")}
    return (
        sa.update(DELIVERIES)
        .where(*same, DELIVERIES.c.state == sa.literal_column(f"'{State.DUE}'"))
        .values(**told, updated_at=sa.func.now())
        .returning(DELIVERIES.c.delivery_id)
    )


_ADD = _add_statement()
_REVISE = _revise_statement()
_CLAIM = _claim_statement()
_SETTLE = _settle_statement()


async def add_deliveries(work: Work, deliveries: Iterable[Added]) -> None:
    """Store deliveries; an approval that was announced before, by an earlier one of these too, keeps its own."""
    added: dict[str, dict[str, Any]] = {}
    for each in deliveries:
        row = _row(each)
        added.setdefault(row["delivery_id"], row)
    await work.connection.execute(_ADD, {"added": list(added.values()), "now": work.now})


async def revise(work: Work, news: Sequence[News]) -> dict[str, list[Revised]]:
    """Bring the deliveries of different approvals to a newer revision: due, unless they sleep on.

    Return by approval all that it has, the unchanged ones too.
    """
    values = {"news": [asdict(each) for each in news], "now": work.now}
    revised: dict[str, list[Revised]] = defaultdict(list)
    for row in await work.connection.execute(_REVISE, values):
        revised[row.approval_id].append(_revised(row))
    return revised


async def claim_due(work: Work, limit: int) -> list[DeliveryRow]:
    """Claim due deliveries for this worker: nobody else sees them until the lease runs out."""
    rows = (await work.connection.execute(_CLAIM, {"most": limit})).mappings()
    return [DeliveryRow(**row) for row in rows]


async def settle(work: Work, settled: Sequence[Settled]) -> set[str]:
    """Write what became of claimed deliveries; return those that no newer attempt or revision has overtaken."""
    values = {
        "delivery_ids": [each.claimed.delivery_id for each in settled],
        "attempts": [each.claimed.attempt for each in settled],
        "revisions": [each.claimed.revision for each in settled],
        "states": [each.state.value for each in settled],
        "errors": [each.error for each in settled],
        "sent_revisions": [each.sent_revision for each in settled],
        "due_ats": [each.due_at for each in settled],
    }
    return set((await work.connection.execute(_SETTLE, values)).scalars())


def _revised(row: Any) -> Revised:
    return Revised(row.delivery_id, row.tenant, State(row.state), row.moved, row.woken)


def _row(added: Added) -> dict[str, Any]:
    card = added.card
    return {
        "delivery_id": delivery_id(card.approval_id, added.channel),
        "tenant": card.tenant,
        "approval_id": card.approval_id,
        "channel": added.channel,
        "state": added.state,
        "revision": added.revision,
        "card": asdict(card),
    }

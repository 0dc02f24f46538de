"""SQL of the events that webhooks hear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from pydantic_core import to_jsonable_python
from sqlalchemy.dialects import postgresql as pg

from placet.notifier.states import State
from placet.notifier.tables import WEBHOOK_EVENTS
from placet.notifier.webhook_events import Event
from placet.runtime.sql import records
from placet.runtime.work import Work

_TIME = sa.TIMESTAMP(timezone=True)
_DUE = WEBHOOK_EVENTS.c.state == sa.literal_column(f"'{State.DUE}'")
_BROUGHT = {**dict.fromkeys(("event_id", "tenant", "webhook", "type", "body"), sa.Text), "at": _TIME}


@dataclass(frozen=True, slots=True)
class Claimed:
    """An event that this worker sends."""

    event: Event
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A claimed event after one try."""

    claimed: Claimed
    state: State
    due_at: datetime
    error: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A locked event, as far as an operator's wish needs it."""

    webhook: str
    type: str
    state: State


def _add() -> sa.Insert:
    brought = records("events", _BROUGHT)
    values: dict[str, sa.ColumnElement[Any]] = {
        **{name: brought.c[name] for name in _BROUGHT if name != "at"},
        "due_at": brought.c.at,
        "created_at": brought.c.at,
    }
    source = sa.select(*values.values()).order_by(brought.c.event_id)
    return pg.insert(WEBHOOK_EVENTS).from_select(list(values), source).on_conflict_do_nothing()


#: What a worker has may be taken again when its lease has ended; what failed is nobody's until its next try is due.
_FREE = sa.text(
    """
    UPDATE notifier.webhook_events SET lease_until = NULL
    WHERE event_id IN (
        SELECT event_id FROM notifier.webhook_events WHERE state = 'due' AND lease_until <= now()
        ORDER BY lease_until LIMIT 1000 FOR UPDATE SKIP LOCKED
    )
    """
)
#: Looks take turns: two at once would choose the same events, and one of them would go away with none.
_TURN = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext("placet_webhook_events")))
#: Tenants take turns at their webhook, and webhooks among all: the first event of each goes before the second of any.
#: However many wait, one look reads no more than a few of each, and nothing of whoever has nothing due now.
_CLAIM = sa.text(
    """
    WITH RECURSIVE webhooks AS (
        SELECT min(webhook) AS webhook FROM notifier.webhook_events WHERE state = 'due' AND lease_until IS NULL
        UNION ALL
        SELECT (
            SELECT min(each.webhook) FROM notifier.webhook_events AS each
            WHERE state = 'due' AND lease_until IS NULL AND each.webhook > webhooks.webhook
        )
        FROM webhooks WHERE webhook IS NOT NULL
    ), lanes AS (
        SELECT webhook, '' AS tenant FROM webhooks WHERE webhook <> ALL (:but)
        UNION ALL
        SELECT webhook, (
            SELECT min(each.tenant) FROM notifier.webhook_events AS each
            WHERE state = 'due' AND lease_until IS NULL AND each.webhook = lanes.webhook AND each.tenant > lanes.tenant
        )
        FROM lanes WHERE tenant IS NOT NULL
    ), found AS (
        SELECT event_id, webhook, due_at,
            row_number() OVER (PARTITION BY webhook, tenant ORDER BY due_at, event_id) AS turn
        FROM lanes
        CROSS JOIN LATERAL (
            SELECT event_id, due_at FROM notifier.webhook_events AS each
            WHERE state = 'due' AND lease_until IS NULL AND each.webhook = lanes.webhook
                AND each.tenant = lanes.tenant AND due_at <= now()
            ORDER BY due_at LIMIT :share
        ) AS first
    ), placed AS (
        SELECT event_id, due_at, row_number() OVER (PARTITION BY webhook ORDER BY turn, due_at, event_id) AS place
        FROM found
    ), due AS (
        SELECT event_id FROM notifier.webhook_events
        WHERE state = 'due' AND lease_until IS NULL AND event_id = ANY (
            ARRAY(SELECT event_id FROM placed WHERE place <= :share ORDER BY place, due_at LIMIT :most)
        )
        FOR UPDATE SKIP LOCKED
    )
    UPDATE notifier.webhook_events AS claimed
    SET lease_until = now() + :lease, attempt = attempt + 1, fence = fence + 1
    FROM due WHERE claimed.event_id = due.event_id
    RETURNING claimed.*
    """
).bindparams(
    sa.bindparam("but", type_=pg.ARRAY(sa.Text)),
    sa.bindparam("lease", type_=sa.Interval),
    *(sa.bindparam(name, type_=sa.Integer) for name in ("share", "most")),
)


def _settle() -> sa.Update:
    kinds = {**dict.fromkeys(("event_id", "state", "error"), sa.Text), "fence": sa.Integer, "due_at": _TIME}
    brought = records("ended", kinds)
    return (
        sa.update(WEBHOOK_EVENTS)
        .where(WEBHOOK_EVENTS.c.event_id == brought.c.event_id, WEBHOOK_EVENTS.c.fence == brought.c.fence, _DUE)
        .values(
            state=brought.c.state,
            error=brought.c.error,
            due_at=brought.c.due_at,
            lease_until=sa.case((brought.c.state == State.DUE, brought.c.due_at)),
        )
        .returning(WEBHOOK_EVENTS.c.event_id)
    )


_ADD, _SETTLE = _add(), _settle()
_LOCK = sa.select(
    WEBHOOK_EVENTS.c.tenant, WEBHOOK_EVENTS.c.webhook, WEBHOOK_EVENTS.c.type, WEBHOOK_EVENTS.c.state
).where(WEBHOOK_EVENTS.c.event_id == sa.bindparam("wanted", type_=sa.Text))
_RESTART = (
    sa.update(WEBHOOK_EVENTS)
    .where(WEBHOOK_EVENTS.c.event_id == sa.bindparam("wanted", type_=sa.Text))
    .values(state=sa.bindparam("again", type_=sa.Text), due_at=sa.bindparam("at", type_=_TIME), attempt=0, error="")
)
_OLD = sa.select(WEBHOOK_EVENTS.c.event_id).where(
    sa.not_(_DUE), WEBHOOK_EVENTS.c.created_at < sa.func.now() - sa.bindparam("age", type_=sa.Interval)
)
_FORGET = sa.delete(WEBHOOK_EVENTS).where(WEBHOOK_EVENTS.c.event_id.in_(_OLD.with_for_update(skip_locked=True)))


async def add_events(work: Work, events: Iterable[Event]) -> None:
    """Store events to send; one that is there already stays as it is."""
    rows = [{name: getattr(each, name) for name in _BROUGHT} for each in events]
    if rows:
        await work.connection.execute(_ADD, {"events": to_jsonable_python(rows)})


async def claim_events(work: Work, limit: int, lease: timedelta, *, share: int, but: Iterable[str]) -> list[Claimed]:
    """Claim due events for this worker until the lease runs out: at most `share` of one webhook, none of `but`."""
    await work.connection.execute(_TURN)
    await work.connection.execute(_FREE)
    wanted = {"most": limit, "lease": lease, "share": share, "but": list(but)}
    found = await work.connection.execute(_CLAIM, wanted)
    return [
        Claimed(
            Event(row.event_id, row.tenant, row.webhook, row.type, row.body, row.created_at), row.attempt, row.fence
        )
        for row in found
    ]


async def settle_events(work: Work, ended: Sequence[Ended]) -> set[str]:
    """Write what became of claimed events; return those that nobody has claimed since."""
    rows = [
        {
            "event_id": each.claimed.event.event_id,
            "fence": each.claimed.fence,
            "state": each.state,
            "error": each.error,
            "due_at": each.due_at,
        }
        for each in ended
    ]
    return set((await work.connection.execute(_SETTLE, {"ended": to_jsonable_python(rows)})).scalars())


async def lock_event(work: Work, event_id: str, tenant: str) -> Stored | None:
    """Lock and return an event of a tenant; None where that tenant has none."""
    row = (await work.connection.execute(_LOCK.with_for_update(), {"wanted": event_id})).one_or_none()
    return None if row is None or row.tenant != tenant else Stored(row.webhook, row.type, State(row.state))


async def restart_event(work: Work, event_id: str, state: State) -> None:
    """Let a locked event begin its tries anew, now, in the state that this leads to."""
    await work.connection.execute(_RESTART, {"wanted": event_id, "again": state, "at": work.now})


async def forget_events(work: Work, age: timedelta) -> None:
    """Delete events that are done with and older than `age`."""
    await work.connection.execute(_FORGET, {"age": age})

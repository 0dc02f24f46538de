"""SQL of limits: room is taken and given back in rows, and summed under the lock of their counter.

Two statements, because PostgreSQL fixes what a statement sees before it waits for a lock: the first one locks, the
second one sees everything that was committed by whoever held the lock before.

Counters are never locked in a circle: one call locks its counters in the order of the rules and of their ids, and an
envelope's later calls wait neither for one, nor for the verdict of another transaction, while its earlier ones hold
others. They fail instead, and the envelope's events are handled one by one. A new counter or verdict that somebody else
is making is no row that could be asked for a lock, so it is waited for no longer than the shortest time that PostgreSQL
knows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.policy.rules.limits import Demand
from placet.policy.tables import COUNTERS, RESERVATIONS
from placet.runtime.work import Work

_NAMES = ("counter_id", "tenant", "rule", "measure", "per", "subject")


def _lock_statement() -> pg.Insert:
    """Make the counters that are missing and lock all of them, in the order of their ids."""
    arrays = [sa.bindparam(name, type_=pg.ARRAY(pg.TEXT)) for name in _NAMES]
    given = sa.func.unnest(*arrays).table_valued(*_NAMES, name="given").render_derived()
    chosen = sa.select(*(given.c[name] for name in _NAMES), sa.func.clock_timestamp()).order_by(given.c.counter_id)
    statement = pg.insert(COUNTERS).from_select([*_NAMES, "touched_at"], chosen)
    return statement.on_conflict_do_update(
        index_elements=["counter_id"], set_={"touched_at": statement.excluded.touched_at}
    )


_LOCK = _lock_statement()
_LOCK_FREE = (
    sa.select(COUNTERS.c.counter_id)
    .where(COUNTERS.c.counter_id == sa.any_(sa.bindparam("counter_ids", type_=pg.ARRAY(pg.TEXT))))
    .order_by(COUNTERS.c.counter_id)
    .with_for_update(nowait=True)
)
#: Takes what is asked of every limit, or nothing at all. The counters must be locked.
_TAKE = sa.text(
    """
    WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
    demand AS (
        SELECT * FROM unnest(:counter_ids, :amounts, :most, :windows) AS d (counter_id, amount, at_most, seconds)
    ),
    taken AS (
        SELECT d.amount, d.at_most, coalesce(sum(r.amount), 0) AS used
        FROM demand d CROSS JOIN moment m LEFT JOIN policy.reservations r
            ON r.counter_id = d.counter_id AND r.released_at IS NULL
            AND r.reserved_at > m.now - make_interval(secs => d.seconds)
        GROUP BY d.counter_id, d.amount, d.at_most, d.seconds
    )
    INSERT INTO policy.reservations (counter_id, call_id, tenant, amount, reserved_at)
    SELECT DISTINCT d.counter_id, :call_id, :tenant, d.amount, m.now
    FROM demand d CROSS JOIN moment m
    WHERE NOT EXISTS (SELECT FROM taken WHERE used + amount > at_most)
    RETURNING counter_id
    """
).bindparams(
    sa.bindparam("counter_ids", type_=pg.ARRAY(pg.TEXT)),
    sa.bindparam("amounts", type_=pg.ARRAY(sa.Numeric)),
    sa.bindparam("most", type_=pg.ARRAY(sa.Numeric)),
    sa.bindparam("windows", type_=pg.ARRAY(sa.Integer)),
    sa.bindparam("call_id", type_=sa.Text),
    sa.bindparam("tenant", type_=sa.Text),
)
_RESERVED = sa.select(RESERVATIONS.c.counter_id, RESERVATIONS.c.amount).where(
    RESERVATIONS.c.call_id == sa.bindparam("holder"),
    RESERVATIONS.c.tenant == sa.bindparam("owner"),
    RESERVATIONS.c.released_at.is_(None),
)
_GIVE_BACK = (
    sa.update(RESERVATIONS)
    .where(
        RESERVATIONS.c.call_id == sa.bindparam("ended"),
        RESERVATIONS.c.tenant == sa.bindparam("owner"),
        RESERVATIONS.c.released_at.is_(None),
    )
    .values(released_at=sa.func.clock_timestamp(), released_as=sa.bindparam("kind"))
    .returning(RESERVATIONS.c.counter_id)
)


#: The shortest wait for a lock, in milliseconds; 0 would be for ever.
_HARDLY_MS = "1"
_WAIT_NOW = sa.select(sa.func.current_setting("lock_timeout"))
_WAIT_AT_MOST = sa.select(sa.func.set_config("lock_timeout", sa.bindparam("wait", type_=sa.Text), sa.true()))


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters that one transaction has locked; they stay so until it ends, whatever else is handled in it."""

    #: Its `held` has each counter, with the call that it was first locked for.
    work: Work

    async def take(self, call_id: str, demands: Sequence[Demand]) -> bool:
        """Reserve what a call asks of every limit of a rule; False, and nothing is reserved, where one has no room.

        The counters are locked first, so that nobody else finds the same room. Raises what the database raises for a
        lock that is not free where calls of the same envelope hold counters already.
        """
        await self._lock(call_id, demands)
        values = {
            "counter_ids": [demand.counter_id for demand in demands],
            "amounts": [demand.amount for demand in demands],
            "most": [demand.at_most for demand in demands],
            "windows": [demand.within_seconds for demand in demands],
            "call_id": call_id,
            "tenant": demands[0].tenant,
        }
        return (await self.work.connection.execute(_TAKE, values)).first() is not None

    @asynccontextmanager
    async def hardly_waiting(self) -> AsyncIterator[None]:
        """Have statements of the block wait for no lock while a counter is held: who has it may wait for that one.

        They raise what the database raises for a lock that is not free.
        """
        if not self.work.held:
            yield
            return
        async with _hardly_waiting(self.work):
            yield

    async def _lock(self, call_id: str, demands: Sequence[Demand]) -> None:
        counters = {each.counter_id: each for each in demands if each.counter_id not in self.work.held}
        if not counters:
            return
        new = 0
        connection = self.work.connection
        if any(holder != call_id for holder in self.work.held.values()):
            found = (await connection.execute(_LOCK_FREE, {"counter_ids": list(counters)})).all()
            new = len(counters) - len(found)
        columns = {name: [getattr(each, name) for each in counters.values()] for name in _NAMES}
        async with _hardly_waiting(self.work) if new else nullcontext():
            await connection.execute(_LOCK, columns)
        self.work.held |= dict.fromkeys(counters, call_id)


@asynccontextmanager
async def _hardly_waiting(work: Work) -> AsyncIterator[None]:
    # After an error there is nothing to set back: the transaction is over.
    before = (await work.connection.execute(_WAIT_NOW)).scalar_one()
    await work.connection.execute(_WAIT_AT_MOST, {"wait": _HARDLY_MS})
    yield
    await work.connection.execute(_WAIT_AT_MOST, {"wait": before})


async def reserved(work: Work, tenant: str, call_id: str) -> dict[str, Decimal]:
    """Return what a call has of each counter, by its id; nothing of what it gave back."""
    rows = await work.connection.execute(_RESERVED, {"holder": call_id, "owner": tenant})
    return {row.counter_id: row.amount for row in rows}


async def give_back(work: Work, tenant: str, call_id: str, kind: str) -> int:
    """Free what a call that did not run had reserved; return how many reservations that were."""
    values = {"ended": call_id, "owner": tenant, "kind": kind}
    return len((await work.connection.execute(_GIVE_BACK, values)).all())

"""Every statement of the executor, built once: building one costs more than running it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.executor.states import LEASED, MACHINE, Event, State
from services.executor.tables import ExecutionRow
from shared.database import table_of
from shared.sql import arrays

_CLOCK = sa.func.clock_timestamp()
_EXECUTIONS = table_of(ExecutionRow)
_COLUMNS = _EXECUTIONS.c
# Written into the statement, so that a prepared one can use the partial index.
_RUNNING = _COLUMNS.state == sa.literal_column(f"'{State.RUNNING}'")
_VERIFYING = _COLUMNS.state == sa.literal_column(f"'{State.VERIFYING}'")
_LEASED: sa.ColumnElement[bool] = sa.literal_column(
    f"executor.executions.state IN ({', '.join(repr(state.value) for state in sorted(LEASED))})", sa.Boolean
)
_TEXTS = pg.ARRAY(pg.TEXT)
#: The end of a lease of `:lease` that begins now.
_LEASE_UNTIL = _CLOCK + sa.bindparam("lease", type_=sa.Interval)
#: One attempt, as long as it is the newest and somebody may work on it.
_OURS = (_COLUMNS.call_id == sa.bindparam("ours"), _COLUMNS.fence == sa.bindparam("our_fence"), _LEASED)


def _lost() -> sa.ColumnElement[bool]:
    pools = sa.any_(sa.bindparam("pools", type_=_TEXTS))
    return sa.and_(_LEASED, _COLUMNS.pool == pools, _COLUMNS.lease_until <= sa.func.now())


def _may_repeat() -> sa.ColumnElement[bool]:
    """Say when another attempt may begin: never after the permit's end, whatever the tool can stand."""
    return sa.and_(
        _RUNNING,
        _COLUMNS.idempotent,
        _COLUMNS.fence < sa.bindparam("attempts_max"),
        _COLUMNS.permit_expires_at > _CLOCK,
        _COLUMNS.schema_digest == sa.any_(sa.bindparam("repeatable", type_=_TEXTS)),
    )


def _may_probe() -> sa.ColumnElement[bool]:
    """Say when the tool's probe may begin: not before the tool must have ended, wherever it may still run.

    A worker that was cut off from the database alone is lost too, and its tool goes on until its deadline; a probe
    that looked before would say of a call under way that it did not run.
    """
    kinds = (sa.bindparam("probed", type_=_TEXTS), sa.bindparam("timeouts", type_=pg.ARRAY(pg.DOUBLE_PRECISION)))
    probe = sa.func.unnest(*kinds).table_valued("digest", "seconds").render_derived("probe")
    # The newest attempt began at `begun_at` if it is the first, and before its last renewal in any case.
    begun = sa.case((_COLUMNS.fence == 1, _COLUMNS.begun_at), else_=_COLUMNS.lease_until)
    over = begun + sa.func.make_interval(0, 0, 0, 0, 0, 0, probe.c.seconds) <= _CLOCK
    return sa.and_(
        _RUNNING,
        sa.not_(_may_repeat()),
        sa.exists().where(probe.c.digest == _COLUMNS.schema_digest, over).correlate(_EXECUTIONS),
    )


def _hopeless() -> sa.ColumnElement[bool]:
    """Say of what is lost that nobody will ever know: it cannot be repeated, and its probe is lost or is none."""
    probed = _COLUMNS.schema_digest == sa.any_(sa.bindparam("probed", type_=_TEXTS))
    return sa.or_(_VERIFYING, sa.and_(_RUNNING, sa.not_(_may_repeat()), sa.not_(probed)))


def _due(condition: sa.ColumnElement[bool]) -> sa.CTE:
    # A CTE that locks is run once; a plain subquery may be run again per row and then pass its limit.
    return (
        sa.select(_COLUMNS.call_id, _COLUMNS.state)
        .where(_lost(), condition)
        .order_by(_COLUMNS.lease_until)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(skip_locked=True)
        .cte("due")
    )


def _swept(condition: sa.ColumnElement[bool], **values: Any) -> sa.Executable:
    """Move what is lost and meets `condition`; return the rows as they are then, and the state that they left."""
    due = _due(condition)
    return (
        sa.update(_EXECUTIONS)
        .where(_COLUMNS.call_id == due.c.call_id)
        .values(**values)
        .returning(_EXECUTIONS, due.c.state.label("left_state"))
    )


def _next_attempt(event: Event) -> dict[str, Any]:
    return {
        "state": MACHINE.next_state(State.RUNNING, event),
        "fence": _COLUMNS.fence + 1,
        "worker": sa.bindparam("new_worker", type_=sa.Text),
        "lease_until": _LEASE_UNTIL,
    }


def _settle_statement() -> sa.Executable:
    """End those of the given attempts that are still the newest of their calls; return which, and when."""
    columns = {"call_ids": pg.TEXT, "fences": pg.INTEGER, "states": pg.TEXT, "errors": pg.TEXT}
    given = (
        sa.func.unnest(*(sa.bindparam(name, type_=pg.ARRAY(kind)) for name, kind in columns.items()))
        .table_valued("call_id", "fence", "state", "error")
        .render_derived("ended")
    )
    return (
        sa.update(_EXECUTIONS)
        .where(_COLUMNS.call_id == given.c.call_id, _COLUMNS.fence == given.c.fence, _LEASED)
        .values(state=given.c.state, error=given.c.error, finished_at=_CLOCK, lease_until=None)
        .returning(_COLUMNS.call_id, _COLUMNS.fence, _COLUMNS.finished_at)
    )


#: What each call brings into its row; the rest is the same for all that arrive together.
WANTED: dict[str, Any] = {
    **dict.fromkeys(("call_id", "tenant", "conversation_id", "tool", "schema_digest", "pool"), sa.Text),
    **dict.fromkeys(("permit_id", "permit_issuer", "permit", "call"), sa.Text),
    "fence": sa.Integer,
    "idempotent": sa.Boolean,
    "permit_expires_at": sa.TIMESTAMP(timezone=True),
    "begun_at": sa.TIMESTAMP(timezone=True),
    "cause": pg.JSONB,
}


def _reserve_statement() -> sa.Insert:
    """Take the rows of calls that nobody took, as running; return each with the time when it was there.

    They are taken in order of their ids, so that two executors with the same calls cannot lock each other out.
    """
    wanted = arrays("wanted", WANTED)
    values: dict[str, sa.ColumnElement[Any]] = {
        **{name: wanted.c[name] for name in WANTED},
        "state": sa.literal(State.RUNNING.value),
        "worker": sa.bindparam("holder", type_=sa.Text),
        "lease_until": _LEASE_UNTIL,
        "error": sa.literal(""),
    }
    source = sa.select(*values.values()).order_by(wanted.c.call_id)
    taken = pg.insert(_EXECUTIONS).from_select(list(values), source).on_conflict_do_nothing()
    return taken.returning(_COLUMNS.call_id, _CLOCK.label("at"))


RESERVE = _reserve_statement()
#: What a call that never came has no word about.
_UNKNOWN = {"lease_until", "finished_at", "resolution", "resolved_by", "resolution_note", "resolved_at"}
_ABANDONED = tuple(column.name for column in _COLUMNS if column.name not in _UNKNOWN)
ABANDON = (
    pg.insert(_EXECUTIONS)
    .values({name: sa.bindparam(name, type_=_COLUMNS[name].type) for name in _ABANDONED} | {"finished_at": _CLOCK})
    .values(permit_expires_at=_CLOCK)
    .on_conflict_do_nothing()
    .returning(_COLUMNS.call_id)
)
TURN_AWAY = (
    sa.update(_EXECUTIONS)
    .where(*_OURS)
    .values(
        state=sa.bindparam("new_state", type_=sa.Text),
        error=sa.bindparam("new_error", type_=sa.Text),
        finished_at=_CLOCK,
        lease_until=None,
        begun_at=None,
        fence=0,
    )
)
SETTLE = _settle_statement()
LET_GO = sa.update(_EXECUTIONS).where(*_OURS, _RUNNING).values(lease_until=_CLOCK)
RENEW = sa.update(_EXECUTIONS).where(*_OURS).values(lease_until=_LEASE_UNTIL)
IS_OURS = sa.select(sa.literal(1)).select_from(_EXECUTIONS).where(*_OURS)
NOW = sa.select(_COLUMNS.state, _COLUMNS.fence).where(_COLUMNS.call_id == sa.bindparam("ours"))
#: By what becomes of a lost attempt: whether there is one, and the statement that begins the next.
ANY_LOST = {
    Event.RECLAIMED: sa.select(sa.exists().where(_lost(), _may_repeat())),
    Event.PROBED: sa.select(sa.exists().where(_lost(), _may_probe())),
}
TAKE_LOST = {
    Event.RECLAIMED: _swept(_may_repeat(), **_next_attempt(Event.RECLAIMED)),
    Event.PROBED: _swept(_may_probe(), **_next_attempt(Event.PROBED)),
}
PROBE = sa.update(_EXECUTIONS).where(*_OURS, _RUNNING).values(_next_attempt(Event.PROBED)).returning(_EXECUTIONS)
GIVE_UP = _swept(
    _hopeless(),
    state=MACHINE.next_state(State.RUNNING, Event.GAVE_UP),
    error=sa.bindparam("new_error", type_=sa.Text),
    finished_at=_CLOCK,
    lease_until=None,
)
RESOLVE = (
    sa.update(_EXECUTIONS)
    .where(
        _COLUMNS.call_id == sa.bindparam("ours"),
        _COLUMNS.tenant == sa.bindparam("of_tenant"),
        _COLUMNS.state == State.UNKNOWN.value,
    )
    .values(
        state=MACHINE.next_state(State.UNKNOWN, Event.RESOLVED),
        resolution=sa.bindparam("said", type_=sa.Text),
        resolved_by=sa.bindparam("person", type_=sa.Text),
        resolution_note=sa.bindparam("words", type_=sa.Text),
        resolved_at=_CLOCK,
    )
    .returning(_EXECUTIONS)
)
STATE_OF = sa.select(_COLUMNS.state).where(
    _COLUMNS.call_id == sa.bindparam("ours"), _COLUMNS.tenant == sa.bindparam("of_tenant")
)

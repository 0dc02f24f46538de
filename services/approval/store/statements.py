"""Every statement of approval, built once: building one costs more than running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.approval.states import MACHINE, Event, State
from services.approval.store.values import APPROVALS, CALL_COLUMNS, DECISION_COLUMNS, DECISIONS, EDITS
from services.approval.tables import CallRow
from shared.database import table_of
from shared.sql import records

CALLS = table_of(CallRow)

_TEXTS = pg.ARRAY(pg.TEXT)
_TIME = sa.TIMESTAMP(timezone=True)
_OPENING_COLUMNS = (
    *CALL_COLUMNS,
    *(
        "approval_id",
        "category",
        "pool",
        "permit_expires_after_seconds",
        "summary",
        "rule",
        "rulebook_digest",
        "reason",
    ),
    *("approval_rule", "deciders", "deciders_digest", "state", "revision", "arguments_revision", "steps_done"),
    *("delegations", "correlation_id", "traceparent"),
)
#: What changes where an approval is only closed.
CLOSING_COLUMNS = ("state", "decided_by", "decision_reason", "result_kind", "closed_at")
#: What else people and the clock change.
CHANGING_COLUMNS = (
    *CLOSING_COLUMNS,
    *("arguments", "shown_arguments", "digest", "edited", "summary", "arguments_revision", "revision", "expires_at"),
    *("next_step_at", "claimed_by", "claimed_until", "delegations", "deciders", "deciders_digest", "paused_at"),
)
#: What reminders and escalations change.
STEP_COLUMNS = ("steps_done", "next_step_at", "revision", "deciders", "deciders_digest")
_PENDING = APPROVALS.c.state == sa.literal_column("'pending'")


def _given(table: sa.Table, names: Sequence[str], prefix: str = "") -> list[sa.BindParameter[Any]]:
    return [sa.bindparam(f"{prefix}{name}", type_=table.c[name].type) for name in names]


def _open_statement() -> sa.Insert:
    """Insert the call and, only if nothing was heard of it before, its approval: one round trip."""
    first = (
        pg.insert(CALLS)
        .values(tenant=sa.bindparam("tenant"), call_id=sa.bindparam("call_id"), heard_at=sa.func.clock_timestamp())
        .on_conflict_do_nothing()
        .returning(CALLS.c.heard_at)
        .cte("first")
    )
    created = first.c.heard_at
    times = [created, *(created + sa.bindparam(name, type_=sa.Interval) for name in ("waits", "first_step"))]
    chosen = sa.select(*_given(APPROVALS, _OPENING_COLUMNS), *times)
    columns = [*_OPENING_COLUMNS, "created_at", "expires_at", "next_step_at"]
    return (
        sa.insert(APPROVALS)
        .from_select(columns, chosen.select_from(first))
        .returning(APPROVALS.c.created_at, APPROVALS.c.expires_at, APPROVALS.c.next_step_at)
    )


def _withdraw_statement() -> sa.Update:
    """Close locked approvals as withdrawn, and return when."""
    closing = sa.any_(sa.bindparam("closing", type_=_TEXTS))
    given = {name: sa.bindparam(f"new_{name}", type_=sa.Text) for name in ("result_kind", "decision_reason")}
    return (
        sa.update(APPROVALS)
        .where(APPROVALS.c.approval_id == closing, APPROVALS.c.state == MACHINE.initial)
        .values(**given, state=MACHINE.next_state(State.PENDING, Event.WITHDRAW), closed_at=sa.func.clock_timestamp())
        .returning(APPROVALS.c.approval_id, APPROVALS.c.closed_at)
    )


def _change_and_keep_statement(columns: Sequence[str]) -> sa.Executable:
    """Change a pending approval and keep the decision that did it: no decision row without the change, one round trip.

    The decision's values are prefixed, because a value named like a column of the approval would be written there.
    """
    done = (
        sa.update(APPROVALS)
        .where(APPROVALS.c.approval_id == sa.bindparam("changing"), APPROVALS.c.state == MACHINE.initial)
        .values({name: sa.bindparam(f"new_{name}", type_=APPROVALS.c[name].type) for name in columns})
        .returning(APPROVALS.c.approval_id)
        .cte("done")
    )
    chosen = sa.select(*_given(DECISIONS, DECISION_COLUMNS, "kept_")).select_from(done)
    return sa.insert(DECISIONS).from_select(list(DECISION_COLUMNS), chosen).returning(DECISIONS.c.decision_id)


def _clock_statement() -> sa.Select[Any]:
    one = sa.select(sa.literal(1).label("one")).subquery("one")
    same = (DECISIONS.c.tenant == sa.bindparam("tenant")) & (DECISIONS.c.decision_id == sa.bindparam("decision_id"))
    names = ("approval_id", "person", "verb", "digest", "details", "answer")
    known = [DECISIONS.c[name] for name in names]
    return sa.select(sa.func.clock_timestamp(), *known).select_from(one.outerjoin(DECISIONS, same))


def _votes_statement() -> sa.Select[Any]:
    """Choose of each person the last counted decision about the arguments of this number.

    A visitor may be called like a person, so their proof tells the two apart.
    """
    c = DECISIONS.c
    return (
        sa.select(c.person, c.verb, c.roles, c.proof, c.conversation_id)
        .where(
            c.approval_id == sa.bindparam("approval_id"),
            c.tenant == sa.bindparam("tenant"),
            c.arguments_revision == sa.bindparam("number"),
        )
        .ext(pg.distinct_on(c.person, c.conversation_id))
        .order_by(c.person, c.conversation_id, c.counted_revision.desc(), c.decided_at.desc())
    )


def _tombstones_statement() -> sa.Executable:
    """Insert a withdrawal for each call nothing was heard of, in the order of their ids; return which."""
    ids = sa.func.unnest(sa.bindparam("call_ids", type_=_TEXTS)).column_valued("call_id")
    given = (sa.bindparam("tenant", type_=sa.Text), ids, *_given(CALLS, ("withdrawn_kind", "withdrawn_reason")))
    chosen = sa.select(*given, sa.func.clock_timestamp()).order_by(ids)
    columns = ["tenant", "call_id", "withdrawn_kind", "withdrawn_reason", "heard_at"]
    return pg.insert(CALLS).from_select(columns, chosen).on_conflict_do_nothing().returning(CALLS.c.call_id)


def _expire_statement() -> sa.Update:
    """Close overdue approvals that nobody holds. The clock is read once, so that the index of deadlines answers."""
    now = sa.select(sa.func.clock_timestamp()).scalar_subquery()
    overdue = (
        sa.select(APPROVALS.c.approval_id)
        .where(_PENDING, APPROVALS.c.expires_at <= now)
        .order_by(APPROVALS.c.expires_at)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(skip_locked=True)
    )
    return (
        sa.update(APPROVALS)
        .where(APPROVALS.c.approval_id == sa.func.any(sa.func.array(overdue.scalar_subquery())))
        .values(
            state=MACHINE.next_state(State.PENDING, Event.TIME_OUT),
            result_kind="expired",
            closed_at=sa.func.clock_timestamp(),
        )
        .returning(APPROVALS)
    )


def _due_statement() -> sa.Select[Any]:
    """Lock approvals with a step due that nobody holds; what is overdue is left to expire."""
    now = sa.select(sa.func.clock_timestamp()).scalar_subquery()
    return (
        sa.select(APPROVALS)
        .where(_PENDING, APPROVALS.c.next_step_at.is_not(None), APPROVALS.c.next_step_at <= now)
        .where(APPROVALS.c.expires_at > now)
        .order_by(APPROVALS.c.next_step_at)
        .limit(sa.bindparam("most", type_=sa.Integer))
        .with_for_update(skip_locked=True)
    )


def _stepped_statement() -> sa.Update:
    """Save the steps of locked approvals."""
    taken = records("taken", {name: APPROVALS.c[name].type for name in ("approval_id", *STEP_COLUMNS)})
    return (
        sa.update(APPROVALS)
        .where(APPROVALS.c.approval_id == taken.c.approval_id, _PENDING)
        .values({name: taken.c[name] for name in STEP_COLUMNS})
        .returning(APPROVALS.c.approval_id)
    )


OPEN = _open_statement()
WITHDRAWAL = sa.select(CALLS.c.withdrawn_kind, CALLS.c.withdrawn_reason).where(
    CALLS.c.tenant == sa.bindparam("tenant"), CALLS.c.call_id == sa.bindparam("call_id")
)
ADD = pg.insert(APPROVALS).on_conflict_do_nothing(index_elements=["call_id"]).returning(APPROVALS.c.approval_id)
LOCK = (
    sa.select(APPROVALS)
    .where(APPROVALS.c.approval_id == sa.bindparam("approval_id"), APPROVALS.c.tenant == sa.bindparam("tenant"))
    .with_for_update()
)
LOCK_CALLS = (
    sa.select(APPROVALS)
    .where(
        APPROVALS.c.call_id == sa.any_(sa.bindparam("call_ids", type_=_TEXTS)),
        APPROVALS.c.tenant == sa.bindparam("tenant"),
    )
    .order_by(APPROVALS.c.call_id)
    .with_for_update()
)
CLOCK = _clock_statement()
VOTES = _votes_statement()
WITHDRAW = _withdraw_statement()
KEEP = pg.insert(DECISIONS).on_conflict_do_nothing()
CLOSE_AND_KEEP = _change_and_keep_statement(CLOSING_COLUMNS)
CHANGE_AND_KEEP = _change_and_keep_statement(CHANGING_COLUMNS)
#: The wish to cancel what was approved; the first one stays.
ASK_CANCEL = (
    sa.update(APPROVALS)
    .where(
        APPROVALS.c.approval_id == sa.bindparam("asked"),
        APPROVALS.c.state == sa.literal_column("'approved'"),
        APPROVALS.c.cancel_asked_at.is_(None),
    )
    .values(cancel_asked_by=sa.bindparam("by"), cancel_asked_at=sa.func.clock_timestamp())
)
TOMBSTONES = _tombstones_statement()
EXPIRE = _expire_statement()
DUE = _due_statement()
STEPPED = _stepped_statement()
ADD_EDIT = pg.insert(EDITS).on_conflict_do_nothing().returning(EDITS.c.edit_id)
LOAD_EDIT = sa.select(EDITS).where(EDITS.c.tenant == sa.bindparam("tenant"), EDITS.c.edit_id == sa.bindparam("edit_id"))
END_EDIT = (
    sa.update(EDITS)
    .where(
        EDITS.c.tenant == sa.bindparam("of_tenant"),
        EDITS.c.edit_id == sa.bindparam("of_edit"),
        EDITS.c.state == sa.literal_column("'asked'"),
    )
    .values(
        state=sa.bindparam("new_state"),
        detail=sa.bindparam("new_detail"),
        rulebook_digest=sa.bindparam("new_rulebook_digest"),
        judged_at=sa.bindparam("new_judged_at", type_=_TIME),
    )
    .returning(EDITS.c.edit_id)
)

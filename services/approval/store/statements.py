"""Every statement of approval, built once: building one costs more than running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.approval.states import EDIT_MACHINE, MACHINE, Event, State
from services.approval.store.values import APPROVALS, CALL_COLUMNS, DECISION_COLUMNS, DECISIONS, EDITS
from services.approval.tables import CallRow
from shared.database import table_of
from shared.sql import records

CALLS = table_of(CallRow)

_TEXTS = pg.ARRAY(pg.TEXT)
#: The gateway's API keys, as it shows them: the one thing that approval reads of another service.
_KEYS = sa.table("api_keys", sa.column("key_id", sa.Text), sa.column("revoked_at"), schema="read")
_TIME = sa.TIMESTAMP(timezone=True)
_OPENING_COLUMNS = (
    *CALL_COLUMNS,
    *(
        "approval_id",
        "category",
        "pool",
        "permit_expires_after_seconds",
        "summary",
        "searched",
        "rule",
        "rulebook_digest",
        "reason",
    ),
    *("approval_rule", "deciders", "deciders_digest", "state", "revision", "arguments_revision", "steps_done"),
    *("delegations", "correlation_id", "traceparent"),
)
#: What changes where an approval is only closed.
CLOSING_COLUMNS = ("state", "decided_by", "decision_reason", "result_kind", "answer_kind", "closed_at")
#: What else people and the clock change.
CHANGING_COLUMNS = (
    *CLOSING_COLUMNS,
    *("arguments", "shown_arguments", "digest", "edited", "summary", "searched", "arguments_revision", "revision"),
    *("expires_at", "next_step_at", "claimed_by", "claimed_until", "delegations", "deciders", "deciders_digest"),
    *("paused_at", "seats"),
)
#: What reminders and escalations change.
STEP_COLUMNS = ("steps_done", "next_step_at", "revision", "deciders", "deciders_digest")
_PENDING = APPROVALS.c.state == sa.literal_column("'pending'")


def _given(table: sa.Table, names: Sequence[str], prefix: str = "") -> list[sa.BindParameter[Any]]:
    return [sa.bindparam(f"{prefix}{name}", type_=table.c[name].type) for name in names]


def _open_statement() -> sa.Insert:
    """Insert calls and, only where nothing was heard of one before, its approval: one round trip.

    Calls are inserted in the order of their ids, so that two replicas with the same ones cannot lock each other out.
    """
    kinds = {name: APPROVALS.c[name].type for name in _OPENING_COLUMNS}
    waits = dict.fromkeys(("waits", "first_step"), sa.Interval())
    asked = sa.select(records("asked", kinds | waits)).cte("asked")
    heard = sa.select(asked.c.tenant, asked.c.call_id, sa.func.clock_timestamp()).order_by(asked.c.call_id)
    first = (
        pg.insert(CALLS)
        .from_select(["tenant", "call_id", "heard_at"], heard)
        .on_conflict_do_nothing()
        .returning(CALLS.c.tenant, CALLS.c.call_id, CALLS.c.heard_at)
        .cte("first")
    )
    created = first.c.heard_at
    times = [created, *(created + asked.c[name] for name in waits)]
    same = (asked.c.tenant == first.c.tenant) & (asked.c.call_id == first.c.call_id)
    chosen = sa.select(*(asked.c[name] for name in _OPENING_COLUMNS), *times).select_from(first.join(asked, same))
    columns = [*_OPENING_COLUMNS, "created_at", "expires_at", "next_step_at"]
    opened = [APPROVALS.c[name] for name in ("approval_id", "created_at", "expires_at", "next_step_at")]
    return sa.insert(APPROVALS).from_select(columns, chosen).returning(*opened)


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


def _keep_statement(columns: Sequence[str]) -> sa.Executable:
    """Keep decisions, and change the pending approvals of those that change one: no such row without its change.

    They are kept in the order of their ids, so that two replicas with the same ones cannot lock each other out.
    """
    kinds = {name: DECISIONS.c[name].type for name in DECISION_COLUMNS}
    kinds |= {f"new_{name}": APPROVALS.c[name].type for name in columns}
    made = sa.select(records("made", kinds | {"changing": sa.Text()})).cte("made")
    done = (
        sa.update(APPROVALS)
        .where(APPROVALS.c.approval_id == made.c.changing, _PENDING)
        .values({name: made.c[f"new_{name}"] for name in columns})
        .returning(APPROVALS.c.approval_id)
        .cte("done")
    )
    changed = made.c.changing.in_(sa.select(done.c.approval_id))
    chosen = sa.select(*(made.c[name] for name in DECISION_COLUMNS)).where(made.c.changing.is_(None) | changed)
    kept = pg.insert(DECISIONS).from_select(list(DECISION_COLUMNS), chosen.order_by(made.c.tenant, made.c.decision_id))
    return kept.on_conflict_do_nothing().returning(DECISIONS.c.tenant, DECISIONS.c.decision_id)


def _lock_statement() -> sa.Select[Any]:
    """Lock approvals in the order of their calls' ids, as withdrawals do: nobody locks another one out."""
    wanted = records("wanted", dict.fromkeys(("tenant", "approval_id"), sa.Text))
    return (
        sa.select(APPROVALS)
        .where(APPROVALS.c.approval_id == wanted.c.approval_id, APPROVALS.c.tenant == wanted.c.tenant)
        .order_by(APPROVALS.c.call_id)
        .with_for_update(of=APPROVALS)
    )


def _clock_statement() -> sa.Select[Any]:
    """Read the clock once, which of some API keys work, and what was answered to decision ids before."""
    wanted = records("wanted", dict.fromkeys(("tenant", "decision_id"), sa.Text))
    same = (DECISIONS.c.tenant == wanted.c.tenant) & (DECISIONS.c.decision_id == wanted.c.decision_id)
    now = sa.select(sa.func.clock_timestamp()).scalar_subquery()
    keys = sa.select(_KEYS.c.key_id).where(
        _KEYS.c.key_id == sa.any_(sa.bindparam("keys", type_=_TEXTS)), _KEYS.c.revoked_at.is_(None)
    )
    names = ("approval_id", "person", "verb", "digest", "details", "answer")
    known = [DECISIONS.c[name] for name in names]
    asked = (wanted.c.tenant, wanted.c.decision_id)
    working = sa.func.array(keys.scalar_subquery())
    return sa.select(now, working, *asked, *known).select_from(wanted.outerjoin(DECISIONS, same))


def _votes_statement() -> sa.Select[Any]:
    """Choose of each person the last counted decision about the arguments of this number, for several approvals.

    A visitor may be called like a person, so their proof tells the two apart. `works` says whether the key that proved
    the maker is still good; where it is not, an earlier decision of theirs does not come back.
    """
    c = DECISIONS.c
    wanted = records("wanted", {"tenant": sa.Text, "approval_id": sa.Text, "number": sa.Integer})
    working = sa.exists().where(_KEYS.c.key_id == c.key_id, _KEYS.c.revoked_at.is_(None))
    works = sa.or_(c.key_id.is_(None), working).label("works")
    opened_by = c.details["opened_by"].astext.label("opened_by")
    maker = (c.person, c.roles, c.proof, c.conversation_id, c.key_id, opened_by)
    return (
        sa.select(c.approval_id, c.verb, *maker, works, c.counted_revision)
        .where(
            c.approval_id == wanted.c.approval_id,
            c.tenant == wanted.c.tenant,
            c.arguments_revision == wanted.c.number,
        )
        .ext(pg.distinct_on(c.approval_id, c.person, c.conversation_id))
        .order_by(c.approval_id, c.person, c.conversation_id, c.counted_revision.desc(), c.decided_at.desc())
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


def _indexed_statement() -> sa.Update:
    """Give locked approvals the words that they lack."""
    brought = records("indexed", dict.fromkeys(("approval_id", "searched"), sa.Text))
    return (
        sa.update(APPROVALS).where(APPROVALS.c.approval_id == brought.c.approval_id).values(searched=brought.c.searched)
    )


def _sets_statement() -> sa.Select[Any]:
    """Choose of each set of deciders that something pending has the newest approval: one step along the index each."""
    first, other = APPROVALS.alias("first"), APPROVALS.alias("other")
    sets = _newest(first).cte("sets", recursive=True)
    later = sa.tuple_(other.c.tenant, other.c.deciders_digest) > sa.tuple_(sets.c.tenant, sets.c.deciders_digest)
    following = _newest(other).where(later).lateral("following")
    found = sets.union_all(sa.select(following).select_from(sets.join(following, sa.true())))
    return sa.select(APPROVALS).join(found, found.c.approval_id == APPROVALS.c.approval_id)


def _newest(table: sa.FromClause) -> sa.Select[Any]:
    c = table.c
    waiting = sa.select(c.tenant, c.deciders_digest, c.approval_id).where(c.state == sa.literal_column("'pending'"))
    order = (c.tenant, c.deciders_digest, c.created_at.desc(), c.approval_id.desc())
    return waiting.order_by(*order).limit(1)


def _set_statement() -> sa.Select[Any]:
    """Choose the newest approvals of the set that one belongs to."""
    one = APPROVALS.alias("one")
    same = (APPROVALS.c.tenant == one.c.tenant) & (APPROVALS.c.deciders_digest == one.c.deciders_digest)
    newest = (APPROVALS.c.created_at.desc(), APPROVALS.c.approval_id.desc())
    return (
        sa.select(APPROVALS)
        .join(one, same)
        .where(one.c.approval_id == sa.bindparam("of_set"), _PENDING)
        .order_by(*newest)
        .limit(sa.bindparam("most", type_=sa.Integer))
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
LOCK = _lock_statement()
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
CLOSE_AND_KEEP = _keep_statement(CLOSING_COLUMNS)
CHANGE_AND_KEEP = _keep_statement(CHANGING_COLUMNS)
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
UNSEARCHED = (
    sa.select(APPROVALS.c.approval_id, APPROVALS.c.summary)
    .where(APPROVALS.c.searched.is_(None))
    .order_by(APPROVALS.c.created_at.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
    .with_for_update(skip_locked=True)
)
INDEXED = _indexed_statement()
SETS = _sets_statement()
SET = _set_statement()
SET_COUNT = sa.select(sa.func.count()).select_from(SET.with_only_columns(sa.literal(1)).subquery())
STEPPED = _stepped_statement()
ADD_EDIT = pg.insert(EDITS).on_conflict_do_nothing().returning(EDITS.c.edit_id)
LOAD_EDIT = sa.select(EDITS).where(EDITS.c.tenant == sa.bindparam("tenant"), EDITS.c.edit_id == sa.bindparam("edit_id"))
END_EDIT = (
    sa.update(EDITS)
    .where(
        EDITS.c.tenant == sa.bindparam("of_tenant"),
        EDITS.c.edit_id == sa.bindparam("of_edit"),
        EDITS.c.state == sa.literal_column(f"'{EDIT_MACHINE.initial}'"),
    )
    .values(
        state=sa.bindparam("new_state"),
        detail=sa.bindparam("new_detail"),
        shown_arguments=sa.bindparam("new_shown", type_=sa.Text),
        differences=sa.bindparam("new_differences", type_=pg.JSONB),
        rulebook_digest=sa.bindparam("new_rulebook_digest"),
        judged_at=sa.bindparam("new_judged_at", type_=_TIME),
    )
    .returning(EDITS.c.edit_id)
)

"""All SQL of approval. Statements are built once: building one costs more than running it.

Whatever judges by time takes two statements: one that locks the row, then one that reads the clock. In a single
statement PostgreSQL reads the clock before it waits for the lock, and would approve what expired while it waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.approval.rules import Approval, Decision, Withdrawal
from services.approval.states import MACHINE, Event, State
from services.approval.tables import ApprovalRow, CallRow, DecisionRow
from shared.database import table_of
from shared.errors import PlacetError
from shared.messages import ApprovalRule, DecisionClaims, ToolCall
from shared.sql import Connection

APPROVALS = table_of(ApprovalRow)
CALLS = table_of(CallRow)
DECISIONS = table_of(DecisionRow)

_TEXTS = pg.ARRAY(pg.TEXT)
_CALL_COLUMNS = tuple(ToolCall.model_fields)
_OPENING_COLUMNS = (
    *_CALL_COLUMNS,
    *("approval_id", "pool", "permit_expires_after_seconds", "summary", "rule", "rulebook_digest", "reason"),
    *("approval_rule", "state", "revision", "correlation_id", "traceparent"),
)
_DECISION_COLUMNS = tuple(column.name for column in DECISIONS.c)


class LostRow(PlacetError):
    """A row that this transaction holds locked is not what it was: a bug, never a race."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A decision that was handled before, and its answer."""

    approval_id: str
    person: str
    verb: str
    digest: str
    answer: dict[str, Any]

    def is_from(self, claims: DecisionClaims) -> bool:
        """Tell whether `claims` are the same decision, sent again."""
        mine = (self.approval_id, self.person, self.verb, self.digest)
        return mine == (claims.approval_id, claims.person, claims.verb, claims.digest)


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
    chosen = sa.select(
        *_given(APPROVALS, _OPENING_COLUMNS), created, created + sa.bindparam("waits", type_=sa.Interval)
    )
    columns = [*_OPENING_COLUMNS, "created_at", "expires_at"]
    return (
        sa.insert(APPROVALS)
        .from_select(columns, chosen.select_from(first))
        .returning(APPROVALS.c.created_at, APPROVALS.c.expires_at)
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


def _close_and_keep_statement() -> sa.Executable:
    """Close the approval and keep the decision that did it: no decision row without the change, in one round trip.

    The decision's values are prefixed, because a value named like a column of the approval would be written there.
    """
    done = (
        sa.update(APPROVALS)
        .where(APPROVALS.c.approval_id == sa.bindparam("closing"), APPROVALS.c.state == MACHINE.initial)
        .values({name: sa.bindparam(f"new_{name}", type_=APPROVALS.c[name].type) for name in _CLOSING_COLUMNS})
        .returning(APPROVALS.c.approval_id)
        .cte("done")
    )
    chosen = sa.select(*_given(DECISIONS, _DECISION_COLUMNS, "kept_")).select_from(done)
    return sa.insert(DECISIONS).from_select(list(_DECISION_COLUMNS), chosen).returning(DECISIONS.c.decision_id)


def _clock_statement() -> sa.Select[Any]:
    one = sa.select(sa.literal(1).label("one")).subquery("one")
    same = (DECISIONS.c.tenant == sa.bindparam("tenant")) & (DECISIONS.c.decision_id == sa.bindparam("decision_id"))
    known = (DECISIONS.c.approval_id, DECISIONS.c.person, DECISIONS.c.verb, DECISIONS.c.digest, DECISIONS.c.answer)
    return sa.select(sa.func.clock_timestamp(), *known).select_from(one.outerjoin(DECISIONS, same))


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
        .where(APPROVALS.c.state == sa.literal_column("'pending'"), APPROVALS.c.expires_at <= now)
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


_CLOSING_COLUMNS = ("state", "decided_by", "decision_reason", "result_kind", "closed_at")
_OPEN = _open_statement()
_WITHDRAWAL = sa.select(CALLS.c.withdrawn_kind, CALLS.c.withdrawn_reason).where(
    CALLS.c.tenant == sa.bindparam("tenant"), CALLS.c.call_id == sa.bindparam("call_id")
)
_ADD = pg.insert(APPROVALS).on_conflict_do_nothing(index_elements=["call_id"]).returning(APPROVALS.c.approval_id)
_LOCK = (
    sa.select(APPROVALS)
    .where(APPROVALS.c.approval_id == sa.bindparam("approval_id"), APPROVALS.c.tenant == sa.bindparam("tenant"))
    .with_for_update()
)
_LOCK_CALLS = (
    sa.select(APPROVALS)
    .where(
        APPROVALS.c.call_id == sa.any_(sa.bindparam("call_ids", type_=_TEXTS)),
        APPROVALS.c.tenant == sa.bindparam("tenant"),
    )
    .order_by(APPROVALS.c.call_id)
    .with_for_update()
)
_CLOCK = _clock_statement()
_WITHDRAW = _withdraw_statement()
_KEEP = pg.insert(DECISIONS).on_conflict_do_nothing()
_CLOSE_AND_KEEP = _close_and_keep_statement()
_TOMBSTONES = _tombstones_statement()
_EXPIRE = _expire_statement()


async def open_approval(connection: Connection, opening: Approval) -> Approval | None:
    """Store a pending approval, timed by the database clock; None where something was heard of the call before."""
    waits = timedelta(seconds=opening.approval_rule.expires_after_seconds)
    row = (await connection.execute(_OPEN, _values(opening) | {"waits": waits})).first()
    return replace(opening, created_at=row.created_at, expires_at=row.expires_at) if row else None


async def load_withdrawal(connection: Connection, call: ToolCall) -> Withdrawal | None:
    """Return how a call was withdrawn before it was held; None where it was not."""
    found = await connection.execute(_WITHDRAWAL, {"tenant": call.tenant, "call_id": call.call_id})
    row = found.one()
    return Withdrawal(row.withdrawn_kind, row.withdrawn_reason) if row.withdrawn_kind else None


async def add_closed(connection: Connection, approval: Approval) -> bool:
    """Store an approval that is over before anybody saw it; tell whether it is the first of its call."""
    return (await connection.execute(_ADD, _values(approval))).first() is not None


async def lock_approval(connection: Connection, tenant: str, approval_id: str) -> Approval | None:
    """Return an approval, locked until the transaction ends; None where the tenant has none of this id."""
    found = await connection.execute(_LOCK, {"tenant": tenant, "approval_id": approval_id})
    row = found.mappings().first()
    return _approval(dict(row)) if row else None


async def read_clock(connection: Connection, claims: DecisionClaims) -> tuple[datetime, Earlier | None]:
    """Return the database clock now, and what was answered to this decision id before. After the lock, never before."""
    found = await connection.execute(_CLOCK, {"tenant": claims.tenant, "decision_id": claims.decision_id})
    now, *known = found.one()
    return now, Earlier(*known) if known[0] is not None else None


async def keep_decision(connection: Connection, decision: Decision, *, closed: Approval | None) -> None:
    """Store a decision, together with the end of the locked approval where it brought one."""
    values = _decision_values(decision)
    if closed is None:
        await connection.execute(_KEEP, values)
        return
    values = {f"kept_{name}": value for name, value in values.items()}
    values |= {f"new_{name}": getattr(closed, name) for name in _CLOSING_COLUMNS} | {"closing": closed.approval_id}
    _check_count(len((await connection.execute(_CLOSE_AND_KEEP, values)).all()), [closed])


async def add_tombstones(
    connection: Connection, tenant: str, call_ids: Sequence[str], withdrawal: Withdrawal
) -> set[str]:
    """Remember the withdrawal of calls nothing was heard of; return which they were.

    Waits for a request that is just being opened, so that the call is either opened here or remembered there.
    """
    values = {"withdrawn_kind": withdrawal.kind, "withdrawn_reason": withdrawal.reason}
    found = await connection.execute(_TOMBSTONES, {"tenant": tenant, "call_ids": list(call_ids), **values})
    return set(found.scalars())


async def lock_calls(connection: Connection, tenant: str, call_ids: Sequence[str]) -> list[Approval]:
    """Return the tenant's approvals of these calls, locked in the order of the calls' ids."""
    if not call_ids:
        return []
    found = await connection.execute(_LOCK_CALLS, {"tenant": tenant, "call_ids": list(call_ids)})
    return [_approval(dict(row)) for row in found.mappings()]


async def save_withdrawn(
    connection: Connection, approvals: Sequence[Approval], withdrawal: Withdrawal
) -> list[datetime]:
    """Close locked approvals that were pending; return when each was closed, by the database clock."""
    if not approvals:
        return []
    values = {"new_result_kind": withdrawal.kind, "new_decision_reason": withdrawal.reason}
    ids = [approval.approval_id for approval in approvals]
    rows = await connection.execute(_WITHDRAW, {"closing": ids, **values})
    ends: dict[str, datetime] = {row.approval_id: row.closed_at for row in rows}
    _check_count(len(ends), approvals)
    return [ends[approval_id] for approval_id in ids]


async def expire_overdue(connection: Connection, most: int) -> list[Approval]:
    """Close at most `most` overdue approvals that nobody else holds, and return them as they are now."""
    return [_approval(dict(row)) for row in (await connection.execute(_EXPIRE, {"most": most})).mappings()]


def _decision_values(decision: Decision) -> dict[str, Any]:
    claims, answered = decision.claims, decision.answered
    values = {name: getattr(claims, name) for name in _DECISION_COLUMNS if name in DecisionClaims.model_fields}
    answer = answered.model_dump(mode="json", exclude={"answer_to"})
    return values | {
        "signed": decision.signed,
        "outcome": answered.outcome,
        "answer": answer,
        "decided_at": decision.at,
    }


def _check_count(count: int, closed: Sequence[Approval]) -> None:
    if count != len(closed):
        raise LostRow(f"{count} of {len(closed)} approvals were pending, first {closed[0].approval_id}")


def _values(approval: Approval) -> dict[str, Any]:
    names = [name for name in Approval.__slots__ if name in APPROVALS.c]
    values = {name: getattr(approval, name) for name in names}
    return values | approval.call.model_dump() | {"approval_rule": approval.approval_rule.model_dump()}


def _approval(row: dict[str, Any]) -> Approval:
    values = {name: row[name] for name in Approval.__slots__ if name in row}
    values |= {"call": ToolCall.model_validate(row), "state": State(row["state"])}
    return Approval(**values | {"approval_rule": ApprovalRule.model_validate(row["approval_rule"])})

"""Rows of the executor.

The CHECKs repeat the machine, so that a statement that forgets it is refused: only what began has a fence, only what
somebody works on has a lease, only what is answered has an end, and only what a person resolved names the person. Two
unique keys make a call and a permit good for one row.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.executor.states import ANSWERED, LEASED, State
from placet.runtime.database import metadata

_TIME = sa.TIMESTAMP(timezone=True)
_STORED = frozenset(State) - {State.NEW}
_NEVER_BEGAN = frozenset({State.REFUSED, State.EXPIRED})


def _one_of(states: frozenset[State]) -> str:
    return f"state IN ({', '.join(repr(state.value) for state in sorted(states))})"


class ExecutionRow(SQLModel, table=True):
    """One call that an executor took; it never leaves a final state, and its answer never changes."""

    #: Its convention names the constraints below, so it is imported before they are made.
    metadata = metadata

    __tablename__ = "executions"
    __table_args__ = (
        sa.CheckConstraint(_one_of(_STORED), name="state_known"),
        sa.CheckConstraint(f"({_one_of(ANSWERED)}) = (finished_at IS NOT NULL)", name="finished_iff_answered"),
        sa.CheckConstraint(f"({_one_of(LEASED)}) = (lease_until IS NOT NULL)", name="lease_iff_worked_on"),
        sa.CheckConstraint(f"({_one_of(_NEVER_BEGAN)}) = (begun_at IS NULL)", name="begun_iff_claimed"),
        sa.CheckConstraint("(begun_at IS NULL) = (fence = 0) AND fence >= 0", name="fence_iff_begun"),
        sa.CheckConstraint("(state = 'resolved') = (resolved_at IS NOT NULL)", name="resolved_iff_resolved"),
        sa.CheckConstraint(
            "(resolved_at IS NULL) = (resolution IS NULL) AND (resolved_at IS NULL) = (resolved_by IS NULL)",
            name="resolution_whole",
        ),
        sa.CheckConstraint("resolution IN ('ran', 'did_not_run')", name="resolution_known"),
        sa.UniqueConstraint("permit_id"),
        sa.Index("ix_executions_leases", "pool", "lease_until", postgresql_where=sa.text(_one_of(LEASED))),
        sa.Index("ix_executions_unknown", "pool", postgresql_where=sa.text("state = 'unknown'")),
        # Room for the row as it ends, on the same page: then only what changed is logged.
        {"schema": "executor", "postgresql_with": {"fillfactor": 50}},
    )

    call_id: str = Field(primary_key=True)
    tenant: str
    conversation_id: str
    tool: str
    schema_digest: str
    pool: str
    #: Whether the tool was safe to repeat when the call was claimed.
    idempotent: bool
    permit_id: str
    permit_issuer: str
    permit_expires_at: datetime = Field(sa_type=_TIME)
    #: The signed permit; verified again before another attempt. Empty where the call was given up before it came.
    permit: str
    #: The ToolCall as JSON, its arguments byte for byte. Empty likewise.
    call: str
    cause: dict[str, Any] = Field(sa_type=pg.JSONB)
    # What changes stands together, behind all that is long: PostgreSQL logs of a change what is between the first and
    # the last column that changed.
    state: str
    #: Number of the newest attempt; an older one may no longer write. 0 where none began.
    fence: int
    #: Who made the newest attempt, or turned the call away.
    worker: str
    #: When a silent worker counts as lost.
    lease_until: datetime | None = Field(default=None, sa_type=_TIME)
    #: When the first attempt began.
    begun_at: datetime | None = Field(default=None, sa_type=_TIME)
    finished_at: datetime | None = Field(default=None, sa_type=_TIME)
    #: What the model was told where the call did not succeed.
    error: str = ""
    #: What a person said of an outcome that was answered `unknown`: `ran` or `did_not_run`.
    resolution: str | None = None
    resolved_by: str | None = None
    #: In their words; what they looked at.
    resolution_note: str = Field(default="", sa_column_kwargs={"server_default": ""})
    resolved_at: datetime | None = Field(default=None, sa_type=_TIME)

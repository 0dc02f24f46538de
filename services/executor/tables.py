"""Rows of the executor.

The CHECKs repeat the machine, so that a statement that forgets it is refused: only what began has a fence, only what
runs has a lease, only what is over has an end. Two unique keys make a call and a permit good for one row.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from services.executor.states import FINAL, State

_TIME = sa.TIMESTAMP(timezone=True)
_STORED = frozenset(State) - {State.NEW}
_NEVER_BEGAN = frozenset({State.REFUSED, State.EXPIRED})


def _one_of(states: frozenset[State]) -> str:
    return f"state IN ({', '.join(repr(state.value) for state in sorted(states))})"


class ExecutionRow(SQLModel, table=True):
    """One call that an executor took; it never leaves a final state."""

    __tablename__ = "executions"
    __table_args__ = (
        sa.CheckConstraint(_one_of(_STORED), name="state_known"),
        sa.CheckConstraint(f"({_one_of(FINAL)}) = (finished_at IS NOT NULL)", name="finished_iff_final"),
        sa.CheckConstraint("(state = 'running') = (lease_until IS NOT NULL)", name="lease_iff_running"),
        sa.CheckConstraint(f"({_one_of(_NEVER_BEGAN)}) = (begun_at IS NULL)", name="begun_iff_claimed"),
        sa.CheckConstraint("(begun_at IS NULL) = (fence = 0) AND fence >= 0", name="fence_iff_begun"),
        sa.UniqueConstraint("permit_id"),
        sa.Index("ix_executions_leases", "pool", "lease_until", postgresql_where=sa.text("state = 'running'")),
        {"schema": "executor"},
    )

    call_id: str = Field(primary_key=True)
    tenant: str
    conversation_id: str
    tool: str
    schema_digest: str
    pool: str
    #: Whether the tool was safe to repeat when the call was claimed.
    idempotent: bool
    state: str
    #: Number of the newest attempt; an older one may no longer write. 0 where none began.
    fence: int
    #: Who made the newest attempt, or turned the call away.
    worker: str
    #: When a silent worker counts as lost.
    lease_until: datetime | None = Field(default=None, sa_type=_TIME)
    permit_id: str
    permit_issuer: str
    permit_expires_at: datetime = Field(sa_type=_TIME)
    #: The signed permit; verified again before another attempt. Empty where the call was given up before it came.
    permit: str
    #: The ToolCall as JSON, its arguments byte for byte. Empty likewise.
    call: str
    cause: dict[str, Any] = Field(sa_type=pg.JSONB)
    #: When the first attempt began.
    begun_at: datetime | None = Field(default=None, sa_type=_TIME)
    finished_at: datetime | None = Field(default=None, sa_type=_TIME)
    #: What the model was told where the call did not succeed.
    error: str = ""

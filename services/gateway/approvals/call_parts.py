"""Parts of a call's story that several answers show: the verdict, the execution, a change of state."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field


class VerdictOut(BaseModel):
    """What policy said."""

    id: str
    effect: str
    rule: str | None
    reason: str | None
    rulebook_digest: str
    judged_at: datetime


class ExecutionOut(BaseModel):
    """What the executor did."""

    pool: str
    state: str
    fence: int | None = Field(description="Number of the attempt; a result of an older attempt does not count.")
    worker: str | None
    permit_id: str | None
    permit_issuer: str | None
    permit_expires_at: datetime | None = None
    lease_until: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    result_kind: str | None
    digest: str | None = Field(default=None, description="Of exactly what an executor took.")
    error: str | None
    resolution: Literal["ran", "did_not_run"] | None = Field(
        default=None, description="What a person found of an outcome that was answered `unknown`."
    )
    resolved_by: str | None = None
    resolution_note: str = ""
    resolved_at: datetime | None = None


class ChangeOut(BaseModel):
    """One change of a state."""

    at: datetime
    machine: str
    subject_id: str
    event: str
    from_state: str | None
    to_state: str
    actor: str
    message_id: str | None
    detail: Any

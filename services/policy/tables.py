"""Rows of policy."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from services.policy.rules import Effect
from shared.database import check_states


class VerdictRow(SQLModel, table=True):
    """What policy answered to one call, and by which rule of which rulebook. Written once, never changed."""

    __tablename__ = "verdicts"
    __table_args__ = (
        check_states("effect", Effect),
        sa.UniqueConstraint("call_id"),
        {"schema": "policy"},
    )

    verdict_id: str = Field(primary_key=True)
    call_id: str
    tenant: str
    conversation_id: str
    tool: str
    #: Digest of the call that was judged; another digest under the same call id is an attack.
    digest: str
    schema_digest: str
    effect: str
    rule: str
    #: Why, for people.
    reason: str
    #: Why, for the model; empty where the call may still run.
    model_reason: str
    rulebook_digest: str
    judged_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))

"""Rows of approval."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from services.approval.states import MACHINE, State
from shared.database import check_states

_TIME = sa.TIMESTAMP(timezone=True)
#: The order of every list of approvals: each page of it is a stretch of one index.
_NEWEST_FIRST = (sa.text("created_at DESC"), sa.text("approval_id DESC"))


class CallRow(SQLModel, table=True):
    """What approval heard first about a call: that it is held, or that it was withdrawn before it was held.

    Requests and withdrawals come over different queues to different replicas. Both insert here first, so the unique
    key makes the later one wait for the earlier one's commit: neither can overlook the other.
    """

    __tablename__ = "calls"
    __table_args__ = (
        sa.CheckConstraint("withdrawn_kind IN ('cancelled', 'superseded')", name="withdrawn_kind_known"),
        sa.CheckConstraint("(withdrawn_kind IS NULL) = (withdrawn_reason IS NULL)", name="withdrawn_with_reason"),
        {"schema": "approval"},
    )

    tenant: str = Field(primary_key=True)
    call_id: str = Field(primary_key=True)
    withdrawn_kind: str | None = None
    withdrawn_reason: str | None = None
    heard_at: datetime = Field(sa_type=_TIME)


class ApprovalRow(SQLModel, table=True):
    """One held call and how its waiting ended. The call's own fields are kept as they came."""

    __tablename__ = "approvals"
    __table_args__ = (
        check_states("state", State),
        sa.CheckConstraint("(state <> 'pending') = (closed_at IS NOT NULL)", name="closed_iff_final"),
        sa.CheckConstraint("(state IN ('approved', 'denied')) = (decided_by IS NOT NULL)", name="decided_by_a_person"),
        sa.CheckConstraint("(state IN ('pending', 'approved')) = (result_kind IS NULL)", name="refused_with_kind"),
        sa.CheckConstraint(
            "(state, result_kind) IN (('denied', 'denied'), ('expired', 'expired'), ('withdrawn', 'cancelled'),"
            " ('withdrawn', 'superseded')) OR result_kind IS NULL",
            name="kind_fits_state",
        ),
        sa.CheckConstraint("state NOT IN ('approved', 'denied') OR closed_at < expires_at", name="decided_in_time"),
        sa.CheckConstraint("revision >= 1", name="revision_positive"),
        sa.UniqueConstraint("call_id"),
        sa.Index("ix_approvals_inbox", "tenant", "state", *_NEWEST_FIRST),
        sa.Index("ix_approvals_all", "tenant", *_NEWEST_FIRST),
        sa.Index("ix_approvals_conversation", "tenant", "conversation_id", *_NEWEST_FIRST),
        sa.Index("ix_approvals_due", "expires_at", postgresql_where=sa.text("state = 'pending'")),
        {"schema": "approval"},
    )

    approval_id: str = Field(primary_key=True)
    tenant: str
    call_id: str
    conversation_id: str
    turn_id: str
    message_id: str
    agent: str
    requester: str
    language: str
    labels: dict[str, str] = Field(sa_type=pg.JSONB)
    tool: str
    schema_digest: str
    arguments: str
    #: What people may see of them; policy rendered it.
    shown_arguments: str
    digest: str
    pool: str
    permit_expires_after_seconds: int
    summary: str
    rule: str
    rulebook_digest: str
    reason: str
    #: ApprovalRule as policy pinned it to this call: a later rulebook does not change who may decide.
    approval_rule: dict[str, Any] = Field(sa_type=pg.JSONB)
    state: str = Field(default=MACHINE.initial)
    revision: int = 1
    created_at: datetime = Field(sa_type=_TIME)
    expires_at: datetime = Field(sa_type=_TIME)
    decided_by: str | None = None
    decision_reason: str | None = None
    #: How the call ended if it may not run; NULL while it waits and when it was approved.
    result_kind: str | None = None
    closed_at: datetime | None = Field(default=None, sa_type=_TIME)
    #: The thread that the call belongs to; what an expiry or a decision emits goes on in it.
    correlation_id: str
    traceparent: str


class DecisionRow(SQLModel, table=True):
    """One decision that a person sent, counted or not, with the answer it got. Never changed."""

    __tablename__ = "decisions"
    __table_args__ = (
        sa.CheckConstraint("verb IN ('approve', 'deny')", name="verb_known"),
        sa.CheckConstraint(
            "outcome IN ('accepted', 'already_decided', 'stale', 'not_allowed', 'not_found')", name="outcome_known"
        ),
        sa.Index("ix_decisions_approval", "approval_id", "decided_at"),
        {"schema": "approval"},
    )

    tenant: str = Field(primary_key=True)
    decision_id: str = Field(primary_key=True)
    #: As claimed; no foreign key, because an unknown approval's attempts are kept too.
    approval_id: str
    person: str
    verb: str
    reason: str
    #: Digest and revision of the card that the person saw.
    digest: str
    revision: int | None = None
    #: How the gateway knew the person.
    proof: str
    #: The signed decision itself, JWS compact form: evidence that anybody with the public key can check.
    signed: str
    outcome: str
    #: DecisionAnswered without its address: the same decision id gets it again.
    answer: dict[str, Any] = Field(sa_type=pg.JSONB)
    decided_at: datetime = Field(sa_type=_TIME)

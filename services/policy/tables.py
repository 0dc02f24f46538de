"""Rows of policy."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.domain.limits import Per
from placet.policy.rules import Effect
from placet.runtime.database import check_states

_TIME = sa.TIMESTAMP(timezone=True)


class ActivationRow(SQLModel, table=True):
    """One change of the rulebook that policy judges by, or of the people that it asks. Written once, never changed."""

    __tablename__ = "activations"
    __table_args__ = (
        sa.CheckConstraint("kind IN ('rulebook', 'directory')", name="kind_known"),
        sa.Index("ix_activations_newest", sa.text("activated_at DESC")),
        {"schema": "policy"},
    )

    activation_id: str = Field(primary_key=True)
    kind: str = Field(default="rulebook", sa_column_kwargs={"server_default": "rulebook"})
    digest: str = Field(index=True)
    #: `file` for a changed file, or the administrator.
    activated_by: str
    activated_at: datetime = Field(sa_type=_TIME)
    #: The whole text, so that what a verdict's digest names can be read as long as the verdict; of a directory its
    #: outline, in which no addresses are.
    source: str
    #: Against the one before, as unified text.
    diff: str


class VerdictRow(SQLModel, table=True):
    """What policy answered to one call, and by which rule of which rulebook. Never changed after its transaction."""

    __tablename__ = "verdicts"
    __table_args__ = (
        check_states("effect", Effect),
        sa.UniqueConstraint("call_id"),
        # For the counters of `history`: what a conversation or a requester asked of a tool lately.
        sa.Index("ix_verdicts_conversation", "tenant", "conversation_id", "tool", "judged_at"),
        sa.Index("ix_verdicts_requester", "tenant", "requester", "tool", "judged_at"),
        # For replaying the past.
        sa.Index("ix_verdicts_newest", "tenant", sa.text("judged_at DESC"), sa.text("verdict_id DESC")),
        {"schema": "policy"},
    )

    verdict_id: str = Field(primary_key=True)
    call_id: str
    tenant: str
    conversation_id: str
    requester: str
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
    judged_at: datetime = Field(sa_type=_TIME)
    #: What the rules looked at, see `kept`; none in rows that are older than this column.
    facts: str | None = None
    #: Who was asked, JSON text of an ApprovalRule; none where nobody was.
    approval: str | None = None
    #: What a staged call's permit will have to say, JSON text of StageTerms; none where nothing is staged.
    terms: str | None = None


class WatchedCallRow(SQLModel, table=True):
    """One held call whose rule has a veto window, while it waits and for that window after people denied it.

    A row for the proposed arguments, and one for all that people changed them to: whatever they saw, they denied.
    """

    __tablename__ = "watched_calls"
    __table_args__ = (
        sa.CheckConstraint("veto_on IN ('arguments', 'tool')", name="veto_on_known"),
        sa.CheckConstraint("veto_within IN ('conversation', 'requester', 'tenant')", name="veto_within_known"),
        sa.CheckConstraint("window_seconds > 0", name="window_not_empty"),
        sa.CheckConstraint("(denied_at IS NULL) = (until IS NULL)", name="denied_until"),
        sa.Index("ix_watched_calls_same", "tenant", "conversation_id", "tool"),
        # Those that reach beyond their conversation; few rules have them.
        sa.Index("ix_watched_calls_wide", "tenant", "tool", postgresql_where=sa.text("veto_within <> 'conversation'")),
        sa.Index("ix_watched_calls_oldest", "until", postgresql_where=sa.text("until IS NOT NULL")),
        {"schema": "policy"},
    )

    call_id: str = Field(primary_key=True)
    tenant: str
    conversation_id: str
    requester: str
    tool: str
    #: SHA-256 of the arguments alone: a changed schema of the tool makes it no other call.
    arguments_digest: str = Field(primary_key=True)
    veto_on: str
    veto_within: str
    window_seconds: int
    #: Who was asked, JSON text of an ApprovalRule; they are asked again.
    approval: str
    asked_at: datetime = Field(sa_type=_TIME)
    denied_at: datetime | None = Field(default=None, sa_type=_TIME)
    denied_by: str = ""
    #: In the words of who denied it.
    reason: str = ""
    until: datetime | None = Field(default=None, sa_type=_TIME)


class CounterRow(SQLModel, table=True):
    """What several calls are counted on together. The row is the lock: who asks it for room holds it to the commit."""

    __tablename__ = "counters"
    __table_args__ = (check_states("per", Per), sa.Index("ix_counters_oldest", "touched_at"), {"schema": "policy"})

    #: Digest of tenant, rule, measure, per and subject.
    counter_id: str = Field(primary_key=True)
    tenant: str
    rule: str
    #: `count`, or `sum:` and the path of an argument.
    measure: str
    per: str
    subject: str
    touched_at: datetime = Field(sa_type=_TIME)


class ReservationRow(SQLModel, table=True):
    """What one call took of a counter, and when it gave that back because it did not run."""

    __tablename__ = "reservations"
    __table_args__ = (
        sa.CheckConstraint("amount >= 0", name="amount_not_negative"),
        sa.CheckConstraint("(released_at IS NULL) = (released_as IS NULL)", name="released_with_kind"),
        sa.ForeignKeyConstraint(["counter_id"], ["policy.counters.counter_id"]),
        sa.Index(
            "ix_reservations_window",
            "counter_id",
            "reserved_at",
            postgresql_include=["amount"],
            postgresql_where=sa.text("released_at IS NULL"),
        ),
        sa.Index("ix_reservations_call", "call_id"),
        sa.Index("ix_reservations_oldest", "reserved_at"),
        {"schema": "policy"},
    )

    counter_id: str = Field(primary_key=True)
    call_id: str = Field(primary_key=True)
    tenant: str
    amount: Decimal = Field(sa_type=sa.Numeric)
    #: By the database clock, read after the counter was locked.
    reserved_at: datetime = Field(sa_type=_TIME)
    released_at: datetime | None = Field(default=None, sa_type=_TIME)
    #: How the call ended.
    released_as: str | None = None


class GrantRow(SQLModel, table=True):
    """One remembered choice: who allowed which calls, how many of them, and until when."""

    __tablename__ = "grants"
    __table_args__ = (
        sa.CheckConstraint("scope IN ('conversation', 'agent', 'tenant')", name="scope_known"),
        sa.CheckConstraint("uses_left BETWEEN 0 AND uses", name="uses_left_in_range"),
        sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="revoked_by_somebody"),
        sa.CheckConstraint("(void_at IS NULL) = (void_reason IS NULL)", name="void_with_reason"),
        sa.CheckConstraint("expires_at > given_at", name="expires_later"),
        sa.UniqueConstraint("approval_id"),
        sa.Index(
            "ix_grants_usable",
            *("tenant", "tool", "scope", "subject"),
            postgresql_where=sa.text("uses_left > 0 AND revoked_at IS NULL"),
        ),
        sa.Index("ix_grants_newest", "tenant", sa.text("given_at DESC"), sa.text("grant_id DESC")),
        {"schema": "policy"},
    )

    grant_id: str = Field(primary_key=True)
    tenant: str
    #: The approval that it was given with; one gives one grant at most.
    approval_id: str
    owner: str
    #: The API key that proved the owner: once it is revoked, the grant covers nothing.
    key_id: str | None = None
    rule: str
    tool: str
    schema_digest: str
    #: Digest of the tool's whole entry in the rulebook.
    tool_digest: str
    scope: str
    #: The conversation, agent or tenant whose calls it covers.
    subject: str
    #: Arguments of the approved call, canonical JSON text.
    arguments: str
    #: The same as people may see them.
    shown_arguments: str
    #: Arguments whose approved value is the most, or the only one.
    bounds: list[str] = Field(sa_type=pg.JSONB)
    rulebook_digest: str
    uses: int
    uses_left: int
    given_at: datetime = Field(sa_type=_TIME)
    expires_at: datetime = Field(sa_type=_TIME)
    revoked_at: datetime | None = Field(default=None, sa_type=_TIME)
    revoked_by: str | None = None
    #: Set for good once a rulebook took over in which the tool is not the one that was approved; and how it is not.
    void_at: datetime | None = Field(default=None, sa_type=_TIME)
    void_reason: str | None = None


class GrantUseRow(SQLModel, table=True):
    """One call that a grant let through, and when the use came back because the call did not run."""

    __tablename__ = "grant_uses"
    __table_args__ = (
        sa.ForeignKeyConstraint(["grant_id"], ["policy.grants.grant_id"]),
        sa.Index("ix_grant_uses_grant", "grant_id"),
        {"schema": "policy"},
    )

    call_id: str = Field(primary_key=True)
    grant_id: str
    tenant: str
    used_at: datetime = Field(sa_type=_TIME)
    returned_at: datetime | None = Field(default=None, sa_type=_TIME)

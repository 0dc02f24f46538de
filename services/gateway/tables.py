"""Rows of the gateway: keys, sessions, conversations, mailed links, stops, erasures, restores, the audit chain."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.gateway.states import MACHINE, State
from placet.runtime.database import check_states

_NOW = {"server_default": sa.func.now()}


class ApiKeyRow(SQLModel, table=True):
    """One API key; of its secret only the hash is here."""

    __tablename__ = "api_keys"
    __table_args__ = (
        sa.CheckConstraint("scopes <@ ARRAY['chat', 'decide', 'operate', 'admin']", name="scopes_known"),
        sa.CheckConstraint("cardinality(scopes) > 0", name="scopes_some"),
        sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="revoked_by_somebody"),
        sa.CheckConstraint("length(secret_hash) = 64", name="secret_hashed"),
        sa.CheckConstraint("(taken_over_at IS NULL) = (taken_over_by IS NULL)", name="taken_over_somehow"),
        sa.CheckConstraint(
            "taken_over_by IN ('maker', 'set-up', 'sign-in', 'code', 'key')", name="taken_over_by_known"
        ),
        sa.Index("ix_api_keys_tenant", "tenant", "created_at"),
        # Who made keys for whoever asked for a call? Asked with each decision.
        sa.Index("ix_api_keys_person", "tenant", "person"),
        {"schema": "gateway"},
    )

    key_id: str = Field(primary_key=True)
    tenant: str
    person: str = Field(description="Owner within the tenant, without the prefix `person:`.")
    scopes: list[str] = Field(sa_type=pg.ARRAY(sa.Text))
    secret_hash: str = Field(description="SHA-256 of the secret, 64 hexadecimal digits.")
    created_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)
    created_by: str
    revoked_at: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    revoked_by: str | None = None
    taken_over_at: datetime | None = Field(
        default=None,
        sa_type=sa.TIMESTAMP(timezone=True),
        description="Since when its owner has it to themselves; before, it is good for chatting only, if for anything.",
    )
    taken_over_by: str | None = Field(
        default=None,
        description="How that is known: `maker` (made for oneself), `set-up` (made beside the database), `sign-in`, "
        "`code` (which its owner alone was sent), or `key` (another of their own).",
    )
    code_hash: str | None = Field(default=None, description="SHA-256 of the code that its owner was sent.")
    code_expires_at: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    code_tries: int = Field(default=0, sa_column_kwargs={"server_default": "0"}, description="Wrong codes so far.")


class SessionRow(SQLModel, table=True):
    """One browser that is signed in; of its token only the hash is here."""

    __tablename__ = "sessions"
    __table_args__ = (
        sa.CheckConstraint("method IN ('key', 'link', 'oidc')", name="method_known"),
        sa.CheckConstraint("(method = 'oidc') = (key_id IS NULL)", name="rights_from_somewhere"),
        sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="revoked_by_somebody"),
        sa.CheckConstraint("length(token_hash) = 64", name="token_hashed"),
        sa.Index("ix_sessions_tenant", "tenant", "created_at"),
        sa.Index("ix_sessions_expires_at", "expires_at"),
        {"schema": "gateway"},
    )

    session_id: str = Field(primary_key=True)
    token_hash: str = Field(unique=True, description="SHA-256 of the cookie, 64 hexadecimal digits.")
    tenant: str
    person: str = Field(description="`person:…` who is signed in.")
    method: str = Field(description="How they signed in: with an API key, a one-time link, or at a provider.")
    key_id: str | None = Field(default=None, description="The API key whose rights it has.")
    created_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)
    seen_at: datetime = Field(
        sa_type=sa.TIMESTAMP(timezone=True), description="When it was last used, give or take a minute."
    )
    expires_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    revoked_at: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    revoked_by: str | None = None


class ConversationRow(SQLModel, table=True):
    """One conversation, opened over HTTP, or adopted from the agent where an AMQP frontend began it.

    The key has the tenant in it: AMQP frontends choose conversation ids, and two tenants may choose the same.
    """

    __tablename__ = "conversations"
    __table_args__ = (
        sa.CheckConstraint("(ended_at IS NULL) = (ended_by IS NULL)", name="ended_by_somebody"),
        check_states("holder", State),
        sa.CheckConstraint("(holder = 'operator') = (operator <> '')", name="operator_iff_held"),
        sa.CheckConstraint("(holder = 'agent') = (held_since IS NULL)", name="held_since_iff_held"),
        sa.Index(
            "ix_conversations_held",
            "tenant",
            sa.text("held_since DESC"),
            sa.text("conversation_id DESC"),
            postgresql_where=sa.text("held_since IS NOT NULL AND ended_at IS NULL"),
        ),
        # Is an id in use by another tenant? Asked where a client chooses one.
        sa.Index("ix_conversations_id", "conversation_id"),
        sa.Index("ix_conversations_creator", "tenant", "created_by", sa.text("created_at DESC")),
        {"schema": "gateway"},
    )

    tenant: str = Field(primary_key=True)
    conversation_id: str = Field(primary_key=True)
    agent: str
    language: str = Field(default="en", sa_column_kwargs={"server_default": "en"})
    labels: dict[str, str] = Field(
        default_factory=dict, sa_type=pg.JSONB, sa_column_kwargs={"server_default": sa.text("'{}'")}
    )
    visitor: str | None = Field(default=None, description="The end user's id as the opener gave it, without prefix.")
    token_hash: str | None = Field(
        default=None, unique=True, description="SHA-256 of the conversation token; empty: it was taken back."
    )
    token_expires_at: datetime | None = Field(
        default=None, sa_type=sa.TIMESTAMP(timezone=True), description="When the token is good no more."
    )
    token_of: str = Field(
        default="",
        sa_column_kwargs={"server_default": ""},
        description="Who took the token with a key or signed in, `person:…`: it is good as long as they could come.",
    )
    created_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)
    created_by: str = Field(
        default="", sa_column_kwargs={"server_default": ""}, description="`person:…` or `visitor:…` who opened it."
    )
    opener_decides: bool = Field(
        default=False,
        sa_column_kwargs={"server_default": sa.false()},
        description="Whether the key that opened it may decide too: its owner then counts as the end user as well.",
    )
    relayed_by: str = Field(
        default="",
        sa_column_kwargs={"server_default": ""},
        description="Who had a key that opened it, wrote in it for the end user or took its token: its owner, and its "
        "maker until it was taken over; and, with `~` before them, people who wrote in it themselves. `person:…`, "
        "separated by spaces.",
    )
    ended_at: datetime | None = Field(
        default=None, sa_type=sa.TIMESTAMP(timezone=True), description="Set: nobody writes here any more."
    )
    ended_by: str | None = Field(default=None, description="`person:…` or `visitor:…` who ended it.")
    holder: str = Field(
        sa_column_kwargs={"server_default": MACHINE.initial.value},
        description="Who answers here: the agent, an operator who is awaited, or one who is there.",
    )
    holder_revision: int = Field(
        sa_column_kwargs={"server_default": "0"}, description="How often the holder has changed."
    )
    operator: str = Field(
        sa_column_kwargs={"server_default": ""}, description="`person:…` who holds it; empty: nobody."
    )
    held_since: datetime | None = Field(
        default=None, sa_type=sa.TIMESTAMP(timezone=True), description="Since when the agent does not answer here."
    )
    held_reason: str = Field(
        sa_column_kwargs={"server_default": ""}, description="Why a tool handed it over, for operators."
    )
    told_seq: int | None = Field(
        default=None,
        sa_type=sa.BigInteger,
        description="Number of the newest item that clients know whose requests are answered by what is new; empty "
        "while there was no such request.",
    )


class SlackSeenRow(SQLModel, table=True):
    """One interaction that came from Slack: the same again is a copy, and does nothing."""

    __tablename__ = "slack_seen"
    __table_args__ = (sa.Index("ix_slack_seen_at", "seen_at"), {"schema": "gateway"})

    key: str = Field(primary_key=True, description="SHA-256 of what tells an interaction from every other.")
    seen_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)


class LinkUseRow(SQLModel, table=True):
    """One mailed link that somebody decided with. The key is what makes a link good for one decision."""

    __tablename__ = "link_uses"
    __table_args__ = (
        sa.CheckConstraint("outcome IN ('sent', 'counted', 'refused')", name="outcome_known"),
        {"schema": "gateway"},
    )

    token_hash: str = Field(primary_key=True, description="SHA-256 of the link's token, 64 hexadecimal digits.")
    tenant: str
    approval_id: str
    person: str
    verb: str
    decision_id: str = Field(unique=True, description="The decision that it was used for.")
    outcome: str = Field(
        description="`sent`; then `counted`, or `refused`, after which the link may be used again. One that stays "
        "`sent` is what the stored decision says it is."
    )
    used_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)


class StopRow(SQLModel, table=True):
    """One emergency stop: no call that it covers begins to run until it is lifted."""

    __tablename__ = "stops"
    __table_args__ = (
        sa.CheckConstraint("tenant IS NOT NULL OR (tool IS NULL AND agent IS NULL)", name="whole_house"),
        sa.CheckConstraint("tool IS NULL OR agent IS NULL", name="one_target"),
        sa.CheckConstraint("(resumed_at IS NULL) = (resumed_by IS NULL)", name="resumed_by_somebody"),
        sa.CheckConstraint("(resumed_at IS NULL) = (resume_signature IS NULL)", name="resumed_signed"),
        sa.CheckConstraint("resumed_by IS NULL OR NOT by_another OR resumed_by <> stopped_by", name="by_another_kept"),
        sa.CheckConstraint("tenant IS NOT NULL OR by_house", name="all_by_house"),
        # One stop of the same and as strong at a time; executors read these alone.
        sa.Index(
            "ix_stops_active",
            "tenant",
            "tool",
            "agent",
            "by_house",
            "by_another",
            unique=True,
            postgresql_nulls_not_distinct=True,
            postgresql_where=sa.text("resumed_at IS NULL"),
        ),
        sa.Index("ix_stops_newest", sa.text("stopped_at DESC"), sa.text("stop_id DESC")),
        {"schema": "gateway"},
    )

    stop_id: str = Field(primary_key=True)
    tenant: str | None = Field(default=None, description="Whose calls; empty: everybody's.")
    tool: str | None = Field(default=None, description="Only calls of this tool.")
    agent: str | None = Field(default=None, description="Only calls that this agent proposed.")
    reason: str
    by_another: bool = Field(description="Whether only somebody else may lift it than who asked for it.")
    by_house: bool = Field(description="Whether the house asked for it: then the house alone lifts it.")
    stopped_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    stopped_by: str
    signature: str = Field(description="JWS of the gateway over all of the above.")
    resumed_at: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    resumed_by: str | None = None
    resume_reason: str = Field(default="", sa_column_kwargs={"server_default": ""})
    resume_signature: str | None = Field(default=None, description="JWS of the gateway over stop, time and person.")


class ErasureRow(SQLModel, table=True):
    """One person whom an administrator wants erased; `placet purge` does it, beside the database."""

    __tablename__ = "erasures"
    __table_args__ = (
        sa.Index("ix_erasures_waiting", "asked_at", postgresql_where=sa.text("done_at IS NULL")),
        {"schema": "gateway"},
    )

    erasure_id: str = Field(primary_key=True)
    who: str = Field(description="As they were named; once it is done, the pseudonym that took their place.")
    asked_by: str
    asked_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)
    done_at: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))


class RestoreRow(SQLModel, table=True):
    """One restore from a backup. What was asked for before it is void: it may have run after the backup."""

    __tablename__ = "restores"
    __table_args__ = (sa.CheckConstraint("backup_at <= restored_at", name="backup_before"), {"schema": "gateway"})

    restored_at: datetime = Field(primary_key=True, sa_type=sa.TIMESTAMP(timezone=True))
    backup_at: datetime = Field(
        sa_type=sa.TIMESTAMP(timezone=True), description="The newest moment that the backup knows of."
    )


class SavedViewRow(SQLModel, table=True):
    """One list of the inbox that somebody keeps: its address under a name of theirs."""

    __tablename__ = "saved_views"
    __table_args__ = ({"schema": "gateway"},)

    tenant: str = Field(primary_key=True)
    person: str = Field(primary_key=True, description="`person:…` whose it is.")
    name: str = Field(primary_key=True)
    address: str = Field(description="Of the list, `/inbox?…`, without a page.")


class CommentRow(SQLModel, table=True):
    """One thing that somebody said about an approval. Never changed, and it decides nothing."""

    __tablename__ = "comments"
    __table_args__ = (
        sa.CheckConstraint("text <> ''", name="says_something"),
        sa.Index("ix_comments_approval", "tenant", "approval_id", "created_at"),
        {"schema": "gateway"},
    )

    comment_id: str = Field(primary_key=True)
    tenant: str
    approval_id: str
    person: str = Field(description="`person:…` or `visitor:…` who wrote it.")
    text: str
    question: bool = Field(description="Whether it asks the requester something.")
    created_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)


class CheckpointRow(SQLModel, table=True):
    """One block of a tenant's audit chain. Its rows stay where they are: this says which, and signs for them."""

    __tablename__ = "checkpoints"
    __table_args__ = ({"schema": "gateway"},)

    tenant: str = Field(primary_key=True)
    number: int = Field(primary_key=True, sa_type=sa.BigInteger, description="From 1, without a gap.")
    token: str = Field(description="What was signed: a JWS that names rows, root and the block before it.")
    sealed_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True), sa_column_kwargs=_NOW)


class SealingRow(SQLModel, table=True):
    """How far the history of each service is sealed; whoever seals holds the one row."""

    __tablename__ = "sealing"
    __table_args__ = (sa.CheckConstraint("singleton", name="only_one"), {"schema": "gateway"})

    singleton: bool = Field(primary_key=True)
    upto: dict[str, int] = Field(sa_type=pg.JSONB, description="By service, the id of the newest row that is sealed.")

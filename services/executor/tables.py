"""Rows of the executor.

The CHECKs repeat the machine, so that a statement that forgets it is refused: only what began has a fence, only what
somebody works on has a lease, only what is answered has an end, and only what a person resolved names the person. Two
unique keys make a call and a permit good for one row.

Of a workspace no row holds more than one content, and no statement needs all of them: what a workspace costs grows with
its entries and with nothing else.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.contracts.messages.stage import Decide, EntryKind, OnFailure
from placet.executor.states import ANSWERED, LEASED, LIVE, State, WorkspaceState
from placet.runtime.database import check_states, metadata

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
        sa.CheckConstraint("mode IN ('stage', 'commit', 'staged_call')", name="mode_known"),
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
    #: Whether the tool was safe to repeat when the call was claimed; false, too, once nothing lets it begin again.
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
    #: What the newest permit is good for where that is not to run the call, see `placet.contracts.permit`.
    mode: str | None = None
    #: Of a call that is staged: how, as JSON.
    plan: str | None = None
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
    #: The gateway's signature of their word, for receipts.
    resolution_signed: str = Field(default="", sa_column_kwargs={"server_default": ""})
    resolved_at: datetime | None = Field(default=None, sa_type=_TIME)


class ParkedRow(SQLModel, table=True):
    """A permit that waits for its tenant's turn; it goes once it was handled."""

    __tablename__ = "parked"
    __table_args__ = (sa.Index("ix_parked_turn", "tenant", "pool", "parked_at"), {"schema": "executor"})

    #: Of its event.
    event_id: str = Field(primary_key=True)
    pool: str
    tenant: str
    #: The envelope, as it came.
    body: str
    parked_at: datetime = Field(sa_type=_TIME)
    #: Until when some executor handles it; none does where this has passed.
    lent_until: datetime | None = Field(default=None, sa_type=_TIME)


class Journal(StrEnum):
    """How far a commit is with its changes. What is written here comes before what it speaks of."""

    NONE = "none"  # nothing was touched
    APPLYING = "applying"  # every change is made, or will be: a crash from here on is rolled forward
    APPLIED = "applied"  # every change is made, or said to be in doubt


class EntryState(StrEnum):
    """What became of one entry of a workspace."""

    WAITING = "waiting"
    KEPT = "kept"  # people let it through, and its turn has not ended
    LEFT_OUT = "left_out"
    COMMITTED = "committed"
    CONFLICTED = "conflicted"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    DISCARDED = "discarded"


def _known(column: str, values: Any) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN ({', '.join(map(repr, get_args(values)))})", name=f"{column}_known")


class WorkspaceRow(SQLModel, table=True):
    """Where staged calls of one conversation wait. It ends once; what is staged after that opens the next one."""

    __tablename__ = "workspaces"
    __table_args__ = (
        check_states("state", WorkspaceState),
        check_states("journal", Journal),
        sa.CheckConstraint("(state IN ('open', 'committing')) = (ended_at IS NULL)", name="ended_iff_final"),
        sa.CheckConstraint("state <> 'committing' OR commit_call_id IS NOT NULL", name="commit_has_call"),
        sa.CheckConstraint("journal = 'none' OR commit_call_id IS NOT NULL", name="journal_of_commit"),
        sa.CheckConstraint("entries >= 0 AND bytes >= 0", name="counted"),
        sa.UniqueConstraint("tenant", "conversation_id", "number"),
        sa.Index(
            "ix_workspaces_live",
            "tenant",
            "conversation_id",
            unique=True,
            postgresql_where=sa.text(f"state IN ({', '.join(repr(each.value) for each in sorted(LIVE))})"),
        ),
        sa.Index("ix_workspaces_expiry", "expires_at", postgresql_where=sa.text("state = 'open'")),
        sa.Index("ix_workspaces_ended", "ended_at"),
        sa.Index("ix_workspaces_applying", "workspace_id", postgresql_where=sa.text("journal = 'applying'")),
        {"schema": "executor"},
    )

    workspace_id: str = Field(primary_key=True)
    tenant: str
    conversation_id: str
    number: int
    #: The one agent whose calls are in it.
    agent: str
    #: The one pool whose packs have changes in it; null while there are none.
    pool: str | None = None
    state: str
    journal: str = Field(sa_column_kwargs={"server_default": "none"})
    #: Attempt of the commit whose preparations are used; null while nothing is applied.
    journal_fence: int | None = None
    #: The newest commit.
    commit_call_id: str | None = None
    #: What no other commit may touch while this one's changes are made, also while nobody works on it.
    scopes: list[str] = Field(sa_type=pg.ARRAY(sa.Text), sa_column_kwargs={"server_default": "{}"})
    #: Entries that were ever put in; the position of the newest.
    entries: int = 0
    #: Of all contents.
    bytes: int = Field(default=0, sa_type=sa.BigInteger)
    opened_at: datetime = Field(sa_type=_TIME)
    expires_at: datetime = Field(sa_type=_TIME)
    ended_at: datetime | None = Field(default=None, sa_type=_TIME)
    ended_by: str = Field(default="", sa_column_kwargs={"server_default": ""})
    reason: str = Field(default="", sa_column_kwargs={"server_default": ""})


class EntryRow(SQLModel, table=True):
    """One staged call; the call itself stands in its execution."""

    __tablename__ = "workspace_entries"
    __table_args__ = (
        check_states("state", EntryState),
        _known("kind", EntryKind),
        _known("decide", Decide),
        _known("on_failure", OnFailure),
        sa.ForeignKeyConstraint(["workspace_id"], ["executor.workspaces.workspace_id"], ondelete="CASCADE"),
        sa.UniqueConstraint("workspace_id", "position"),
        {"schema": "executor"},
    )

    call_id: str = Field(primary_key=True)
    workspace_id: str
    position: int
    tool: str
    pool: str
    kind: str
    digest: str
    #: What its changes touch, `pack:key`.
    keys: list[str] = Field(sa_type=pg.ARRAY(sa.Text))
    summary: str
    decide: str
    on_failure: str
    state: str
    #: Commit that let it through or left it out.
    commit_call_id: str | None = None
    #: Of a staged call whose turn has not come: its signed permit.
    permit: str | None = None
    #: Of a staged call that ran: what its tool answered.
    data: Any = Field(default=None, sa_column=sa.Column(pg.JSONB(none_as_null=True), nullable=True))
    ui_blocks: list[dict[str, Any]] = Field(sa_type=pg.JSONB, sa_column_kwargs={"server_default": "[]"})
    handover: str = Field(default="", sa_column_kwargs={"server_default": ""})
    error: str = Field(default="", sa_column_kwargs={"server_default": ""})
    staged_at: datetime = Field(sa_type=_TIME)
    ended_at: datetime | None = Field(default=None, sa_type=_TIME)


class ChangeRow(SQLModel, table=True):
    """What an entry makes of one key, with the diff that people see."""

    __tablename__ = "workspace_changes"
    __table_args__ = (
        sa.ForeignKeyConstraint(["call_id"], ["executor.workspace_entries.call_id"], ondelete="CASCADE"),
        sa.CheckConstraint("base IS NOT NULL OR after IS NOT NULL", name="changes_something"),
        sa.Index("ix_workspace_changes_key", "workspace_id", "pack", "key", "position"),
        {"schema": "executor"},
    )

    call_id: str = Field(primary_key=True)
    ordinal: int = Field(primary_key=True)
    workspace_id: str
    #: Of the entry.
    position: int
    pack: str
    key: str
    #: SHA-256, size in bytes and mode before and after the entry; null: nothing is there.
    base: str | None = None
    base_size: int | None = None
    base_mode: int | None = None
    after: str | None = None
    after_size: int | None = None
    after_mode: int | None = None
    summary: str
    diff: str
    cut: bool
    #: Whether the content is one that no diff can show.
    opaque: bool
    added: int
    removed: int


class BlobRow(SQLModel, table=True):
    """One content of a workspace, kept once however often it occurs; it goes when the workspace ends."""

    __tablename__ = "workspace_blobs"
    __table_args__ = (
        sa.ForeignKeyConstraint(["workspace_id"], ["executor.workspaces.workspace_id"], ondelete="CASCADE"),
        {"schema": "executor"},
    )

    workspace_id: str = Field(primary_key=True)
    digest: str = Field(primary_key=True)
    content: bytes

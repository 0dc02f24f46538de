"""Rows of the executor.

The CHECKs repeat the machine, so that a statement that forgets it is refused: only what began has a fence, only what
somebody works on has a lease, only what is answered has an end, and only what a person resolved names the person. Two
unique keys make a call and a permit good for one row.

Of a workspace no row holds more than one content, and no statement needs all of them: what a workspace costs grows with
its entries and with nothing else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.messages.stage import Decide, EntryKind, OnFailure
from placet.executor.states import ANSWERED, LEASED, LIVE, State, WorkspaceState
from placet.runtime.database import MOMENT, check_states, column, metadata, one_of

_STORED = frozenset(State) - {State.NEW}
_NEVER_BEGAN = frozenset({State.REFUSED, State.EXPIRED})


def _in(states: frozenset[State]) -> str:
    return one_of("state", sorted(states))


#: One call that an executor took; it never leaves a final state, and its answer never changes.
EXECUTIONS = sa.Table(
    "executions",
    metadata,
    column("call_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("conversation_id", sa.String),
    column("tool", sa.String),
    column("schema_digest", sa.String),
    column("pool", sa.String),
    #: Whether the tool was safe to repeat when the call was claimed; false, too, once nothing lets it begin again.
    column("idempotent", sa.Boolean),
    column("permit_id", sa.String),
    column("permit_issuer", sa.String),
    column("permit_expires_at", MOMENT),
    #: The answer of the model whose calls run one at a time; null where it may run beside others.
    column("answer_id", sa.String, nullable=True),
    #: The signed permit; verified again before another attempt. Empty where the call was given up before it came.
    column("permit", sa.String),
    #: The ToolCall as JSON, its arguments byte for byte. Empty likewise.
    column("call", sa.String),
    column("cause", pg.JSONB),
    # What changes stands together, behind all that is long: PostgreSQL logs of a change what is between the first and
    # the last column that changed.
    column("state", sa.String),
    #: Number of the newest attempt; an older one may no longer write. 0 where none began.
    column("fence", sa.Integer),
    #: Who made the newest attempt, or turned the call away.
    column("worker", sa.String),
    #: When a silent worker counts as lost.
    column("lease_until", MOMENT, nullable=True),
    #: What the newest permit is good for where that is not to run the call, see `placet.contracts.permit`.
    column("mode", sa.String, nullable=True),
    #: Of a call that is staged: how, as JSON.
    column("plan", sa.String, nullable=True),
    #: When the first attempt began.
    column("begun_at", MOMENT, nullable=True),
    column("finished_at", MOMENT, nullable=True),
    #: What the model was told where the call did not succeed.
    column("error", sa.String, default=""),
    #: What a person said of an outcome that was answered `unknown`: `ran` or `did_not_run`.
    column("resolution", sa.String, nullable=True),
    column("resolved_by", sa.String, nullable=True),
    #: In their words; what they looked at.
    column("resolution_note", sa.String, server_default="", default=""),
    #: The gateway's signature of their word, for receipts.
    column("resolution_signed", sa.String, server_default="", default=""),
    column("resolved_at", MOMENT, nullable=True),
    sa.CheckConstraint(_in(_STORED), name="state_known"),
    sa.CheckConstraint(f"({_in(ANSWERED)}) = (finished_at IS NOT NULL)", name="finished_iff_answered"),
    sa.CheckConstraint(f"({_in(LEASED)}) = (lease_until IS NOT NULL)", name="lease_iff_worked_on"),
    sa.CheckConstraint(f"({_in(_NEVER_BEGAN)}) = (begun_at IS NULL)", name="begun_iff_claimed"),
    sa.CheckConstraint("(begun_at IS NULL) = (fence = 0) AND fence >= 0", name="fence_iff_begun"),
    sa.CheckConstraint("(state = 'resolved') = (resolved_at IS NOT NULL)", name="resolved_iff_resolved"),
    sa.CheckConstraint(
        "(resolved_at IS NULL) = (resolution IS NULL) AND (resolved_at IS NULL) = (resolved_by IS NULL)",
        name="resolution_whole",
    ),
    sa.CheckConstraint("resolution IN ('ran', 'did_not_run')", name="resolution_known"),
    sa.CheckConstraint("mode IN ('stage', 'commit', 'staged_call')", name="mode_known"),
    sa.UniqueConstraint("permit_id"),
    sa.Index("ix_executions_leases", "pool", "lease_until", postgresql_where=sa.text(_in(LEASED))),
    # Whatever was looked at before: no two calls of one answer run at once.
    sa.Index(
        "ix_executions_answers",
        "answer_id",
        unique=True,
        postgresql_where=sa.text(f"answer_id IS NOT NULL AND {_in(frozenset(_STORED) - ANSWERED)}"),
    ),
    sa.Index("ix_executions_unknown", "pool", postgresql_where=sa.text("state = 'unknown'")),
    # Room for the row as it ends, on the same page: then only what changed is logged.
    schema="executor",
    postgresql_with={"fillfactor": 50},
)


#: A call that was purged or erased while a permit for it may be good yet: it does not begin again.
PAST_CALLS = sa.Table(
    "past_calls",
    metadata,
    column("call_id", sa.String, primary_key=True),
    column("expires_at", MOMENT),
    schema="executor",
)


#: A permit that waits for its tenant's turn; it goes once it was handled.
PARKED = sa.Table(
    "parked",
    metadata,
    #: Of its event.
    column("event_id", sa.String, primary_key=True),
    column("pool", sa.String),
    column("tenant", sa.String),
    #: The envelope, as it came.
    column("body", sa.String),
    column("parked_at", MOMENT),
    #: Until when some executor handles it; none does where this has passed.
    column("lent_until", MOMENT, nullable=True),
    #: The answer of the model whose calls run one at a time, the call's place in it, and until when its permit is good;
    #: null where it may run beside others.
    column("answer_id", sa.String, nullable=True),
    column("position", sa.Integer, nullable=True),
    column("expires_at", MOMENT, nullable=True),
    sa.Index("ix_parked_turn", "tenant", "pool", "parked_at"),
    sa.Index("ix_parked_answers", "answer_id", "position", postgresql_where=sa.text("answer_id IS NOT NULL")),
    schema="executor",
)


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


#: Where staged calls of one conversation wait. It ends once; what is staged after that opens the next one.
WORKSPACES = sa.Table(
    "workspaces",
    metadata,
    column("workspace_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("conversation_id", sa.String),
    column("number", sa.Integer),
    #: The one agent whose calls are in it.
    column("agent", sa.String),
    #: The one pool whose packs have changes in it; null while there are none.
    column("pool", sa.String, nullable=True),
    column("state", sa.String),
    column("journal", sa.String, server_default="none"),
    #: Attempt of the commit whose preparations are used; null while nothing is applied.
    column("journal_fence", sa.Integer, nullable=True),
    #: The newest commit.
    column("commit_call_id", sa.String, nullable=True),
    #: What no other commit may touch while this one's changes are made, also while nobody works on it.
    column("scopes", pg.ARRAY(sa.Text), server_default="{}"),
    #: Entries that were ever put in; the position of the newest.
    column("entries", sa.Integer, default=0),
    #: Of all contents.
    column("bytes", sa.BigInteger, default=0),
    column("opened_at", MOMENT),
    column("expires_at", MOMENT),
    column("ended_at", MOMENT, nullable=True),
    column("ended_by", sa.String, server_default="", default=""),
    column("reason", sa.String, server_default="", default=""),
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
        postgresql_where=sa.text(one_of("state", sorted(LIVE))),
    ),
    sa.Index("ix_workspaces_expiry", "expires_at", postgresql_where=sa.text("state = 'open'")),
    sa.Index("ix_workspaces_ended", "ended_at"),
    sa.Index("ix_workspaces_applying", "workspace_id", postgresql_where=sa.text("journal = 'applying'")),
    schema="executor",
)


#: One staged call; the call itself stands in its execution.
WORKSPACE_ENTRIES = sa.Table(
    "workspace_entries",
    metadata,
    column("call_id", sa.String, primary_key=True),
    column("workspace_id", sa.String),
    column("position", sa.Integer),
    column("tool", sa.String),
    column("pool", sa.String),
    column("kind", sa.String),
    column("digest", sa.String),
    #: What its changes touch, `pack:key`.
    column("keys", pg.ARRAY(sa.Text)),
    column("summary", sa.String),
    column("decide", sa.String),
    column("on_failure", sa.String),
    column("state", sa.String),
    #: Commit that let it through or left it out.
    column("commit_call_id", sa.String, nullable=True),
    #: Of a staged call whose turn has not come: its signed permit.
    column("permit", sa.String, nullable=True),
    #: Of a staged call that ran: what its tool answered.
    column("data", pg.JSONB(none_as_null=True), nullable=True),
    column("ui_blocks", pg.JSONB, server_default="[]"),
    column("handover", sa.String, server_default="", default=""),
    column("error", sa.String, server_default="", default=""),
    column("staged_at", MOMENT),
    column("ended_at", MOMENT, nullable=True),
    check_states("state", EntryState),
    check_states("kind", get_args(EntryKind)),
    check_states("decide", get_args(Decide)),
    check_states("on_failure", get_args(OnFailure)),
    sa.ForeignKeyConstraint(["workspace_id"], ["executor.workspaces.workspace_id"], ondelete="CASCADE"),
    sa.UniqueConstraint("workspace_id", "position"),
    schema="executor",
)


#: What an entry makes of one key, with the diff that people see.
WORKSPACE_CHANGES = sa.Table(
    "workspace_changes",
    metadata,
    column("call_id", sa.String, primary_key=True),
    column("ordinal", sa.Integer, primary_key=True),
    column("workspace_id", sa.String),
    #: Of the entry.
    column("position", sa.Integer),
    column("pack", sa.String),
    column("key", sa.String),
    #: SHA-256, size in bytes and mode before and after the entry; null: nothing is there.
    column("base", sa.String, nullable=True),
    column("base_size", sa.Integer, nullable=True),
    column("base_mode", sa.Integer, nullable=True),
    column("after", sa.String, nullable=True),
    column("after_size", sa.Integer, nullable=True),
    column("after_mode", sa.Integer, nullable=True),
    column("summary", sa.String),
    column("diff", sa.String),
    column("cut", sa.Boolean),
    #: Whether the content is one that no diff can show.
    column("opaque", sa.Boolean),
    column("added", sa.Integer),
    column("removed", sa.Integer),
    sa.ForeignKeyConstraint(["call_id"], ["executor.workspace_entries.call_id"], ondelete="CASCADE"),
    sa.CheckConstraint("base IS NOT NULL OR after IS NOT NULL", name="changes_something"),
    sa.Index("ix_workspace_changes_key", "workspace_id", "pack", "key", "position"),
    schema="executor",
)


#: One content of a workspace, kept once however often it occurs; it goes when the workspace ends.
WORKSPACE_BLOBS = sa.Table(
    "workspace_blobs",
    metadata,
    column("workspace_id", sa.String, primary_key=True),
    column("digest", sa.String, primary_key=True),
    column("content", sa.LargeBinary),
    sa.ForeignKeyConstraint(["workspace_id"], ["executor.workspaces.workspace_id"], ondelete="CASCADE"),
    schema="executor",
)

"""Rows of approval."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.approval.rules import VOTING
from placet.approval.states import MACHINE, EditState, State
from placet.contracts.messages.approvals import Outcome, Verb
from placet.contracts.messages.tool_calls import AnswerKind, Category
from placet.runtime.database import check_states

_TIME = sa.TIMESTAMP(timezone=True)
#: A JSON value or NULL, never JSON's own null.
_JSON = pg.JSONB(none_as_null=True)
#: The order of every list of approvals: each page of it is a stretch of one index.
_NEWEST_FIRST = (sa.text("created_at DESC"), sa.text("approval_id DESC"))


def _one_of(column: str, values: Iterable[str]) -> str:
    return f"{column} IN ({', '.join(map(repr, values))})"


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
        check_states("category", Category),
        sa.CheckConstraint("(state <> 'pending') = (closed_at IS NOT NULL)", name="closed_iff_final"),
        sa.CheckConstraint(
            "(state IN ('approved', 'denied', 'answered')) = (decided_by IS NOT NULL)", name="decided_by_a_person"
        ),
        sa.CheckConstraint("(state IN ('pending', 'approved')) = (result_kind IS NULL)", name="refused_with_kind"),
        # A replica of before this column answers without.
        sa.CheckConstraint(_one_of("answer_kind", get_args(AnswerKind)), name="answer_kind_known"),
        sa.CheckConstraint("answer_kind IS NULL OR state = 'answered'", name="answer_kind_of_answers"),
        sa.CheckConstraint(
            "(state, result_kind) IN (('denied', 'denied'), ('answered', 'answered'), ('expired', 'expired'),"
            " ('withdrawn', 'cancelled'), ('withdrawn', 'superseded')) OR result_kind IS NULL",
            name="kind_fits_state",
        ),
        sa.CheckConstraint(
            "state NOT IN ('approved', 'denied', 'answered') OR closed_at < expires_at", name="decided_in_time"
        ),
        sa.CheckConstraint("revision >= arguments_revision AND arguments_revision >= 1", name="revision_positive"),
        sa.CheckConstraint("(edited IS NOT NULL) = (arguments_revision > 1)", name="edited_with_original"),
        sa.CheckConstraint("(claimed_by IS NULL) = (claimed_until IS NULL)", name="claimed_for_a_time"),
        sa.UniqueConstraint("call_id"),
        sa.Index("ix_approvals_inbox", "tenant", "state", *_NEWEST_FIRST),
        sa.Index("ix_approvals_conversation", "tenant", "conversation_id", *_NEWEST_FIRST),
        sa.Index("ix_approvals_tool", "tenant", "tool", *_NEWEST_FIRST),
        sa.Index("ix_approvals_agent", "tenant", "agent", *_NEWEST_FIRST),
        sa.Index("ix_approvals_category", "tenant", "category", *_NEWEST_FIRST),
        # Who may decide: few sets of names for very many approvals, each set a stretch of this index.
        sa.Index(
            "ix_approvals_deciders",
            *("tenant", "deciders_digest", *_NEWEST_FIRST),
            postgresql_where=sa.text("state = 'pending'"),
        ),
        sa.Index(
            "ix_approvals_requester",
            *("tenant", "requester", *_NEWEST_FIRST),
            postgresql_where=sa.text("state = 'pending' AND 'requester' = ANY (deciders)"),
        ),
        sa.Index("ix_approvals_due", "expires_at", postgresql_where=sa.text("state = 'pending'")),
        sa.Index(
            "ix_approvals_steps",
            "next_step_at",
            postgresql_where=sa.text("state = 'pending' AND next_step_at IS NOT NULL"),
        ),
        # Room for the row as it ends, on the same page: then only what changed is logged.
        {"schema": "approval", "postgresql_with": {"fillfactor": 50}},
    )

    approval_id: str = Field(primary_key=True)
    tenant: str
    call_id: str
    conversation_id: str
    turn_id: str
    message_id: str
    #: The model's answer within the turn that proposed it, and its place there.
    step: int = 0
    position: int = 0
    agent: str
    requester: str
    language: str
    labels: dict[str, str] = Field(sa_type=pg.JSONB)
    tool: str
    schema_digest: str
    #: The arguments as they would run now, or did; an edit replaces them.
    arguments: str
    #: What people may see of them, as policy rendered it; NULL where that is all.
    shown_arguments: str | None = None
    #: Where texts among them stood before the call, by JSON pointer, as the agent found; NULL where nobody looked.
    origins: dict[str, list[str]] | None = Field(default=None, sa_type=_JSON)
    #: Of attempts at a job: what the call reads beneath its conversation's workspace.
    base: dict[str, Any] | None = Field(default=None, sa_type=_JSON)
    digest: str
    #: Edited: who changed them last, why, and the arguments as proposed; NULL where nobody did.
    edited: dict[str, Any] | None = Field(default=None, sa_type=_JSON)
    #: What the tool can do to the world, by policy's rulebook.
    category: str
    pool: str
    permit_expires_after_seconds: int
    summary: str
    #: Words of summary and arguments as `placet.domain.words.searched_card` has them: redacted values masked.
    searched: str
    rule: str
    rulebook_digest: str
    #: Of the people that policy judged it with; empty where they stand in the rulebook.
    directory_digest: str = Field(default="", sa_column_kwargs={"server_default": ""})
    reason: str
    #: ApprovalRule as policy pinned it to this call, without defaults: a later rulebook does not change who may decide.
    approval_rule: dict[str, Any] = Field(sa_type=pg.JSONB)
    #: Whom it names by now, in the rule's words and sorted, and the digest of this and of everything else that says who
    #: may decide calls of this tool: no index takes a long list.
    deciders: list[str] = Field(sa_type=pg.ARRAY(pg.TEXT))
    deciders_digest: str
    #: Who has nothing to decide here for now, though they are named: who voted, and whom four eyes exclude. As they
    #: count once, each with the API key that it stands and falls with, or null.
    closed_to: dict[str, str | None] = Field(sa_type=pg.JSONB)
    #: Who voted on the arguments as they are, in the same form.
    voters: dict[str, str | None] = Field(sa_type=pg.JSONB)
    state: str = Field(default=MACHINE.initial)
    #: Number of the card; `arguments_revision` is the number of its arguments, and an edit makes the next one.
    revision: int = 1
    arguments_revision: int = Field(default=1, sa_column_kwargs={"server_default": "1"})
    created_at: datetime = Field(sa_type=_TIME)
    expires_at: datetime = Field(sa_type=_TIME)
    decided_by: str | None = None
    decision_reason: str | None = None
    #: How the call ended if it may not run; NULL while it waits and when it was approved.
    result_kind: str | None = None
    #: Where a person answered instead: what their words are for the model.
    answer_kind: str | None = None
    closed_at: datetime | None = Field(default=None, sa_type=_TIME)
    #: Reminders and escalations done, and when the next is due.
    steps_done: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    next_step_at: datetime | None = Field(default=None, sa_type=_TIME)
    claimed_by: str | None = None
    claimed_until: datetime | None = Field(default=None, sa_type=_TIME)
    #: Who lets whom decide in their place: a list of {by, to}.
    delegations: list[dict[str, Any]] = Field(sa_type=pg.JSONB, sa_column_kwargs={"server_default": sa.text("'[]'")})
    #: What each vote counted for when votes were last counted: voter -> numbers of panels, -1 for a veto.
    seats: dict[str, list[int]] | None = Field(default=None, sa_type=_JSON)
    #: Set where a person wanted the call cancelled after it was approved: it may have run.
    cancel_asked_by: str | None = None
    cancel_asked_at: datetime | None = Field(default=None, sa_type=_TIME)
    #: Of `commit_changes`: its staged calls as they were proposed, StagedCall each; NULL of every other call.
    staged: list[dict[str, Any]] | None = Field(default=None, sa_type=_JSON)
    #: The thread that the call belongs to; what an expiry or a decision emits goes on in it.
    correlation_id: str
    traceparent: str


class WordRow(SQLModel, table=True):
    """One word of one card, in the order of every list: what has a word is a stretch of this key, newest last.

    A duty writes them in bulk, some five seconds behind what they tell of (see ADR 0024): a search asks the approval
    itself whether it fits, so a row that is behind costs a look and never shows what does not fit.
    """

    __tablename__ = "words"
    __table_args__ = ({"schema": "approval"},)

    tenant: str = Field(primary_key=True)
    word: str = Field(primary_key=True)
    is_open: bool = Field(primary_key=True)
    created_at: datetime = Field(primary_key=True, sa_type=_TIME)
    approval_id: str = Field(primary_key=True)


class WordCursorRow(SQLModel, table=True):
    """How far the words are written: the one row, locked by the replica that writes them."""

    __tablename__ = "word_cursor"
    __table_args__ = (sa.CheckConstraint("singleton", name="one_row"), {"schema": "approval"})

    singleton: bool = Field(primary_key=True)
    #: Row of approval's history up to which every change of a card has its words.
    history_id: int = Field(sa_type=sa.BigInteger)


class DecisionRow(SQLModel, table=True):
    """One decision that a person sent, counted or not, with the answer it got. Never changed.

    Votes are the counted rows: of each person the last one about the arguments as they are.
    """

    __tablename__ = "decisions"
    __table_args__ = (
        sa.CheckConstraint(_one_of("verb", get_args(Verb)), name="verb_known"),
        sa.CheckConstraint(_one_of("outcome", get_args(Outcome)), name="outcome_known"),
        sa.CheckConstraint(
            "(counted_revision IS NULL) = (arguments_revision IS NULL) AND (counted_revision IS NULL"
            f" OR (outcome = 'accepted' AND {_one_of('verb', VOTING)}))",
            name="counted_votes",
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
    #: How the gateway knew the person, and what it proved.
    proof: str
    #: The API key behind the proof; NULL where none was. The vote counts as long as the key works.
    key_id: str | None = None
    roles: list[str] = Field(sa_type=pg.JSONB, sa_column_kwargs={"server_default": sa.text("'[]'")})
    conversation_id: str | None = None
    #: What some verbs carry: arguments, response, to, seconds, grant.
    details: dict[str, Any] = Field(sa_type=pg.JSONB, sa_column_kwargs={"server_default": sa.text("'{}'")})
    #: The signed decision itself, JWS compact form: evidence that anybody with the public key can check.
    signed: str
    outcome: str
    #: DecisionAnswered without its address and what stands beside it: the same decision id gets it again.
    answer: dict[str, Any] = Field(sa_type=pg.JSONB)
    #: For a vote that counts: number of the arguments it is about, and of the card that it made.
    arguments_revision: int | None = None
    counted_revision: int | None = None
    decided_at: datetime = Field(sa_type=_TIME)


class EditRow(SQLModel, table=True):
    """One wish to change the arguments of a held call: asked of policy, then accepted or refused, once."""

    __tablename__ = "edits"
    __table_args__ = (
        check_states("state", EditState),
        sa.CheckConstraint("(state = 'asked') = (judged_at IS NULL)", name="judged_iff_over"),
        sa.Index("ix_edits_approval", "approval_id", "asked_at"),
        {"schema": "approval"},
    )

    tenant: str = Field(primary_key=True)
    #: The editor's decision.
    edit_id: str = Field(primary_key=True)
    approval_id: str
    person: str
    reason: str
    state: str
    #: Number of the arguments that it changes, and these as they were.
    base_revision: int
    before: str
    before_digest: str
    arguments: str
    digest: str
    #: Both as people may see them, redacted values masked; NULL in a row from before anything redacted could be edited.
    shown_before: str | None = None
    shown_arguments: str | None = None
    #: Where the two differ, as people may see it: a list of {at, before?, after?}.
    differences: list[dict[str, Any]] = Field(sa_type=pg.JSONB)
    signed: str
    answer_to: str
    #: Why it was refused; empty where it was accepted.
    detail: str = Field(default="", sa_column_kwargs={"server_default": ""})
    rulebook_digest: str | None = None
    asked_at: datetime = Field(sa_type=_TIME)
    judged_at: datetime | None = Field(default=None, sa_type=_TIME)

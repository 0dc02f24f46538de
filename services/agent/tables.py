"""Rows of the agent. The CHECKs say the machine's promises again, in words that the database enforces."""

from __future__ import annotations

from datetime import datetime
from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.agent.conversation_state import Held, NextMessage
from placet.agent.states import CALL_MACHINE, MACHINE, CallState, State
from placet.contracts.messages import ResultKind
from placet.runtime.database import check_states

_MOMENT = sa.TIMESTAMP(timezone=True)
_FINAL = ", ".join(f"'{state}'" for state in sorted(MACHINE.final))
_HELD = ", ".join(f"'{held}'" for held in get_args(Held))
_NEXT_MESSAGE = ", ".join(f"'{does}'" for does in get_args(NextMessage))
_KINDS = ", ".join(f"'{kind}'" for kind in get_args(ResultKind))


#: The clock and not the transaction's beginning: a turn begins when its conversation's lock was got.
_NOW = {"server_default": sa.func.clock_timestamp()}


#: Tables whose rows change often: room on each page, so that a change stays there and touches no index.
_CHANGING = {"schema": "agent", "postgresql_with": {"fillfactor": "50"}}


class ConversationRow(SQLModel, table=True):
    """One conversation. Its row is the lock under which everything in it changes."""

    __tablename__ = "conversations"
    __table_args__ = (
        sa.CheckConstraint("queued = 0 OR turn_id IS NOT NULL OR held", name="queued_behind_turn"),
        _CHANGING,
    )

    conversation_id: str = Field(primary_key=True)
    tenant: str
    agent: str = Field(description="Empty until its first message came, which decides it.")
    language: str
    labels: dict[str, str] = Field(sa_type=pg.JSONB)
    log_seq: int = Field(default=0, description="Number of its newest log item.")
    version: int = Field(default=0, description="Raised by each change of it, its turns, calls and queue.")
    turn_id: str | None = Field(default=None, description="The turn that goes on now; none while it idles.")
    queued: int = Field(default=0, description="Messages, and late outcomes of calls, that wait for a turn.")
    staged: int | None = Field(default=None, description="Staged entries that wait for their end; none: nothing waits.")
    created_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)
    ended_at: datetime | None = Field(
        default=None, sa_type=_MOMENT, description="Set: no call is proposed here any more."
    )
    held: bool = Field(
        sa_column_kwargs={"server_default": sa.false()},
        description="Whether people hold it: no turn begins, and messages wait until they give it back.",
    )
    holder_revision: int = Field(
        sa_column_kwargs={"server_default": "0"},
        description="The newest change of its holder that is known here, as the gateway counts them.",
    )
    holder_told: int = Field(
        sa_column_kwargs={"server_default": "0"}, description="The newest change of its holder in the log."
    )


class AttemptRow(SQLModel, table=True):
    """What makes a conversation an attempt of a job."""

    __tablename__ = "attempts"
    __table_args__ = (_CHANGING,)

    conversation_id: str = Field(primary_key=True)
    data: dict[str, Any] = Field(sa_type=pg.JSONB, description="As `placet.agent.attempts.Attempt`.")


class StagedEntryRow(SQLModel, table=True):
    """One staged entry that waits for its end; the row goes when it has one."""

    __tablename__ = "staged_entries"
    __table_args__ = (sa.Index("ix_staged_entries_conversation", "conversation_id"), {"schema": "agent"})

    call_id: str = Field(primary_key=True, foreign_key="agent.tool_calls.call_id")
    conversation_id: str
    workspace_id: str
    position: int = Field(description="Place in its workspace, as the executor says.")
    digest: str
    decide: str
    commit_id: str | None = Field(default=None, description="The commit that people are asked about now.")
    keys: list[str] = Field(sa_type=pg.JSONB, description="What it changes, `pack:key`; of a call none.")


class LogRow(SQLModel, table=True):
    """One item of a conversation's log: what every frontend shows, in the one order that there is."""

    __tablename__ = "log"
    __table_args__ = ({"schema": "agent"},)

    conversation_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, description="Gapless, from 1.")
    tenant: str
    type: str
    at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)
    data: dict[str, Any] = Field(sa_type=pg.JSONB)


class MessageRow(SQLModel, table=True):
    """One message of a person, or the late outcome of a call. It belongs to the turn that sees it, or waits for one.

    Both are things that the model has not heard of yet, so they share a queue and its order.
    """

    __tablename__ = "messages"
    __table_args__ = (
        sa.Index("ix_messages_queued", "conversation_id", postgresql_where=sa.text("turn_id IS NULL")),
        sa.Index("ix_messages_by_operator", "conversation_id", postgresql_where=sa.text("by_operator")),
        sa.CheckConstraint("NOT by_operator OR turn_id IS NULL", name="no_turn_by_operator"),
        {"schema": "agent"},
    )

    conversation_id: str = Field(primary_key=True, foreign_key="agent.conversations.conversation_id")
    message_id: str = Field(primary_key=True)
    number: int = Field(
        description="Its place among what the model reads: its log item's number; that of the item which gave the "
        "conversation back where it waited for people until then."
    )
    tenant: str
    text: str
    author: dict[str, str] = Field(sa_type=pg.JSONB)
    cause: dict[str, str] = Field(sa_type=pg.JSONB)
    turn_id: str | None = None
    step: int | None = Field(default=None, description="The first step of the turn in which the model sees it.")
    call_id: str | None = Field(
        default=None,
        foreign_key="agent.tool_calls.call_id",
        description="Set for a late outcome: the call that has it. Its id is one that no client can choose.",
    )
    by_operator: bool = Field(
        sa_column_kwargs={"server_default": sa.false()},
        description="An operator wrote or answered it: no turn does, and the model reads of it with the next message.",
    )
    posted_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)


class FactRow(SQLModel, table=True):
    """What a person found out about a call that was answered `unknown`; the model reads it with the next message."""

    __tablename__ = "facts"
    __table_args__ = (sa.Index("ix_facts_conversation", "conversation_id", "number"), {"schema": "agent"})

    call_id: str = Field(primary_key=True, foreign_key="agent.tool_calls.call_id")
    tenant: str
    conversation_id: str
    number: int = Field(description="Its place among the numbers of the messages.")
    text: str
    learned_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)


class PseudonymRow(SQLModel, table=True):
    """What a conversation's model reads instead of one spelling of a datum. It goes with its conversation."""

    __tablename__ = "pseudonyms"
    __table_args__ = (sa.UniqueConstraint("conversation_id", "pseudonym_sha256"), {"schema": "agent"})

    conversation_id: str = Field(
        primary_key=True, foreign_key="agent.conversations.conversation_id", ondelete="CASCADE"
    )
    value_sha256: str = Field(primary_key=True, description="Of the value in UTF-8: a value may be of any length.")
    pseudonym_sha256: str
    tenant: str
    value: str
    pseudonym: str
    kind: str
    canonical: str = Field(description="The same for all spellings of one datum.")
    number: int = Field(description="Counted over the conversation; spellings of one datum may share it.")
    made_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)


class TurnRow(SQLModel, table=True):
    """One turn: from a person's message to the end of the model's answer."""

    __tablename__ = "turns"
    __table_args__ = (
        check_states("state", State),
        sa.CheckConstraint(f"(ended_at IS NOT NULL) = (state IN ({_FINAL}))", name="ended_iff_final"),
        sa.CheckConstraint("(lease_until IS NOT NULL) = (state = 'thinking')", name="leased_iff_thinking"),
        sa.CheckConstraint("(open_calls > 0) = (state = 'waiting')", name="waiting_iff_open_calls"),
        sa.Index("ux_turns_live", "conversation_id", unique=True, postgresql_where=sa.text("ended_at IS NULL")),
        # Summaries of pages: no index has what changes, so a turn that goes on stays on its page.
        sa.Index(
            "ix_turns_leases",
            "lease_until",
            postgresql_using="brin",
            postgresql_with={"pages_per_range": "16", "autosummarize": "on"},
        ),
        sa.Index("ix_turns_stopped", "conversation_id", postgresql_where=sa.text("stopped_number IS NOT NULL")),
        _CHANGING,
    )

    turn_id: str = Field(primary_key=True)
    tenant: str
    conversation_id: str = Field(foreign_key="agent.conversations.conversation_id")
    author: dict[str, str] = Field(sa_type=pg.JSONB)
    started_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)
    # What changes stands together, behind all else: PostgreSQL logs of a change what is between the first and the last
    # column that changed.
    cause: dict[str, str] = Field(sa_type=pg.JSONB)
    state: str
    step: int = Field(description="The model step under way, or the one whose calls are open; 1 for the first.")
    fence: int = Field(description="Number of the claim; a writer with an older one is refused.")
    takeovers: int = Field(default=0, description="Claims of this step whose worker never came back.")
    open_calls: int = 0
    paused: bool = Field(default=False, description="Whether all open calls wait for people, and the log says so.")
    lease_until: datetime | None = Field(default=None, sa_type=_MOMENT)
    message_id: str = Field(description="The newest message that the turn answers.")
    reason: str = ""
    stopped_number: int | None = Field(
        default=None,
        description="Set where a person stopped it: the place of that among the numbers of the messages.",
    )
    final_answer: dict[str, Any] | None = Field(default=None, sa_type=pg.JSONB(none_as_null=True))
    ended_at: datetime | None = Field(default=None, sa_type=_MOMENT)


class StepRow(SQLModel, table=True):
    """One answer of the model, kept as its author wants it back; its calls are rows of their own."""

    __tablename__ = "steps"
    __table_args__ = (
        # What a tenant used today is summed from the index alone, before each step where a day has a budget.
        sa.Index(
            "ix_steps_day",
            "tenant",
            "said_at",
            postgresql_include=["conversation_id", "model", "input_tokens", "output_tokens"],
        ),
        {"schema": "agent"},
    )

    conversation_id: str = Field(primary_key=True)
    #: No foreign key, as in `CallRow`: a check and a lock for each row, of a turn that the same statement changes.
    turn_id: str = Field(primary_key=True)
    step: int = Field(primary_key=True)
    tenant: str
    message_id: str
    raw: dict[str, Any] = Field(sa_type=pg.JSONB, description="The assistant message without its calls.")
    model: str
    input_tokens: int
    output_tokens: int
    said_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)


class CallRow(SQLModel, table=True):
    """One tool call of one step, valid or not, and its one result."""

    __tablename__ = "tool_calls"
    __table_args__ = (
        check_states("state", CallState),
        sa.CheckConstraint("(result_kind IS NOT NULL) = (state = 'answered')", name="result_iff_answered"),
        sa.CheckConstraint("(answered_at IS NOT NULL) = (state = 'answered')", name="answered_at_iff_answered"),
        sa.CheckConstraint(f"held IN ({_HELD})", name="held_known"),
        sa.CheckConstraint(f"next_message IN ({_NEXT_MESSAGE})", name="next_message_known"),
        sa.CheckConstraint("held IS NULL OR next_message IS NULL", name="held_one_way"),
        sa.CheckConstraint("state <> 'open' OR interim_at IS NULL", name="no_interim_while_open"),
        sa.CheckConstraint("state <> 'continued' OR interim_at IS NOT NULL", name="interim_when_continued"),
        sa.CheckConstraint(f"result_kind IN ({_KINDS})", name="result_kind_known"),
        sa.CheckConstraint(
            "digest IS NOT NULL OR result_kind IS NOT DISTINCT FROM 'invalid'", name="digest_unless_invalid"
        ),
        # By conversation first, so that those of one are found by it too.
        sa.UniqueConstraint("conversation_id", "turn_id", "step", "position"),
        _CHANGING,
    )

    call_id: str = Field(primary_key=True)
    tenant: str
    conversation_id: str
    turn_id: str
    message_id: str = Field(description="The person's message that the turn answered then.")
    step: int
    position: int = Field(description="Place among the calls of its step, from 0.")
    provider_call_id: str = Field(description="The provider's id, opaque; never leaves the agent.")
    tool: str
    arguments: str = Field(description="Canonical JSON text; where the call is invalid, what the model wrote.")
    shown_arguments: str = Field(description="What people may see of them; empty: nothing.")
    digest: str | None = None
    state: str = Field(default=CALL_MACHINE.initial)
    result_kind: str | None = None
    result: dict[str, Any] | None = Field(default=None, sa_type=pg.JSONB(none_as_null=True))
    held: str | None = Field(
        default=None,
        description="When the model may go on while people think; none: not, or it has not heard that they are asked.",
    )
    next_message: str | None = Field(
        default=None,
        description="What a message of its requester does where the turn waits for it while people think.",
    )
    approval_id: str | None = Field(default=None, description="Set when people were asked about it.")
    approval_revision: int = Field(
        default=0,
        description="Of the newest item about its approval in the log; beyond its last one when it is closed.",
    )
    undecided: bool = Field(default=False, description="Whether it waits for people now.")
    interim_at: datetime | None = Field(
        default=None, sa_type=_MOMENT, description="When the model went on with an interim result."
    )
    told_number: int | None = Field(
        default=None,
        description="Set where its result came after its turn was stopped: its place among the messages' numbers.",
    )
    cards: dict[str, str] | None = Field(
        default=None,
        sa_type=pg.JSONB(none_as_null=True),
        description="Of the job that it began: call -> its approval while people are asked, empty once they are not.",
    )
    proposed_at: datetime = Field(sa_type=_MOMENT, sa_column_kwargs=_NOW)
    answered_at: datetime | None = Field(default=None, sa_type=_MOMENT)

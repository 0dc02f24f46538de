"""Rows of the agent. The CHECKs say the machine's promises again, in words that the database enforces."""

from __future__ import annotations

from typing import Any, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.agent.conversation_state import Held, NextMessage
from placet.agent.states import CALL_MACHINE, MACHINE, CallState, State
from placet.contracts.messages import ResultKind
from placet.runtime.database import MOMENT, check_states, column, metadata, one_of

#: The clock and not the transaction's beginning: a turn begins when its conversation's lock was got.
_NOW = {"server_default": sa.func.clock_timestamp()}


#: Tables whose rows change often: room on each page, so that a change stays there and touches no index.
_CHANGING: dict[str, Any] = {"schema": "agent", "postgresql_with": {"fillfactor": "50"}}


#: One conversation. Its row is the lock under which everything in it changes.
CONVERSATIONS = sa.Table(
    "conversations",
    metadata,
    column("conversation_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    #: Empty until its first message came, which decides it.
    column("agent", sa.String),
    column("language", sa.String),
    column("labels", pg.JSONB),
    #: Number of its newest log item.
    column("log_seq", sa.Integer, default=0),
    #: Raised by each change of it, its turns, calls and queue.
    column("version", sa.Integer, default=0),
    #: The turn that goes on now; none while it idles.
    column("turn_id", sa.String, nullable=True),
    #: Messages, and late outcomes of calls, that wait for a turn.
    column("queued", sa.Integer, default=0),
    #: Staged entries that wait for their end; none: nothing waits.
    column("staged", sa.Integer, nullable=True),
    column("created_at", MOMENT, **_NOW),
    #: Set: no call is proposed here any more.
    column("ended_at", MOMENT, nullable=True),
    #: Whether people hold it: no turn begins, and messages wait until they give it back.
    column("held", sa.Boolean, server_default=sa.false()),
    #: The newest change of its holder that is known here, as the gateway counts them.
    column("holder_revision", sa.Integer, server_default="0"),
    #: The newest change of its holder in the log.
    column("holder_told", sa.Integer, server_default="0"),
    sa.CheckConstraint("queued = 0 OR turn_id IS NOT NULL OR held", name="queued_behind_turn"),
    **_CHANGING,
)


#: What makes a conversation an attempt of a job.
ATTEMPTS = sa.Table(
    "attempts",
    metadata,
    column("conversation_id", sa.String, primary_key=True),
    #: As `placet.agent.attempts.Attempt`.
    column("data", pg.JSONB),
    **_CHANGING,
)


#: One staged entry that waits for its end; the row goes when it has one.
STAGED_ENTRIES = sa.Table(
    "staged_entries",
    metadata,
    column("call_id", sa.String, sa.ForeignKey("agent.tool_calls.call_id"), primary_key=True),
    column("conversation_id", sa.String),
    column("workspace_id", sa.String),
    #: Place in its workspace, as the executor says.
    column("position", sa.Integer),
    column("digest", sa.String),
    column("decide", sa.String),
    #: The commit that people are asked about now.
    column("commit_id", sa.String, nullable=True),
    #: What it changes, `pack:key`; of a call none.
    column("keys", pg.JSONB),
    sa.Index("ix_staged_entries_conversation", "conversation_id"),
    schema="agent",
)


#: One item of a conversation's log: what every frontend shows, in the one order that there is.
LOG = sa.Table(
    "log",
    metadata,
    column("conversation_id", sa.String, primary_key=True),
    #: Gapless, from 1.
    column("seq", sa.Integer, primary_key=True),
    column("tenant", sa.String),
    column("type", sa.String),
    column("at", MOMENT, **_NOW),
    column("data", pg.JSONB),
    schema="agent",
)


#: One message of a person, or the late outcome of a call. It belongs to the turn that sees it, or waits for one.
#:
#: Both are things that the model has not heard of yet, so they share a queue and its order.
MESSAGES = sa.Table(
    "messages",
    metadata,
    column("conversation_id", sa.String, sa.ForeignKey("agent.conversations.conversation_id"), primary_key=True),
    column("message_id", sa.String, primary_key=True),
    #: Its place among what the model reads: its log item's number; that of the item which gave the conversation back
    #: where it waited for people until then.
    column("number", sa.Integer),
    column("tenant", sa.String),
    column("text", sa.String),
    column("author", pg.JSONB),
    column("cause", pg.JSONB),
    column("turn_id", sa.String, nullable=True),
    #: The first step of the turn in which the model sees it.
    column("step", sa.Integer, nullable=True),
    #: Set for a late outcome: the call that has it. Its id is one that no client can choose.
    column("call_id", sa.String, sa.ForeignKey("agent.tool_calls.call_id"), nullable=True),
    #: An operator wrote or answered it: no turn does, and the model reads of it with the next message.
    column("by_operator", sa.Boolean, server_default=sa.false()),
    column("posted_at", MOMENT, **_NOW),
    sa.Index("ix_messages_queued", "conversation_id", postgresql_where=sa.text("turn_id IS NULL")),
    sa.Index("ix_messages_by_operator", "conversation_id", postgresql_where=sa.text("by_operator")),
    sa.CheckConstraint("NOT by_operator OR turn_id IS NULL", name="no_turn_by_operator"),
    schema="agent",
)


#: What a person found out about a call that was answered `unknown`; the model reads it with the next message.
FACTS = sa.Table(
    "facts",
    metadata,
    column("call_id", sa.String, sa.ForeignKey("agent.tool_calls.call_id"), primary_key=True),
    column("tenant", sa.String),
    column("conversation_id", sa.String),
    #: Its place among the numbers of the messages.
    column("number", sa.Integer),
    column("text", sa.String),
    column("learned_at", MOMENT, **_NOW),
    sa.Index("ix_facts_conversation", "conversation_id", "number"),
    schema="agent",
)


#: What a conversation's model reads instead of one spelling of a datum. It goes with its conversation.
PSEUDONYMS = sa.Table(
    "pseudonyms",
    metadata,
    column(
        "conversation_id",
        sa.String,
        sa.ForeignKey("agent.conversations.conversation_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    #: Of the value in UTF-8: a value may be of any length.
    column("value_sha256", sa.String, primary_key=True),
    column("pseudonym_sha256", sa.String),
    column("tenant", sa.String),
    column("value", sa.String),
    column("pseudonym", sa.String),
    column("kind", sa.String),
    #: The same for all spellings of one datum.
    column("canonical", sa.String),
    #: Counted over the conversation; spellings of one datum may share it.
    column("number", sa.Integer),
    column("made_at", MOMENT, **_NOW),
    sa.UniqueConstraint("conversation_id", "pseudonym_sha256"),
    schema="agent",
)


#: One turn: from a person's message to the end of the model's answer.
TURNS = sa.Table(
    "turns",
    metadata,
    column("turn_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("conversation_id", sa.String, sa.ForeignKey("agent.conversations.conversation_id")),
    column("author", pg.JSONB),
    column("started_at", MOMENT, **_NOW),
    # What changes stands together, behind all else: PostgreSQL logs of a change what is between the first and the last
    # column that changed.
    column("cause", pg.JSONB),
    column("state", sa.String),
    #: The model step under way, or the one whose calls are open; 1 for the first.
    column("step", sa.Integer),
    #: Number of the claim; a writer with an older one is refused.
    column("fence", sa.Integer),
    #: Claims of this step whose worker never came back.
    column("takeovers", sa.Integer, default=0),
    column("open_calls", sa.Integer, default=0),
    #: Whether all open calls wait for people, and the log says so.
    column("paused", sa.Boolean, default=False),
    column("lease_until", MOMENT, nullable=True),
    #: The newest message that the turn answers.
    column("message_id", sa.String),
    column("reason", sa.String, default=""),
    #: Set where a person stopped it: the place of that among the numbers of the messages.
    column("stopped_number", sa.Integer, nullable=True),
    column("final_answer", pg.JSONB(none_as_null=True), nullable=True),
    column("ended_at", MOMENT, nullable=True),
    check_states("state", State),
    sa.CheckConstraint(f"(ended_at IS NOT NULL) = ({one_of('state', sorted(MACHINE.final))})", name="ended_iff_final"),
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
    **_CHANGING,
)


#: One answer of the model, kept as its author wants it back; its calls are rows of their own.
STEPS = sa.Table(
    "steps",
    metadata,
    column("conversation_id", sa.String, primary_key=True),
    #: No foreign key, as in `CallRow`: a check and a lock for each row, of a turn that the same statement changes.
    column("turn_id", sa.String, primary_key=True),
    column("step", sa.Integer, primary_key=True),
    column("tenant", sa.String),
    column("message_id", sa.String),
    #: The assistant message without its calls.
    column("raw", pg.JSONB),
    column("model", sa.String),
    column("input_tokens", sa.Integer),
    column("output_tokens", sa.Integer),
    column("said_at", MOMENT, **_NOW),
    # What a tenant used today is summed from the index alone, before each step where a day has a budget.
    sa.Index(
        "ix_steps_day",
        "tenant",
        "said_at",
        postgresql_include=["conversation_id", "model", "input_tokens", "output_tokens"],
    ),
    schema="agent",
)


#: One tool call of one step, valid or not, and its one result.
TOOL_CALLS = sa.Table(
    "tool_calls",
    metadata,
    column("call_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("conversation_id", sa.String),
    column("turn_id", sa.String),
    #: The person's message that the turn answered then.
    column("message_id", sa.String),
    column("step", sa.Integer),
    #: Place among the calls of its step, from 0.
    column("position", sa.Integer),
    #: The provider's id, opaque; never leaves the agent.
    column("provider_call_id", sa.String),
    column("tool", sa.String),
    #: Canonical JSON text; where the call is invalid, what the model wrote.
    column("arguments", sa.String),
    #: What people may see of them; empty: nothing.
    column("shown_arguments", sa.String),
    column("digest", sa.String, nullable=True),
    column("state", sa.String, default=CALL_MACHINE.initial),
    column("result_kind", sa.String, nullable=True),
    column("result", pg.JSONB(none_as_null=True), nullable=True),
    #: When the model may go on while people think; none: not, or it has not heard that they are asked.
    column("held", sa.String, nullable=True),
    #: What a message of its requester does where the turn waits for it while people think.
    column("next_message", sa.String, nullable=True),
    #: Set when people were asked about it.
    column("approval_id", sa.String, nullable=True),
    #: Of the newest item about its approval in the log; beyond its last one when it is closed.
    column("approval_revision", sa.Integer, default=0),
    #: Whether it waits for people now.
    column("undecided", sa.Boolean, default=False),
    #: When the model went on with an interim result.
    column("interim_at", MOMENT, nullable=True),
    #: Set where its result came after its turn was stopped: its place among the messages' numbers.
    column("told_number", sa.Integer, nullable=True),
    #: Of the job that it began: call -> its approval while people are asked, empty once they are not.
    column("cards", pg.JSONB(none_as_null=True), nullable=True),
    column("proposed_at", MOMENT, **_NOW),
    column("answered_at", MOMENT, nullable=True),
    check_states("state", CallState),
    sa.CheckConstraint("(result_kind IS NOT NULL) = (state = 'answered')", name="result_iff_answered"),
    sa.CheckConstraint("(answered_at IS NOT NULL) = (state = 'answered')", name="answered_at_iff_answered"),
    check_states("held", get_args(Held)),
    check_states("next_message", get_args(NextMessage)),
    sa.CheckConstraint("held IS NULL OR next_message IS NULL", name="held_one_way"),
    sa.CheckConstraint("state <> 'open' OR interim_at IS NULL", name="no_interim_while_open"),
    sa.CheckConstraint("state <> 'continued' OR interim_at IS NOT NULL", name="interim_when_continued"),
    check_states("result_kind", get_args(ResultKind)),
    sa.CheckConstraint(
        "digest IS NOT NULL OR result_kind IS NOT DISTINCT FROM 'invalid'", name="digest_unless_invalid"
    ),
    # By conversation first, so that those of one are found by it too.
    sa.UniqueConstraint("conversation_id", "turn_id", "step", "position"),
    **_CHANGING,
)

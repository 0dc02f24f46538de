"""Rows of approval."""

from __future__ import annotations

from typing import get_args

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.approval.rules import VOTING
from placet.approval.states import MACHINE, EditState, State
from placet.contracts.messages.approvals import Outcome, Verb
from placet.contracts.messages.tool_calls import AnswerKind, Category
from placet.runtime.database import MOMENT, check_states, column, metadata, one_of

#: A JSON value or NULL, never JSON's own null.
_JSON = pg.JSONB(none_as_null=True)
#: The order of every list of approvals: each page of it is a stretch of one index.
_NEWEST_FIRST = (sa.text("created_at DESC"), sa.text("approval_id DESC"))


#: What approval heard first about a call: that it is held, or that it was withdrawn before it was held.
#:
#: Requests and withdrawals come over different queues to different replicas. Both insert here first, so the unique
#: key makes the later one wait for the earlier one's commit: neither can overlook the other.
CALLS = sa.Table(
    "calls",
    metadata,
    column("tenant", sa.String, primary_key=True),
    column("call_id", sa.String, primary_key=True),
    column("withdrawn_kind", sa.String, nullable=True),
    column("withdrawn_reason", sa.String, nullable=True),
    column("heard_at", MOMENT),
    sa.CheckConstraint("withdrawn_kind IN ('cancelled', 'superseded')", name="withdrawn_kind_known"),
    sa.CheckConstraint("(withdrawn_kind IS NULL) = (withdrawn_reason IS NULL)", name="withdrawn_with_reason"),
    schema="approval",
)


#: One held call and how its waiting ended. The call's own fields are kept as they came.
APPROVALS = sa.Table(
    "approvals",
    metadata,
    column("approval_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("call_id", sa.String),
    column("conversation_id", sa.String),
    column("turn_id", sa.String),
    column("message_id", sa.String),
    #: The model's answer within the turn that proposed it, and its place there.
    column("step", sa.Integer, default=0),
    column("position", sa.Integer, default=0),
    column("agent", sa.String),
    column("requester", sa.String),
    column("language", sa.String),
    column("labels", pg.JSONB),
    column("tool", sa.String),
    column("schema_digest", sa.String),
    #: The arguments as they would run now, or did; an edit replaces them.
    column("arguments", sa.String),
    #: What people may see of them, as policy rendered it; NULL where that is all.
    column("shown_arguments", sa.String, nullable=True),
    #: Where texts among them stood before the call, by JSON pointer, as the agent found; NULL where nobody looked.
    column("origins", _JSON, nullable=True),
    #: Of attempts at a job: what the call reads beneath its conversation's workspace.
    column("base", _JSON, nullable=True),
    column("digest", sa.String),
    #: Edited: who changed them last, why, and the arguments as proposed; NULL where nobody did.
    column("edited", _JSON, nullable=True),
    #: What the tool can do to the world, by policy's rulebook.
    column("category", sa.String),
    column("pool", sa.String),
    column("permit_expires_after_seconds", sa.Integer),
    column("summary", sa.String),
    #: Words of summary and arguments as `placet.domain.words.searched_card` has them: redacted values masked.
    column("searched", sa.String),
    column("rule", sa.String),
    column("rulebook_digest", sa.String),
    #: Of the people that policy judged it with; empty where they stand in the rulebook.
    column("directory_digest", sa.String, server_default="", default=""),
    column("reason", sa.String),
    #: ApprovalRule as policy pinned it to this call, without defaults: a later rulebook does not change who may decide.
    column("approval_rule", pg.JSONB),
    #: Whom it names by now, in the rule's words and sorted, and the digest of this and of everything else that says who
    #: may decide calls of this tool: no index takes a long list.
    column("deciders", pg.ARRAY(pg.TEXT)),
    column("deciders_digest", sa.String),
    #: Who has nothing to decide here for now, though they are named: who voted, and whom four eyes exclude. As they
    #: count once, each with the API key that it stands and falls with, or null.
    column("closed_to", pg.JSONB),
    #: Who voted on the arguments as they are, in the same form.
    column("voters", pg.JSONB),
    column("state", sa.String, default=MACHINE.initial),
    #: Number of the card; `arguments_revision` is the number of its arguments, and an edit makes the next one.
    column("revision", sa.Integer, default=1),
    column("arguments_revision", sa.Integer, server_default="1", default=1),
    column("created_at", MOMENT),
    column("expires_at", MOMENT),
    column("decided_by", sa.String, nullable=True),
    column("decision_reason", sa.String, nullable=True),
    #: How the call ended if it may not run; NULL while it waits and when it was approved.
    column("result_kind", sa.String, nullable=True),
    #: Where a person answered instead: what their words are for the model.
    column("answer_kind", sa.String, nullable=True),
    column("closed_at", MOMENT, nullable=True),
    #: Reminders and escalations done, and when the next is due.
    column("steps_done", sa.Integer, server_default="0", default=0),
    column("next_step_at", MOMENT, nullable=True),
    column("claimed_by", sa.String, nullable=True),
    column("claimed_until", MOMENT, nullable=True),
    #: Who lets whom decide in their place: a list of {by, to}.
    column("delegations", pg.JSONB, server_default=sa.text("'[]'")),
    #: What each vote counted for when votes were last counted: voter -> numbers of panels, -1 for a veto.
    column("seats", _JSON, nullable=True),
    #: Set where a person wanted the call cancelled after it was approved: it may have run.
    column("cancel_asked_by", sa.String, nullable=True),
    column("cancel_asked_at", MOMENT, nullable=True),
    #: Of `commit_changes`: its staged calls as they were proposed, StagedCall each; NULL of every other call.
    column("staged", _JSON, nullable=True),
    #: The thread that the call belongs to; what an expiry or a decision emits goes on in it.
    column("correlation_id", sa.String),
    column("traceparent", sa.String),
    check_states("state", State),
    check_states("category", Category),
    sa.CheckConstraint("(state <> 'pending') = (closed_at IS NOT NULL)", name="closed_iff_final"),
    sa.CheckConstraint(
        "(state IN ('approved', 'denied', 'answered')) = (decided_by IS NOT NULL)", name="decided_by_a_person"
    ),
    sa.CheckConstraint("(state IN ('pending', 'approved')) = (result_kind IS NULL)", name="refused_with_kind"),
    # A replica of before this column answers without.
    check_states("answer_kind", get_args(AnswerKind)),
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
    schema="approval",
    postgresql_with={"fillfactor": 50},
)


#: One word of one card, in the order of every list: what has a word is a stretch of this key, newest last.
#:
#: A duty writes them in bulk, some five seconds behind what they tell of (see ADR 0024): a search asks the approval
#: itself whether it fits, so a row that is behind costs a look and never shows what does not fit.
WORDS = sa.Table(
    "words",
    metadata,
    column("tenant", sa.String, primary_key=True),
    column("word", sa.String, primary_key=True),
    column("is_open", sa.Boolean, primary_key=True),
    column("created_at", MOMENT, primary_key=True),
    column("approval_id", sa.String, primary_key=True),
    schema="approval",
)


#: How far the words are written: the one row, locked by the replica that writes them.
WORD_CURSOR = sa.Table(
    "word_cursor",
    metadata,
    column("singleton", sa.Boolean, primary_key=True),
    #: Row of approval's history up to which every change of a card has its words.
    column("history_id", sa.BigInteger),
    sa.CheckConstraint("singleton", name="one_row"),
    schema="approval",
)


#: One decision that a person sent, counted or not, with the answer it got. Never changed.
#:
#: Votes are the counted rows: of each person the last one about the arguments as they are.
DECISIONS = sa.Table(
    "decisions",
    metadata,
    column("tenant", sa.String, primary_key=True),
    column("decision_id", sa.String, primary_key=True),
    #: As claimed; no foreign key, because an unknown approval's attempts are kept too.
    column("approval_id", sa.String),
    column("person", sa.String),
    column("verb", sa.String),
    column("reason", sa.String),
    #: Digest and revision of the card that the person saw.
    column("digest", sa.String),
    column("revision", sa.Integer, nullable=True),
    #: How the gateway knew the person, and what it proved.
    column("proof", sa.String),
    #: The API key behind the proof; NULL where none was. The vote counts as long as the key works.
    column("key_id", sa.String, nullable=True),
    column("roles", pg.JSONB, server_default=sa.text("'[]'")),
    column("conversation_id", sa.String, nullable=True),
    #: What some verbs carry: arguments, response, to, seconds, grant.
    column("details", pg.JSONB, server_default=sa.text("'{}'")),
    #: The signed decision itself, JWS compact form: evidence that anybody with the public key can check.
    column("signed", sa.String),
    #: When that was, Unix seconds: what is older than a person's last word does not replace it.
    column("at", sa.Double, server_default=sa.text("0")),
    column("outcome", sa.String),
    #: DecisionAnswered without its address and what stands beside it: the same decision id gets it again.
    column("answer", pg.JSONB),
    #: For a vote that counts: number of the arguments it is about, 0 once a restore has it asked for anew; and of the
    #: card that it made.
    column("arguments_revision", sa.Integer, nullable=True),
    column("counted_revision", sa.Integer, nullable=True),
    column("decided_at", MOMENT),
    check_states("verb", get_args(Verb)),
    check_states("outcome", get_args(Outcome)),
    sa.CheckConstraint(
        "(counted_revision IS NULL) = (arguments_revision IS NULL) AND (counted_revision IS NULL"
        f" OR (outcome = 'accepted' AND {one_of('verb', VOTING)}))",
        name="counted_votes",
    ),
    sa.Index("ix_decisions_approval", "approval_id", "decided_at"),
    schema="approval",
)


#: One wish to change the arguments of a held call: asked of policy, then accepted or refused, once.
EDITS = sa.Table(
    "edits",
    metadata,
    column("tenant", sa.String, primary_key=True),
    #: The editor's decision.
    column("edit_id", sa.String, primary_key=True),
    column("approval_id", sa.String),
    column("person", sa.String),
    column("reason", sa.String),
    column("state", sa.String),
    #: Number of the arguments that it changes, and these as they were.
    column("base_revision", sa.Integer),
    column("before", sa.String),
    column("before_digest", sa.String),
    column("arguments", sa.String),
    column("digest", sa.String),
    #: Both as people may see them, redacted values masked; NULL in a row from before anything redacted could be edited.
    column("shown_before", sa.String, nullable=True),
    column("shown_arguments", sa.String, nullable=True),
    #: Where the two differ, as people may see it: a list of {at, before?, after?}.
    column("differences", pg.JSONB),
    column("signed", sa.String),
    column("answer_to", sa.String),
    #: Why it was refused; empty where it was accepted.
    column("detail", sa.String, server_default="", default=""),
    column("rulebook_digest", sa.String, nullable=True),
    column("asked_at", MOMENT),
    column("judged_at", MOMENT, nullable=True),
    check_states("state", EditState),
    sa.CheckConstraint("(state = 'asked') = (judged_at IS NULL)", name="judged_iff_over"),
    sa.Index("ix_edits_approval", "approval_id", "asked_at"),
    schema="approval",
)

"""Rows of policy."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.domain.limits import Per
from placet.policy.rules import Effect
from placet.runtime.database import MOMENT, check_states, column, metadata

#: One change of the rulebook that policy judges by, or of the people that it asks. Written once, never changed.
ACTIVATIONS = sa.Table(
    "activations",
    metadata,
    column("activation_id", sa.String, primary_key=True),
    column("kind", sa.String, server_default="rulebook", default="rulebook"),
    column("digest", sa.String, index=True),
    #: `file` for a changed file, or the administrator.
    column("activated_by", sa.String),
    column("activated_at", MOMENT),
    #: The whole text, so that what a verdict's digest names can be read as long as the verdict; of a directory its
    #: outline, in which no addresses are.
    column("source", sa.String),
    #: Against the one before, as unified text.
    column("diff", sa.String),
    sa.CheckConstraint("kind IN ('rulebook', 'directory')", name="kind_known"),
    sa.Index("ix_activations_newest", sa.text("activated_at DESC")),
    schema="policy",
)


#: What policy answered to one call, and by which rule of which rulebook. Never changed after its transaction.
VERDICTS = sa.Table(
    "verdicts",
    metadata,
    column("verdict_id", sa.String, primary_key=True),
    column("call_id", sa.String),
    column("tenant", sa.String),
    column("conversation_id", sa.String),
    column("requester", sa.String),
    column("tool", sa.String),
    #: Digest of the call that was judged; another digest under the same call id is an attack.
    column("digest", sa.String),
    column("schema_digest", sa.String),
    column("effect", sa.String),
    column("rule", sa.String),
    #: Why, for people.
    column("reason", sa.String),
    #: Why, for the model; empty where the call may still run.
    column("model_reason", sa.String),
    column("rulebook_digest", sa.String),
    column("judged_at", MOMENT),
    #: What the rules looked at, see `kept`; none in rows that are older than this column.
    column("facts", sa.String, nullable=True),
    #: Who was asked, JSON text of an ApprovalRule; none where nobody was.
    column("approval", sa.String, nullable=True),
    #: What a staged call's permit will have to say, JSON text of StageTerms; none where nothing is staged.
    column("terms", sa.String, nullable=True),
    check_states("effect", Effect),
    sa.UniqueConstraint("call_id"),
    # For the counters of `history`: what a conversation or a requester asked of a tool lately.
    sa.Index("ix_verdicts_conversation", "tenant", "conversation_id", "tool", "judged_at"),
    sa.Index("ix_verdicts_requester", "tenant", "requester", "tool", "judged_at"),
    # For replaying the past.
    sa.Index("ix_verdicts_newest", "tenant", sa.text("judged_at DESC"), sa.text("verdict_id DESC")),
    schema="policy",
)


#: One held call whose rule has a veto window, while it waits and for that window after people denied it.
#:
#: A row for the proposed arguments, and one for all that people changed them to: whatever they saw, they denied.
WATCHED_CALLS = sa.Table(
    "watched_calls",
    metadata,
    column("call_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("conversation_id", sa.String),
    column("requester", sa.String),
    column("tool", sa.String),
    #: SHA-256 of the arguments alone: a changed schema of the tool makes it no other call.
    column("arguments_digest", sa.String, primary_key=True),
    column("veto_on", sa.String),
    column("veto_within", sa.String),
    column("window_seconds", sa.Integer),
    #: Who was asked, JSON text of an ApprovalRule; they are asked again.
    column("approval", sa.String),
    column("asked_at", MOMENT),
    column("denied_at", MOMENT, nullable=True),
    column("denied_by", sa.String, default=""),
    #: In the words of who denied it.
    column("reason", sa.String, default=""),
    column("until", MOMENT, nullable=True),
    sa.CheckConstraint("veto_on IN ('arguments', 'tool')", name="veto_on_known"),
    sa.CheckConstraint("veto_within IN ('conversation', 'requester', 'tenant')", name="veto_within_known"),
    sa.CheckConstraint("window_seconds > 0", name="window_not_empty"),
    sa.CheckConstraint("(denied_at IS NULL) = (until IS NULL)", name="denied_until"),
    sa.Index("ix_watched_calls_same", "tenant", "conversation_id", "tool"),
    # Those that reach beyond their conversation; few rules have them.
    sa.Index("ix_watched_calls_wide", "tenant", "tool", postgresql_where=sa.text("veto_within <> 'conversation'")),
    sa.Index("ix_watched_calls_oldest", "until", postgresql_where=sa.text("until IS NOT NULL")),
    schema="policy",
)


#: What several calls are counted on together. The row is the lock: who asks it for room holds it to the commit.
COUNTERS = sa.Table(
    "counters",
    metadata,
    #: Digest of tenant, rule, measure, per and subject.
    column("counter_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("rule", sa.String),
    #: `count`, or `sum:` and the path of an argument.
    column("measure", sa.String),
    column("per", sa.String),
    column("subject", sa.String),
    column("touched_at", MOMENT),
    check_states("per", Per),
    sa.Index("ix_counters_oldest", "touched_at"),
    schema="policy",
)


#: What one call took of a counter, and when it gave that back because it did not run.
RESERVATIONS = sa.Table(
    "reservations",
    metadata,
    column("counter_id", sa.String, primary_key=True),
    column("call_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("amount", sa.Numeric),
    #: By the database clock, read after the counter was locked.
    column("reserved_at", MOMENT),
    column("released_at", MOMENT, nullable=True),
    #: How the call ended.
    column("released_as", sa.String, nullable=True),
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
    schema="policy",
)


#: One remembered choice: who allowed which calls, how many of them, and until when.
GRANTS = sa.Table(
    "grants",
    metadata,
    column("grant_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    #: The approval that it was given with; one gives one grant at most.
    column("approval_id", sa.String),
    column("owner", sa.String),
    #: The API key that proved the owner: once it is revoked, the grant covers nothing.
    column("key_id", sa.String, nullable=True),
    column("rule", sa.String),
    column("tool", sa.String),
    column("schema_digest", sa.String),
    #: Digest of the tool's whole entry in the rulebook.
    column("tool_digest", sa.String),
    column("scope", sa.String),
    #: The conversation, agent or tenant whose calls it covers.
    column("subject", sa.String),
    #: Arguments of the approved call, canonical JSON text.
    column("arguments", sa.String),
    #: The same as people may see them.
    column("shown_arguments", sa.String),
    #: Arguments whose approved value is the most, or the only one.
    column("bounds", pg.JSONB),
    column("rulebook_digest", sa.String),
    column("uses", sa.Integer),
    column("uses_left", sa.Integer),
    column("given_at", MOMENT),
    column("expires_at", MOMENT),
    column("revoked_at", MOMENT, nullable=True),
    column("revoked_by", sa.String, nullable=True),
    #: Set for good once a rulebook took over in which the tool is not the one that was approved; and how it is not.
    column("void_at", MOMENT, nullable=True),
    column("void_reason", sa.String, nullable=True),
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
    schema="policy",
)


#: One call that a grant let through, and when the use came back because the call did not run.
GRANT_USES = sa.Table(
    "grant_uses",
    metadata,
    column("call_id", sa.String, primary_key=True),
    column("grant_id", sa.String),
    column("tenant", sa.String),
    column("used_at", MOMENT),
    column("returned_at", MOMENT, nullable=True),
    sa.ForeignKeyConstraint(["grant_id"], ["policy.grants.grant_id"]),
    sa.Index("ix_grant_uses_grant", "grant_id"),
    schema="policy",
)

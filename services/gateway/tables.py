"""Rows of the gateway: keys, sessions, conversations, mailed links, stops, erasures, restores, the audit chain."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.gateway.states import MACHINE, State
from placet.runtime.database import MOMENT, check_states, column, metadata

_NOW = {"server_default": sa.func.now()}


#: One API key; of its secret only the hash is here.
API_KEYS = sa.Table(
    "api_keys",
    metadata,
    column("key_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    #: Owner within the tenant, without the prefix `person:`.
    column("person", sa.String),
    column("scopes", pg.ARRAY(sa.Text)),
    #: SHA-256 of the secret, 64 hexadecimal digits.
    column("secret_hash", sa.String),
    column("created_at", MOMENT, **_NOW),
    column("created_by", sa.String),
    column("revoked_at", MOMENT, nullable=True),
    column("revoked_by", sa.String, nullable=True),
    #: Since when its owner has it to themselves; before, it is good for chatting only, if for anything.
    column("taken_over_at", MOMENT, nullable=True),
    #: How that is known: `maker` (made for oneself), `set-up` (made beside the database), `sign-in`, `code` (which its
    #: owner alone was sent), or `key` (another of their own).
    column("taken_over_by", sa.String, nullable=True),
    #: SHA-256 of the code that its owner was sent.
    column("code_hash", sa.String, nullable=True),
    column("code_expires_at", MOMENT, nullable=True),
    #: Wrong codes so far.
    column("code_tries", sa.Integer, server_default="0", default=0),
    sa.CheckConstraint("scopes <@ ARRAY['chat', 'decide', 'operate', 'admin']", name="scopes_known"),
    sa.CheckConstraint("cardinality(scopes) > 0", name="scopes_some"),
    sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="revoked_by_somebody"),
    sa.CheckConstraint("length(secret_hash) = 64", name="secret_hashed"),
    sa.CheckConstraint("(taken_over_at IS NULL) = (taken_over_by IS NULL)", name="taken_over_somehow"),
    sa.CheckConstraint("taken_over_by IN ('maker', 'set-up', 'sign-in', 'code', 'key')", name="taken_over_by_known"),
    sa.Index("ix_api_keys_tenant", "tenant", "created_at"),
    # Who made keys for whoever asked for a call? Asked with each decision.
    sa.Index("ix_api_keys_person", "tenant", "person"),
    schema="gateway",
)


#: One browser that is signed in; of its token only the hash is here.
SESSIONS = sa.Table(
    "sessions",
    metadata,
    column("session_id", sa.String, primary_key=True),
    #: SHA-256 of the cookie, 64 hexadecimal digits.
    column("token_hash", sa.String, unique=True),
    column("tenant", sa.String),
    #: `person:…` who is signed in.
    column("person", sa.String),
    #: How they signed in: with an API key, a one-time link, or at a provider.
    column("method", sa.String),
    #: The API key whose rights it has.
    column("key_id", sa.String, nullable=True),
    column("created_at", MOMENT, **_NOW),
    #: When it was last used, give or take a minute.
    column("seen_at", MOMENT),
    column("expires_at", MOMENT),
    column("revoked_at", MOMENT, nullable=True),
    column("revoked_by", sa.String, nullable=True),
    sa.CheckConstraint("method IN ('key', 'link', 'oidc')", name="method_known"),
    sa.CheckConstraint("(method = 'oidc') = (key_id IS NULL)", name="rights_from_somewhere"),
    sa.CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="revoked_by_somebody"),
    sa.CheckConstraint("length(token_hash) = 64", name="token_hashed"),
    sa.Index("ix_sessions_tenant", "tenant", "created_at"),
    sa.Index("ix_sessions_expires_at", "expires_at"),
    schema="gateway",
)


#: One conversation, opened over HTTP, or adopted from the agent where an AMQP frontend began it.
#:
#: The key has the tenant in it: AMQP frontends choose conversation ids, and two tenants may choose the same.
CONVERSATIONS = sa.Table(
    "conversations",
    metadata,
    column("tenant", sa.String, primary_key=True),
    column("conversation_id", sa.String, primary_key=True),
    column("agent", sa.String),
    column("language", sa.String, server_default="en", default="en"),
    column("labels", pg.JSONB, server_default=sa.text("'{}'"), default=dict),
    #: The end user's id as the opener gave it, without prefix.
    column("visitor", sa.String, nullable=True),
    #: SHA-256 of the conversation token; empty: it was taken back.
    column("token_hash", sa.String, unique=True, nullable=True),
    #: When the token is good no more.
    column("token_expires_at", MOMENT, nullable=True),
    #: Who took the token with a key or signed in, `person:…`: it is good as long as they could come.
    column("token_of", sa.String, server_default="", default=""),
    column("created_at", MOMENT, **_NOW),
    #: `person:…` or `visitor:…` who opened it.
    column("created_by", sa.String, server_default="", default=""),
    #: Whether the key that opened it may decide too: its owner then counts as the end user as well.
    column("opener_decides", sa.Boolean, server_default=sa.false(), default=False),
    #: Who had a key that opened it, wrote in it for the end user or took its token: its owner, and its maker until it
    #: was taken over; and, with `~` before them, people who wrote in it themselves. `person:…`, separated by spaces.
    column("relayed_by", sa.String, server_default="", default=""),
    #: Set: nobody writes here any more.
    column("ended_at", MOMENT, nullable=True),
    #: `person:…` or `visitor:…` who ended it.
    column("ended_by", sa.String, nullable=True),
    #: Who answers here: the agent, an operator who is awaited, or one who is there.
    column("holder", sa.String, server_default=MACHINE.initial.value),
    #: How often the holder has changed.
    column("holder_revision", sa.Integer, server_default="0"),
    #: `person:…` who holds it; empty: nobody.
    column("operator", sa.String, server_default=""),
    #: Since when the agent does not answer here.
    column("held_since", MOMENT, nullable=True),
    #: Why a tool handed it over, for operators.
    column("held_reason", sa.String, server_default=""),
    #: Number of the newest item that clients know whose requests are answered by what is new; empty while there was no
    #: such request.
    column("told_seq", sa.BigInteger, nullable=True),
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
    schema="gateway",
)


#: One interaction that came from Slack: the same again is a copy, and does nothing.
SLACK_SEEN = sa.Table(
    "slack_seen",
    metadata,
    #: SHA-256 of what tells an interaction from every other.
    column("key", sa.String, primary_key=True),
    column("seen_at", MOMENT, **_NOW),
    sa.Index("ix_slack_seen_at", "seen_at"),
    schema="gateway",
)


#: One mailed link that somebody decided with. The key is what makes a link good for one decision.
LINK_USES = sa.Table(
    "link_uses",
    metadata,
    #: SHA-256 of the link's token, 64 hexadecimal digits.
    column("token_hash", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("approval_id", sa.String),
    column("person", sa.String),
    column("verb", sa.String),
    #: The decision that it was used for.
    column("decision_id", sa.String, unique=True),
    #: `sent`; then `counted`, or `refused`, after which the link may be used again. One that stays `sent` is what the
    #: stored decision says it is.
    column("outcome", sa.String),
    column("used_at", MOMENT, **_NOW),
    sa.CheckConstraint("outcome IN ('sent', 'counted', 'refused')", name="outcome_known"),
    schema="gateway",
)


#: One emergency stop: no call that it covers begins to run until it is lifted.
STOPS = sa.Table(
    "stops",
    metadata,
    column("stop_id", sa.String, primary_key=True),
    #: Whose calls; empty: everybody's.
    column("tenant", sa.String, nullable=True),
    #: Only calls of this tool.
    column("tool", sa.String, nullable=True),
    #: Only calls that this agent proposed.
    column("agent", sa.String, nullable=True),
    column("reason", sa.String),
    #: Whether only somebody else may lift it than who asked for it.
    column("by_another", sa.Boolean),
    #: Whether the house asked for it: then the house alone lifts it.
    column("by_house", sa.Boolean),
    column("stopped_at", MOMENT),
    column("stopped_by", sa.String),
    #: JWS of the gateway over all of the above.
    column("signature", sa.String),
    column("resumed_at", MOMENT, nullable=True),
    column("resumed_by", sa.String, nullable=True),
    column("resume_reason", sa.String, server_default="", default=""),
    #: JWS of the gateway over stop, time and person.
    column("resume_signature", sa.String, nullable=True),
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
    schema="gateway",
)


#: One person whom an administrator wants erased; `placet purge` does it, beside the database.
ERASURES = sa.Table(
    "erasures",
    metadata,
    column("erasure_id", sa.String, primary_key=True),
    #: As they were named; once it is done, the pseudonym that took their place.
    column("who", sa.String),
    column("asked_by", sa.String),
    column("asked_at", MOMENT, **_NOW),
    column("done_at", MOMENT, nullable=True),
    #: Where something of theirs went on or waited when it was last tried; empty once it is done.
    column("waits_for", pg.ARRAY(pg.TEXT), server_default="{}", default=list),
    sa.Index("ix_erasures_waiting", "asked_at", postgresql_where=sa.text("done_at IS NULL")),
    schema="gateway",
)


#: One restore from a backup. What was asked for before it is void: it may have run after the backup.
RESTORES = sa.Table(
    "restores",
    metadata,
    column("restored_at", MOMENT, primary_key=True),
    #: The newest moment that the backup knows of.
    column("backup_at", MOMENT),
    sa.CheckConstraint("backup_at <= restored_at", name="backup_before"),
    schema="gateway",
)


#: One list of the inbox that somebody keeps: its address under a name of theirs.
SAVED_VIEWS = sa.Table(
    "saved_views",
    metadata,
    column("tenant", sa.String, primary_key=True),
    #: `person:…` whose it is.
    column("person", sa.String, primary_key=True),
    column("name", sa.String, primary_key=True),
    #: Of the list, `/inbox?…`, without a page.
    column("address", sa.String),
    schema="gateway",
)


#: One thing that somebody said about an approval. Never changed, and it decides nothing.
COMMENTS = sa.Table(
    "comments",
    metadata,
    column("comment_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("approval_id", sa.String),
    #: `person:…` or `visitor:…` who wrote it.
    column("person", sa.String),
    column("text", sa.String),
    #: Whether it asks the requester something.
    column("question", sa.Boolean),
    column("created_at", MOMENT, **_NOW),
    sa.CheckConstraint("text <> ''", name="says_something"),
    sa.Index("ix_comments_approval", "tenant", "approval_id", "created_at"),
    schema="gateway",
)


#: One block of a tenant's audit chain. Its rows stay where they are: this says which, and signs for them.
CHECKPOINTS = sa.Table(
    "checkpoints",
    metadata,
    column("tenant", sa.String, primary_key=True),
    #: From 1, without a gap.
    column("number", sa.BigInteger, primary_key=True),
    #: What was signed: a JWS that names rows, root and the block before it.
    column("token", sa.String),
    column("sealed_at", MOMENT, **_NOW),
    schema="gateway",
)


#: How far the history of each service is sealed; whoever seals holds the one row.
SEALING = sa.Table(
    "sealing",
    metadata,
    column("singleton", sa.Boolean, primary_key=True),
    #: By service, the id of the newest row that is sealed.
    column("upto", pg.JSONB),
    sa.CheckConstraint("singleton", name="only_one"),
    schema="gateway",
)

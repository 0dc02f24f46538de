"""Rows of the notifier."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.domain.approvers import PERSON
from placet.notifier.states import MACHINE, State
from placet.runtime.database import MOMENT, check_states, column, metadata

#: Deliveries that a duty looks for again and again, in the words of its statement. Each has an index that holds these
#: rows alone.
CROWDED_ROWS = "pending AND (state = 'kept' OR card->>'similar' <> '0' OR card->>'held_back' <> '0')"
LATE_ROWS = "pending AND sent_version = 0 AND tell_by IS NOT NULL AND state IN ('due', 'kept')"
STOPPED_ROWS = "pending AND state IN ('due', 'sent') AND card->>'stopped' <> ''"
SHOWN_IN_PLACE_ROWS = "pending AND state IN ('due', 'sent') AND split_part(channel, ':', 1) = 'slack'"
#: Deliveries that people see in lists, in the words of the view: of the others nobody is told anything yet.
SHOWN_ROWS = "state NOT IN ('asleep', 'spared')"
_LAST_CHANGED = (sa.text("updated_at DESC"), sa.text("delivery_id DESC"))
_NEWEST_FIRST = (sa.text("created_at DESC"), sa.text("event_id DESC"))
#: Events that may be claimed once they are due, and those that wait for their time.
FREE_EVENTS = "state = 'due' AND lease_until IS NULL"
LEASED_EVENTS = "state = 'due' AND lease_until IS NOT NULL"
UNTOLD_ROWS = "pending AND NOT alerted AND state = 'given_up'"


#: One card of one approval at one address.
DELIVERIES = sa.Table(
    "deliveries",
    metadata,
    column("delivery_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("approval_id", sa.String),
    column("call_id", sa.String),
    #: As the rule names it, and who or what is meant there.
    column("channel", sa.String),
    column("recipient", sa.String, default=""),
    #: Id of the person in the directory; empty where a place is meant.
    column("person", sa.String, default=""),
    column("state", sa.String, default=MACHINE.initial),
    #: Whether the approval waits for people; what keeps cards back counts these.
    column("pending", sa.Boolean, default=True),
    #: Number of the address among those that the rule names.
    column("rank", sa.Integer, default=0),
    #: What its tool does to what: among cards of one topic one is shown, and counts the others.
    column("topic", sa.String, default=""),
    #: True: quiet hours and the number of waiting cards do not hold it up.
    column("urgent", sa.Boolean, default=False),
    #: From then on nothing holds it up, where nobody was told.
    column("tell_by", MOMENT, nullable=True),
    #: The approval's revision that the card shows, and that the surface shows.
    column("revision", sa.Integer),
    column("sent_revision", sa.Integer, default=0),
    #: Number of the card itself: every change of it makes a new one, also how the call ended.
    column("version", sa.Integer, default=1),
    column("sent_version", sa.Integer, default=0),
    column("card", pg.JSONB),
    #: What the channel needs to find the card again; null until it was shown.
    column("reference", pg.JSONB, nullable=True),
    #: Key of the mail that asks about this card and others at once; empty where it is told alone.
    column("joint", sa.String, server_default="", default=""),
    #: Tries of this version; fence counts every claim there ever was.
    column("attempt", sa.Integer, default=0),
    column("fence", sa.Integer, default=0),
    column("lease_until", MOMENT, nullable=True),
    column("due_at", MOMENT),
    column("updated_at", MOMENT),
    column("error", sa.String, default=""),
    #: Whether operators were told that nobody could be told of this approval.
    column("alerted", sa.Boolean, default=False),
    check_states("state", State),
    sa.CheckConstraint("sent_revision <= revision", name="sent_not_ahead"),
    sa.CheckConstraint("sent_version <= version", name="sent_version_not_ahead"),
    sa.UniqueConstraint("approval_id", "channel", "recipient"),
    sa.Index("ix_deliveries_due", "due_at", postgresql_where=sa.text("state = 'due'")),
    sa.Index("ix_deliveries_call", "call_id"),
    sa.Index(
        "ix_deliveries_waiting",
        "tenant",
        "channel",
        "recipient",
        postgresql_where=sa.text("pending AND state IN ('due', 'kept', 'sent')"),
    ),
    # Pages of the lists of what was given up, and of all that people are shown.
    sa.Index("ix_deliveries_given_up", "tenant", *_LAST_CHANGED, postgresql_where=sa.text("state = 'given_up'")),
    sa.Index("ix_deliveries_newest", "tenant", *_LAST_CHANGED, postgresql_where=sa.text(SHOWN_ROWS)),
    sa.Index("ix_deliveries_crowded", "tenant", "channel", "recipient", postgresql_where=sa.text(CROWDED_ROWS)),
    # A reply in Slack names the message that it stands under.
    sa.Index(
        "ix_deliveries_message",
        sa.text("(reference ->> 'channel')"),
        sa.text("(reference ->> 'ts')"),
        postgresql_where=sa.text("reference ->> 'ts' IS NOT NULL"),
    ),
    sa.Index("ix_deliveries_stopped", "delivery_id", postgresql_where=sa.text(STOPPED_ROWS)),
    sa.Index("ix_deliveries_in_place", "delivery_id", postgresql_where=sa.text(SHOWN_IN_PLACE_ROWS)),
    sa.Index("ix_deliveries_untold", "approval_id", postgresql_where=sa.text(UNTOLD_ROWS)),
    sa.Index("ix_deliveries_late", "tell_by", postgresql_where=sa.text(LATE_ROWS)),
    schema="notifier",
)


#: One event for one webhook. What is sent is kept to the byte, so that each try signs the same.
WEBHOOK_EVENTS = sa.Table(
    "webhook_events",
    metadata,
    #: The receiver's idempotency key: the same for every try.
    column("event_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("webhook", sa.String),
    column("type", sa.String),
    column("body", sa.String),
    column("state", sa.String, default=MACHINE.initial),
    column("attempt", sa.Integer, default=0),
    column("fence", sa.Integer, default=0),
    #: Until then nobody takes it: a worker has it, or its next try is not due.
    column("lease_until", MOMENT, nullable=True),
    column("due_at", MOMENT),
    column("created_at", MOMENT),
    column("error", sa.String, default=""),
    sa.CheckConstraint("state IN ('due', 'sent', 'given_up')", name="state_known"),
    sa.Index("ix_webhook_events_due", "webhook", "tenant", "due_at", postgresql_where=sa.text(FREE_EVENTS)),
    sa.Index("ix_webhook_events_leases", "lease_until", postgresql_where=sa.text(LEASED_EVENTS)),
    sa.Index("ix_webhook_events_given_up", "tenant", *_NEWEST_FIRST, postgresql_where=sa.text("state = 'given_up'")),
    sa.Index("ix_webhook_events_newest", "tenant", *_NEWEST_FIRST),
    schema="notifier",
)


#: How fast one channel may be used for one tenant: nothing is sent before `free_at`.
PACES = sa.Table(
    "paces",
    metadata,
    column("tenant", sa.String, primary_key=True),
    #: As the rule names it; an empty tenant stands for all of them, where a channel that all share asked for a pause.
    column("channel", sa.String, primary_key=True),
    column("free_at", MOMENT),
    schema="notifier",
)


#: One mail to one person about one approval.
MAILS = sa.Table(
    "mails",
    metadata,
    #: What its Message-ID and the sender of its envelope have.
    column("mail_id", sa.String, primary_key=True),
    column("approval_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    #: Where its delivery is.
    column("channel", sa.String),
    column("recipient", sa.String),
    column("person", sa.String),
    column("made_at", MOMENT),
    schema="notifier",
)


#: One link that was mailed; of its token only the hash is here. The gateway reads it and notes its use.
LINKS = sa.Table(
    "links",
    metadata,
    #: SHA-256 of the token, 64 hexadecimal digits.
    column("token_hash", sa.String, primary_key=True),
    column("mail_id", sa.String),
    column("tenant", sa.String),
    column("approval_id", sa.String),
    #: Who it stands for, `person:<id>`.
    column("person", sa.String),
    #: Of the call that the mail was about: the link decides no other.
    column("digest", sa.String),
    #: Of the code that the mail says beside the link, keyed with the token; empty: the link has lapsed.
    column("code_hash", sa.String, server_default="", default=""),
    column("revision", sa.Integer),
    column("expires_at", MOMENT),
    sa.CheckConstraint("length(token_hash) = 64", name="token_hashed"),
    sa.CheckConstraint(f"starts_with(person, '{PERSON}')", name="of_a_person"),
    sa.Index("ix_links_mail", "mail_id"),
    sa.Index("ix_links_expires", "expires_at"),
    schema="notifier",
)

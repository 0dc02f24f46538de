"""Rows of the notifier."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from placet.domain.approvers import PERSON
from placet.notifier.states import MACHINE, State
from placet.runtime.database import check_states

#: Deliveries that a duty looks for again and again. Each has an index that holds these rows alone.
CROWDED_ROWS = "pending AND (state = 'kept' OR card->>'similar' <> '0' OR card->>'held_back' <> '0')"
LATE_ROWS = "pending AND sent_version = 0 AND tell_by IS NOT NULL AND state IN ('due', 'kept')"
STOPPED_ROWS = "pending AND state IN ('due', 'sent') AND card->>'stopped' <> ''"
SHOWN_IN_PLACE_ROWS = "pending AND state IN ('due', 'sent') AND split_part(channel, ':', 1) = 'slack'"
#: Deliveries that people see in lists, in the words of the view: of the others nobody is told anything yet.
SHOWN_ROWS = "state NOT IN ('asleep', 'spared')"
_LAST_CHANGED = (sa.text("updated_at DESC"), sa.text("delivery_id DESC"))
_NEWEST_FIRST = (sa.text("created_at DESC"), sa.text("event_id DESC"))
UNTOLD_ROWS = "pending AND NOT alerted AND state = 'given_up'"


class DeliveryRow(SQLModel, table=True):
    """One card of one approval at one address."""

    __tablename__ = "deliveries"
    __table_args__ = (
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
        {"schema": "notifier"},
    )

    delivery_id: str = Field(primary_key=True)
    tenant: str
    approval_id: str
    call_id: str
    #: As the rule names it, and who or what is meant there.
    channel: str
    recipient: str = ""
    #: Id of the person in the directory; empty where a place is meant.
    person: str = ""
    state: str = Field(default=MACHINE.initial)
    #: Whether the approval waits for people; what keeps cards back counts these.
    pending: bool = True
    #: Number of the address among those that the rule names.
    rank: int = 0
    #: What its tool does to what: among cards of one topic one is shown, and counts the others.
    topic: str = ""
    #: True: quiet hours and the number of waiting cards do not hold it up.
    urgent: bool = False
    #: From then on nothing holds it up, where nobody was told.
    tell_by: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    #: The approval's revision that the card shows, and that the surface shows.
    revision: int
    sent_revision: int = 0
    #: Number of the card itself: every change of it makes a new one, also how the call ended.
    version: int = 1
    sent_version: int = 0
    card: dict[str, Any] = Field(sa_type=pg.JSONB)
    #: What the channel needs to find the card again; null until it was shown.
    reference: dict[str, Any] | None = Field(default=None, sa_type=pg.JSONB)
    #: Key of the mail that asks about this card and others at once; empty where it is told alone.
    joint: str = Field(default="", sa_column_kwargs={"server_default": ""})
    #: Tries of this version; fence counts every claim there ever was.
    attempt: int = 0
    fence: int = 0
    lease_until: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    due_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    updated_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    error: str = ""
    #: Whether operators were told that nobody could be told of this approval.
    alerted: bool = False


class EventRow(SQLModel, table=True):
    """One event for one webhook. What is sent is kept to the byte, so that each try signs the same."""

    __tablename__ = "webhook_events"
    __table_args__ = (
        sa.CheckConstraint("state IN ('due', 'sent', 'given_up')", name="state_known"),
        sa.Index("ix_webhook_events_due", "due_at", postgresql_where=sa.text("state = 'due'")),
        sa.Index(
            "ix_webhook_events_given_up", "tenant", *_NEWEST_FIRST, postgresql_where=sa.text("state = 'given_up'")
        ),
        sa.Index("ix_webhook_events_newest", "tenant", *_NEWEST_FIRST),
        {"schema": "notifier"},
    )

    #: The receiver's idempotency key: the same for every try.
    event_id: str = Field(primary_key=True)
    tenant: str
    webhook: str
    type: str
    body: str
    state: str = Field(default=MACHINE.initial)
    attempt: int = 0
    fence: int = 0
    lease_until: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    due_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    created_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    error: str = ""


class PaceRow(SQLModel, table=True):
    """How fast one channel may be used for one tenant: nothing is sent before `free_at`."""

    __tablename__ = "paces"
    __table_args__ = ({"schema": "notifier"},)

    tenant: str = Field(primary_key=True)
    #: As the rule names it; an empty tenant stands for all of them, where the channel itself asked for a pause.
    channel: str = Field(primary_key=True)
    free_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))


class MailRow(SQLModel, table=True):
    """One mail to one person about one approval."""

    __tablename__ = "mails"
    __table_args__ = ({"schema": "notifier"},)

    mail_id: str = Field(primary_key=True, description="What its Message-ID and the sender of its envelope have.")
    approval_id: str = Field(primary_key=True)
    tenant: str
    #: Where its delivery is.
    channel: str
    recipient: str
    person: str
    made_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))


class LinkRow(SQLModel, table=True):
    """One link that was mailed; of its token only the hash is here. The gateway reads it and notes its use."""

    __tablename__ = "links"
    __table_args__ = (
        sa.CheckConstraint("length(token_hash) = 64", name="token_hashed"),
        sa.CheckConstraint(f"starts_with(person, '{PERSON}')", name="of_a_person"),
        sa.Index("ix_links_mail", "mail_id"),
        sa.Index("ix_links_expires", "expires_at"),
        {"schema": "notifier"},
    )

    token_hash: str = Field(primary_key=True, description="SHA-256 of the token, 64 hexadecimal digits.")
    mail_id: str
    tenant: str
    approval_id: str
    person: str = Field(description="Who it stands for, `person:<id>`.")
    digest: str = Field(description="Of the call that the mail was about: the link decides no other.")
    code_hash: str = Field(
        default="",
        sa_column_kwargs={"server_default": ""},
        description="Of the code that the mail says beside the link, keyed with the token; empty: the link has lapsed.",
    )
    revision: int
    expires_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))

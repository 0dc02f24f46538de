"""Rows of the dead-letter service."""

from __future__ import annotations

import sqlalchemy as sa

from placet.dead_letters.states import MACHINE, State
from placet.runtime.database import MOMENT, check_states, column, metadata

#: The order of the list: each page of it is a stretch of one index.
_NEWEST_FIRST = (sa.text("received_at DESC"), sa.text("dead_letter_id DESC"))


#: One event, or unreadable bytes, that could not be handled.
DEAD_LETTERS = sa.Table(
    "dead_letters",
    metadata,
    column("dead_letter_id", sa.String, primary_key=True),
    column("tenant", sa.String),
    column("queue", sa.String),
    column("service", sa.String),
    column("reason", sa.String),
    column("message_id", sa.String),
    column("message_type", sa.String),
    #: As it came; empty once it was replayed or discarded.
    column("body", sa.String),
    #: The body as people may see it: redacted.
    column("shown_body", sa.String),
    column("state", sa.String, default=MACHINE.initial),
    column("received_at", MOMENT),
    column("resolved_at", MOMENT, nullable=True),
    column("resolved_by", sa.String, nullable=True),
    check_states("state", State),
    sa.CheckConstraint("(state <> 'open') = (resolved_at IS NOT NULL)", name="resolved_iff_not_open"),
    sa.Index("ix_dead_letters_open", "tenant", *_NEWEST_FIRST, postgresql_where=sa.text("state = 'open'")),
    sa.Index("ix_dead_letters_newest", "tenant", *_NEWEST_FIRST),
    schema="dead_letters",
)

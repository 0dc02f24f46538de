"""Rows of the dead-letter service."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from placet.dead_letters.states import MACHINE, State
from placet.runtime.database import check_states

#: The order of the list: each page of it is a stretch of one index.
_NEWEST_FIRST = (sa.text("received_at DESC"), sa.text("dead_letter_id DESC"))


class DeadLetterRow(SQLModel, table=True):
    """One event, or unreadable bytes, that could not be handled."""

    __tablename__ = "dead_letters"
    __table_args__ = (
        check_states("state", State),
        sa.CheckConstraint("(state <> 'open') = (resolved_at IS NOT NULL)", name="resolved_iff_not_open"),
        sa.Index("ix_dead_letters_open", "tenant", *_NEWEST_FIRST, postgresql_where=sa.text("state = 'open'")),
        sa.Index("ix_dead_letters_newest", "tenant", *_NEWEST_FIRST),
        {"schema": "dead_letters"},
    )

    dead_letter_id: str = Field(primary_key=True)
    tenant: str
    queue: str
    service: str
    reason: str
    message_id: str
    message_type: str
    #: As it came; empty once it was replayed or discarded.
    body: str
    #: The body as people may see it: redacted.
    shown_body: str
    state: str = Field(default=MACHINE.initial)
    received_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    resolved_at: datetime | None = Field(default=None, sa_type=sa.TIMESTAMP(timezone=True))
    resolved_by: str | None = None

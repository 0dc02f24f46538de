"""Rows of the notifier."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlmodel import Field, SQLModel

from services.notifier.states import MACHINE, State
from shared.database import check_states


class DeliveryRow(SQLModel, table=True):
    """One card of one approval in one channel."""

    __tablename__ = "deliveries"
    __table_args__ = (
        check_states("state", State),
        sa.CheckConstraint("sent_revision <= revision", name="sent_not_ahead"),
        sa.UniqueConstraint("approval_id", "channel"),
        sa.Index("ix_deliveries_due", "due_at", postgresql_where=sa.text("state = 'due'")),
        {"schema": "notifier"},
    )

    delivery_id: str = Field(primary_key=True)
    tenant: str
    approval_id: str
    channel: str
    state: str = Field(default=MACHINE.initial)
    revision: int
    sent_revision: int = 0
    card: dict[str, Any] = Field(sa_type=pg.JSONB)
    attempt: int = 0
    due_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    updated_at: datetime = Field(sa_type=sa.TIMESTAMP(timezone=True))
    error: str = ""

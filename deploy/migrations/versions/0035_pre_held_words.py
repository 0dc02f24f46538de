"""The agent keeps of every held call how it is held, so that one that is held otherwise is one it has not heard of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035_pre_held_words"
down_revision = "0034_pre_closed_words"

_NAME = "ck_tool_calls_held_known"


def upgrade() -> None:
    _know("held IN ('at_once', 'on_message', 'wait', 'supersede')")
    # Of these nobody knows any more whether the agent heard; where it did not yet, it writes over this.
    op.execute(sa.text("UPDATE agent.tool_calls SET held = 'wait' WHERE state = 'open' AND held IS NULL"))


def downgrade() -> None:
    op.execute(sa.text("UPDATE agent.tool_calls SET held = NULL WHERE held IN ('wait', 'supersede')"))
    _know("held IN ('at_once', 'on_message')")


def _know(condition: str) -> None:
    op.drop_constraint(op.f(_NAME), "tool_calls", schema="agent", type_="check")
    op.create_check_constraint(op.f(_NAME), "tool_calls", condition, schema="agent")

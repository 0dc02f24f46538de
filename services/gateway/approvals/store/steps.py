"""Where in the answers of the model the calls stand that approvals are about."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from placet.runtime.sql import Connection

#: Turn, number of the model's answer in it, and position of the call in that answer.
Step = tuple[str, int, int]
#: Of a call that no answer is known of.
NO_STEP: Step = ("", 0, 0)

_STEPS = sa.text("""
SELECT a.approval_id, c.turn_id, c.step, c.position
FROM read.approvals a JOIN read.tool_calls c ON c.tenant = a.tenant AND c.call_id = a.call_id
WHERE a.tenant = :tenant AND a.approval_id = ANY(CAST(:approval_ids AS text[]))
""")


async def steps_of(connection: Connection, tenant: str, approval_ids: Collection[str]) -> dict[str, Step]:
    """Return where each call stands, by its approval; nothing for those that are not there."""
    values = {"tenant": tenant, "approval_ids": list(approval_ids)}
    return {row[0]: (row[1], row[2], row[3]) for row in await connection.execute(_STEPS, values)}

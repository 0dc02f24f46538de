"""What others may read of the executor: the `read` schema's view of its executions.

Of the call only its digest is in it, and the signed permit is not: whoever may read how a call ended need not see what
it carried.
"""

from __future__ import annotations

VIEWS: dict[str, str] = {
    "executions": """
        SELECT call_id, tenant, conversation_id, pool, state, fence, worker, permit_id, permit_issuer, lease_until,
               CAST(call AS json) ->> 'digest' AS digest, permit_expires_at,
               begun_at AS started_at, finished_at,
               CASE WHEN finished_at IS NOT NULL THEN CASE state WHEN 'resolved' THEN 'unknown' ELSE state END END
               AS result_kind, error, resolution, resolved_by, resolution_note, resolved_at
        FROM executor.executions
    """,
}

"""What others may read of the executor: the `read` schema's view of its executions, and of workspaces.

Of a call only its digest is in it: whoever may read how a call ended need not see what it carried. The signed permit
carries no more, and is used up with the row. Of a workspace there is what people decide by, diffs included, and no
content.
"""

from __future__ import annotations

VIEWS: dict[str, str] = {
    "executions": """
        SELECT call_id, tenant, conversation_id, pool, state, mode, fence, worker, permit_id, permit_issuer,
               lease_until, CAST(call AS json) ->> 'digest' AS digest, permit_expires_at,
               begun_at AS started_at, finished_at,
               CASE WHEN finished_at IS NOT NULL THEN CASE state WHEN 'resolved' THEN 'unknown' ELSE state END END
               AS result_kind, error, permit, resolution, resolved_by, resolution_note, resolution_signed,
               resolved_at
        FROM executor.executions
    """,
    # `entries` and `waiting` count what is left to decide or was decided; `bytes` is of all contents.
    "workspaces": """
        SELECT workspace_id, tenant, conversation_id, number, agent, state, commit_call_id, entries,
               (SELECT count(*) FROM executor.workspace_entries AS e
                WHERE e.workspace_id = w.workspace_id AND e.state = 'waiting') AS waiting,
               bytes, opened_at, expires_at, ended_at, ended_by, reason
        FROM executor.workspaces AS w
    """,
    # `state`: waiting, kept, left_out, committed, conflicted, succeeded, failed, refused, unknown, discarded.
    "workspace_entries": """
        SELECT e.call_id, e.workspace_id, w.tenant, w.conversation_id, e.position, e.tool, e.pool, e.kind, e.digest,
               e.keys, e.summary, e.decide, e.on_failure, e.state, e.commit_call_id, e.error, e.staged_at, e.ended_at,
               coalesce(x.call ->> 'shown_arguments', x.call ->> 'arguments') AS shown_arguments,
               x.call ->> 'requester' AS requester
        FROM executor.workspace_entries AS e
        JOIN executor.workspaces AS w USING (workspace_id)
        JOIN (SELECT call_id, CAST(nullif(call, '') AS json) AS call FROM executor.executions) AS x
            ON x.call_id = e.call_id
    """,
    # One row for each key that an entry touches, in `ordinal`; `kind` is create, change or delete.
    "workspace_changes": """
        SELECT c.call_id, c.ordinal, c.workspace_id, w.tenant, w.conversation_id, c.position, c.pack, c.key,
               CASE WHEN c.base IS NULL THEN 'create' WHEN c.after IS NULL THEN 'delete' ELSE 'change' END AS kind,
               c.base AS base_digest, c.base_size, c.base_mode, c.after AS after_digest, c.after_size, c.after_mode,
               c.summary, c.opaque AS binary, c.added, c.removed, c.diff, c.cut
        FROM executor.workspace_changes AS c
        JOIN executor.workspaces AS w USING (workspace_id)
    """,
}

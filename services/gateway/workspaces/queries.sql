-- name: newest_workspace
SELECT workspace_id, tenant, conversation_id, number, agent, state, commit_call_id, entries, waiting, bytes, opened_at,
    expires_at, ended_at, ended_by, reason, expires_at <= statement_timestamp() AS is_over
FROM read.workspaces WHERE tenant = :tenant AND conversation_id = :conversation_id
ORDER BY number DESC LIMIT 1

-- name: load_staged
-- What the agent holds for staged: the executor hears a moment later of what was thrown away.
SELECT s.call_id, s.workspace_id, s.commit_id, a.state AS approval_state
FROM read.staged_entries AS s
LEFT JOIN read.approvals AS a ON a.call_id = s.commit_id AND a.tenant = s.tenant
WHERE s.tenant = :tenant AND s.conversation_id = :conversation_id
ORDER BY s.call_id

-- name: is_proposed
-- Whether people are asked about a commit of this conversation, which has one workspace at a time.
SELECT EXISTS (SELECT FROM read.approvals WHERE tenant = :tenant AND conversation_id = :conversation_id
    AND state = 'pending' AND tool = :commit_tool) AS proposed

-- name: load_entry
SELECT state, error FROM read.workspace_entries WHERE tenant = :tenant AND call_id = :call_id

-- name: load_entry_arguments
SELECT shown_arguments FROM read.workspace_entries
WHERE tenant = :tenant AND conversation_id = :conversation_id AND call_id = :call_id

-- name: load_workspaces
SELECT workspace_id, tenant, conversation_id, number, agent, state, commit_call_id, entries, waiting, bytes, opened_at,
    expires_at, ended_at, ended_by, reason
FROM read.workspaces WHERE tenant = :tenant AND workspace_id = ANY(:workspace_ids::text[])

-- name: list_entries
SELECT call_id, workspace_id, position, tool, pool, kind, digest, keys, summary, decide, on_failure, state,
    commit_call_id, error, staged_at, ended_at, shown_arguments
FROM read.workspace_entries WHERE tenant = :tenant AND workspace_id = ANY(:workspace_ids::text[])
ORDER BY workspace_id, position

-- name: list_changes
-- Without the diffs, which are loaded one by one.
SELECT call_id, ordinal, workspace_id, position, pack, key, kind, base_digest, base_size, base_mode, after_digest,
    after_size, after_mode, summary, "binary", added, removed, cut
FROM read.workspace_changes WHERE tenant = :tenant AND workspace_id = ANY(:workspace_ids::text[])
ORDER BY workspace_id, position, ordinal

-- name: load_diffs
SELECT call_id, ordinal, pack, key, kind, base_digest, base_size, base_mode, after_digest, after_size, after_mode,
    summary, "binary", added, removed, diff, cut
FROM read.workspace_changes
WHERE tenant = :tenant AND conversation_id = :conversation_id AND call_id = :call_id
ORDER BY ordinal

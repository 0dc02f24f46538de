-- name: load_workspaces
SELECT workspace_id, tenant, conversation_id, state
FROM read.workspaces WHERE tenant = ANY(:tenants::text[]) AND workspace_id = ANY(:workspace_ids::text[])

-- name: list_entries
SELECT call_id, workspace_id, position, tool, kind, digest, keys, summary, state, error, shown_arguments,
    staged_at
FROM read.workspace_entries
WHERE tenant = ANY(:tenants::text[]) AND workspace_id = ANY(:workspace_ids::text[])
ORDER BY workspace_id, position

-- name: list_changes
SELECT call_id, workspace_id, pack, key, kind, base_digest, base_size, base_mode, after_digest, after_size, after_mode,
    summary, "binary", added, removed
FROM read.workspace_changes
WHERE tenant = ANY(:tenants::text[]) AND workspace_id = ANY(:workspace_ids::text[])
ORDER BY workspace_id, position, ordinal

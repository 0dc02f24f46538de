-- Workspaces: what waits in them, and what a commit makes of them. The workspace's row is the lock of all that is in it.

-- name: lock_live
SELECT * FROM executor.workspaces
WHERE tenant = :tenant AND conversation_id = :conversation_id AND state IN ('open', 'committing') FOR UPDATE

-- name: last_number
SELECT coalesce(max(number), 0) AS number FROM executor.workspaces
WHERE tenant = :tenant AND conversation_id = :conversation_id

-- name: open
INSERT INTO executor.workspaces (
    workspace_id, tenant, conversation_id, number, agent, state, opened_at, expires_at, entries, bytes
)
VALUES (:workspace_id, :tenant, :conversation_id, :number, :agent, 'open', now(), now(), 0, 0)
ON CONFLICT DO NOTHING RETURNING workspace_id

-- name: lock
SELECT *, (state = 'open' AND expires_at <= clock_timestamp()) AS overdue FROM executor.workspaces
WHERE workspace_id = :workspace_id AND tenant = :tenant FOR UPDATE

-- name: staged
SELECT e.*, w.bytes, w.entries FROM executor.workspace_entries AS e JOIN executor.workspaces AS w USING (workspace_id)
WHERE e.call_id = :call_id

-- name: find
-- What the newest entry that is not made yet leaves under a key.
SELECT c.workspace_id, c.after, c.after_size, c.after_mode
FROM executor.workspaces AS w
JOIN executor.workspace_changes AS c USING (workspace_id)
JOIN executor.workspace_entries AS e USING (call_id)
WHERE w.tenant = :tenant AND w.conversation_id = :conversation_id AND w.state IN ('open', 'committing')
    AND c.pack = :pack AND c.key = :key AND e.state IN ('waiting', 'kept')
ORDER BY c.position DESC, c.ordinal DESC LIMIT 1

-- name: under
SELECT DISTINCT ON (c.key) c.key, c.workspace_id, c.after, c.after_size, c.after_mode
FROM executor.workspaces AS w
JOIN executor.workspace_changes AS c USING (workspace_id)
JOIN executor.workspace_entries AS e USING (call_id)
WHERE w.tenant = :tenant AND w.conversation_id = :conversation_id AND w.state IN ('open', 'committing')
    AND c.pack = :pack AND starts_with(c.key, :prefix) AND e.state IN ('waiting', 'kept')
ORDER BY c.key, c.position DESC, c.ordinal DESC

-- name: find_beneath
-- What the first entries of a job's workspace leave under a key.
SELECT c.workspace_id, c.after, c.after_size, c.after_mode
FROM executor.workspaces AS w JOIN executor.workspace_changes AS c USING (workspace_id)
WHERE w.tenant = :tenant AND w.conversation_id = :conversation_id AND w.state = 'open'
    AND c.pack = :pack AND c.key = :key AND c.position <= :entries
ORDER BY c.position DESC, c.ordinal DESC LIMIT 1

-- name: under_beneath
SELECT DISTINCT ON (c.key) c.key, c.workspace_id, c.after, c.after_size, c.after_mode
FROM executor.workspaces AS w JOIN executor.workspace_changes AS c USING (workspace_id)
WHERE w.tenant = :tenant AND w.conversation_id = :conversation_id AND w.state = 'open'
    AND c.pack = :pack AND starts_with(c.key, :prefix) AND c.position <= :entries
ORDER BY c.key, c.position DESC, c.ordinal DESC

-- name: content
SELECT b.content FROM executor.workspace_blobs AS b JOIN executor.workspaces AS w USING (workspace_id)
WHERE b.workspace_id = :workspace_id AND b.digest = :digest AND w.tenant = :tenant

-- name: keep_content
INSERT INTO executor.workspace_blobs (workspace_id, digest, content) VALUES (:workspace_id, :digest, :content)
ON CONFLICT DO NOTHING RETURNING digest

-- name: add_entry
INSERT INTO executor.workspace_entries (
    call_id, workspace_id, position, tool, pool, kind, digest, keys, summary, decide, on_failure, state, staged_at
)
VALUES (
    :call_id, :workspace_id, :position, :tool, :pool, :kind, :digest, :keys::text[], :summary, :decide, :on_failure,
    'waiting', clock_timestamp()
)

-- name: add_change
INSERT INTO executor.workspace_changes (
    call_id, ordinal, workspace_id, position, pack, key, base, base_size, base_mode, after, after_size, after_mode,
    summary, diff, cut, opaque, added, removed
)
VALUES (
    :call_id, :ordinal, :workspace_id, :position, :pack, :key, :base, :base_size, :base_mode, :after, :after_size,
    :after_mode, :summary, :diff, :cut, :opaque, :added, :removed
)

-- name: grow
UPDATE executor.workspaces
SET entries = entries + 1, bytes = bytes + :bytes, pool = coalesce(pool, :pool),
    expires_at = least(
        greatest(expires_at, clock_timestamp() + :expires_after::interval), opened_at + :age_max::interval
    )
WHERE workspace_id = :workspace_id RETURNING entries, bytes

-- name: newest
-- The newest workspace of a conversation, locked.
SELECT *, (state = 'open' AND expires_at <= clock_timestamp()) AS overdue FROM executor.workspaces
WHERE tenant = :tenant AND conversation_id = :conversation_id ORDER BY number DESC LIMIT 1 FOR UPDATE

-- name: conflicting
-- Keys under which another workspace leaves something else than the changes of one were made from.
SELECT f.pack || ':' || f.key AS key
FROM (
    SELECT DISTINCT ON (pack, key) pack, key, base, base_mode FROM executor.workspace_changes
    WHERE workspace_id = :workspace_id ORDER BY pack, key, position, ordinal
) AS f
CROSS JOIN LATERAL (
    SELECT after, after_mode FROM executor.workspace_changes AS c
    WHERE c.workspace_id = :into AND c.pack = f.pack AND c.key = f.key ORDER BY position DESC, ordinal DESC LIMIT 1
) AS l
WHERE f.base IS DISTINCT FROM l.after OR (f.base IS NOT NULL AND f.base_mode IS DISTINCT FROM l.after_mode)
ORDER BY 1

-- name: move_entries
UPDATE executor.workspace_entries SET workspace_id = :into, position = position + :behind
WHERE workspace_id = :workspace_id AND state = 'waiting' RETURNING call_id, digest, position, tool, summary

-- name: move_changes
UPDATE executor.workspace_changes SET workspace_id = :into, position = position + :behind
WHERE workspace_id = :workspace_id

-- name: move_contents
UPDATE executor.workspace_blobs AS b SET workspace_id = :into
WHERE b.workspace_id = :workspace_id AND NOT EXISTS (
    SELECT FROM executor.workspace_blobs AS t WHERE t.workspace_id = :into AND t.digest = b.digest
)
RETURNING length(b.content) AS size

-- name: grow_by
UPDATE executor.workspaces
SET entries = entries + :entries, bytes = bytes + :bytes, pool = coalesce(pool, :pool),
    expires_at = least(greatest(expires_at, :expires_at::timestamptz), opened_at + :age_max::interval)
WHERE workspace_id = :workspace_id RETURNING entries

-- name: entries
SELECT call_id, position, tool, kind, digest, keys, summary, on_failure, state, data, error, ui_blocks, handover
FROM executor.workspace_entries WHERE workspace_id = :workspace_id ORDER BY position

-- name: committed_entries
SELECT call_id, position, tool, kind, digest, keys, summary, on_failure, state, data, error, ui_blocks, handover
FROM executor.workspace_entries WHERE workspace_id = :workspace_id AND commit_call_id = :commit_call_id
ORDER BY position

-- name: steps
SELECT c.call_id, c.pack, c.key, c.base, c.base_mode, c.after, coalesce(c.after_size, 0) AS after_size, c.after_mode
FROM executor.workspace_changes AS c JOIN executor.workspace_entries AS e USING (call_id)
WHERE c.workspace_id = :workspace_id AND e.commit_call_id = :commit_call_id AND e.state = 'kept'
ORDER BY c.position, c.ordinal

-- name: begin_commit
UPDATE executor.workspaces SET state = :state, commit_call_id = :commit_call_id, journal = 'none', journal_fence = NULL
WHERE workspace_id = :workspace_id AND state = 'open' RETURNING workspace_id

-- name: mark_entries
UPDATE executor.workspace_entries AS e
SET state = given.state, commit_call_id = :commit_call_id, error = given.error,
    ended_at = CASE WHEN given.state = 'kept' THEN NULL ELSE clock_timestamp() END
FROM unnest(:call_ids::text[], :states::text[], :errors::text[]) AS given (call_id, state, error)
WHERE e.call_id = given.call_id AND e.workspace_id = :workspace_id

-- name: journal
-- Only for the newest attempt of the commit: a worker that was thought dead writes nothing here any more.
UPDATE executor.workspaces AS w
SET journal = :journal::text, scopes = :scopes::text[],
    journal_fence = CASE :journal::text WHEN 'applying' THEN coalesce(journal_fence, :fence::integer)
        WHEN 'applied' THEN journal_fence END
FROM executor.executions AS x
WHERE w.workspace_id = :workspace_id AND w.commit_call_id = :commit_call_id AND w.state = 'committing'
    AND x.call_id = w.commit_call_id AND x.fence = :fence::integer AND x.state = 'running'
RETURNING w.workspace_id

-- name: half_made
-- Commits whose changes are being made, or were when their worker died, in one of these scopes.
SELECT workspace_id FROM executor.workspaces
WHERE journal = 'applying' AND scopes && :scopes::text[] AND workspace_id <> :workspace_id LIMIT 1

-- name: keys_of
SELECT DISTINCT pack, key FROM executor.workspace_changes WHERE workspace_id = ANY(:workspace_ids::text[])

-- name: await_calls
UPDATE executor.executions SET state = :state, lease_until = NULL
WHERE call_id = :call_id AND fence = :fence AND state = 'running' RETURNING call_id

-- name: end_commit
UPDATE executor.executions
SET state = :state, error = :error, finished_at = clock_timestamp(), lease_until = NULL
WHERE call_id = :call_id AND state IN ('running', 'committing') RETURNING *

-- name: end_workspace
UPDATE executor.workspaces
SET state = :state::text, ended_at = CASE WHEN :state::text = 'open' THEN NULL ELSE clock_timestamp() END,
    ended_by = :by, reason = :reason
WHERE workspace_id = :workspace_id AND state = :from_state RETURNING workspace_id

-- name: any_waiting
SELECT EXISTS (
    SELECT FROM executor.workspace_entries WHERE workspace_id = :workspace_id AND state = 'waiting'
) AS waiting

-- name: forget_contents
DELETE FROM executor.workspace_blobs WHERE workspace_id = :workspace_id

-- name: discard_named
UPDATE executor.workspace_entries AS e SET state = 'discarded', error = given.error, ended_at = clock_timestamp()
FROM unnest(:call_ids::text[], :errors::text[]) AS given (call_id, error)
WHERE e.call_id = given.call_id AND e.workspace_id = :workspace_id AND e.state = 'waiting'

-- name: discard_entries
UPDATE executor.workspace_entries SET state = 'discarded', ended_at = clock_timestamp()
WHERE workspace_id = :workspace_id AND state = 'waiting'

-- name: lock_turn
-- The workspace first: whoever moves its plan on holds it.
SELECT w.* FROM executor.workspaces AS w WHERE w.workspace_id = :workspace_id AND w.tenant = :tenant FOR UPDATE

-- name: turn
SELECT e.state AS entry_state, e.permit AS kept_permit, e.workspace_id, x.*
FROM executor.workspace_entries AS e JOIN executor.executions AS x USING (call_id)
WHERE e.call_id = :call_id AND e.workspace_id = :workspace_id AND e.kind = 'call'

-- name: next_call
SELECT e.call_id, e.pool, e.permit, x.cause, x.tenant, x.conversation_id
FROM executor.workspace_entries AS e JOIN executor.executions AS x USING (call_id)
WHERE e.workspace_id = :workspace_id AND e.commit_call_id = :commit_call_id AND e.kind = 'call' AND e.state = 'kept'
ORDER BY e.position LIMIT 1

-- name: keep_permit
UPDATE executor.workspace_entries SET permit = :permit, on_failure = :on_failure WHERE call_id = :call_id

-- name: release
UPDATE executor.executions
SET state = :state, mode = 'staged_call', permit = :permit, permit_id = :permit_id, permit_issuer = :permit_issuer,
    permit_expires_at = :permit_expires_at, fence = fence + 1, worker = :worker, begun_at = clock_timestamp(),
    idempotent = :idempotent, lease_until = clock_timestamp() + :lease::interval, finished_at = NULL
WHERE call_id = :call_id AND state = 'staged' RETURNING *

-- name: end_call
UPDATE executor.executions
SET state = :state, error = :error, finished_at = clock_timestamp(), lease_until = NULL
WHERE call_id = :call_id AND fence = :fence AND state IN ('running', 'verifying') RETURNING *

-- name: end_entry
UPDATE executor.workspace_entries
SET state = :state, data = :data::jsonb, ui_blocks = :ui_blocks::jsonb, handover = :handover, error = :error,
    ended_at = clock_timestamp()
WHERE call_id = :call_id AND state = 'kept' RETURNING workspace_id, on_failure

-- name: workspace_of
SELECT workspace_id FROM executor.workspace_entries WHERE call_id = :call_id

-- name: refuse_rest
-- Of those that have not begun: after a restore others beside this one may have run.
UPDATE executor.workspace_entries AS e SET state = 'refused', error = :error, ended_at = clock_timestamp()
WHERE workspace_id = :workspace_id AND commit_call_id = :commit_call_id AND state = 'kept' AND kind = 'call'
    AND EXISTS (SELECT FROM executor.executions AS x WHERE x.call_id = e.call_id AND x.state = 'staged')

-- name: lost_commit
SELECT call_id FROM executor.executions
WHERE state = 'running' AND mode = 'commit' AND pool = ANY (:pools::text[]) AND lease_until <= now()
ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: overdue
SELECT workspace_id, tenant FROM executor.workspaces
WHERE state = 'open' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT :most FOR UPDATE SKIP LOCKED

-- name: stuck
-- Staged calls whose turn it has been for long, and whose permit came to nobody: it is lost, or a dead letter.
SELECT e.call_id, w.tenant, e.workspace_id
FROM executor.workspaces AS w
JOIN executor.executions AS c ON c.call_id = w.commit_call_id AND c.state = 'committing'
CROSS JOIN LATERAL (
    SELECT call_id, workspace_id FROM executor.workspace_entries
    WHERE workspace_id = w.workspace_id AND commit_call_id = w.commit_call_id AND kind = 'call' AND state = 'kept'
    ORDER BY position LIMIT 1
) AS e
JOIN executor.executions AS x ON x.call_id = e.call_id AND x.state = 'staged'
WHERE w.state = 'committing' AND clock_timestamp() - :patience::interval > greatest(c.begun_at, (
    SELECT max(ended_at) FROM executor.workspace_entries
    WHERE workspace_id = w.workspace_id AND commit_call_id = w.commit_call_id
))
LIMIT 1

-- name: purge
DELETE FROM executor.workspaces WHERE workspace_id IN (
    SELECT workspace_id FROM executor.workspaces
    WHERE ended_at < clock_timestamp() - :keep::interval ORDER BY ended_at LIMIT :most FOR UPDATE SKIP LOCKED
)
RETURNING workspace_id

-- name: scope
SELECT pg_advisory_xact_lock(hashtextextended(:scope, 0))

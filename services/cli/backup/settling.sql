-- What a restore does to a restored database, before any service sees it. Times are the database's.

-- name: of_a_revision
CREATE TABLE IF NOT EXISTS public.alembic_version (version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)

-- name: no_revision
DELETE FROM public.alembic_version

-- name: revision
INSERT INTO public.alembic_version (version_num) VALUES (%(revision)s)

-- name: newest_moment
-- The newest moment that the rows know of: what they do not know happened after the backup.
SELECT greatest(
    (SELECT max(at) FROM agent.history), (SELECT max(at) FROM approval.history), (SELECT max(at) FROM executor.history),
    (SELECT max(at) FROM gateway.history), (SELECT max(at) FROM jobs.history), (SELECT max(at) FROM policy.history),
    (SELECT max(at) FROM agent.log), (SELECT max(created_at) FROM gateway.conversations),
    (SELECT max(restored_at) FROM gateway.restores), to_timestamp(0)
)

-- name: restored
INSERT INTO gateway.restores (restored_at, backup_at) VALUES (%(restored_at)s, %(backup_at)s)

-- name: ask_anew
-- Whoever voted did not know that the call may run twice: of several who must agree, all are asked, and know it.
WITH anew AS (
    UPDATE approval.approvals
    SET voters = '{}', seats = NULL, closed_to = closed_to - ARRAY(SELECT jsonb_object_keys(voters))
    WHERE state = 'pending' AND voters <> '{}'
    RETURNING tenant, approval_id
)
UPDATE approval.decisions AS d SET arguments_revision = 0
FROM anew WHERE d.tenant = anew.tenant AND d.approval_id = anew.approval_id AND d.arguments_revision IS NOT NULL

-- name: lose
-- What was under way has lost its worker, and no permit lets it begin again: executors end it, by its probe if it has one.
UPDATE executor.executions
SET permit_expires_at = greatest(least(permit_expires_at, %(restored_at)s), begun_at + interval '1 microsecond'),
    lease_until = %(restored_at)s
WHERE state IN ('running', 'verifying') AND mode IS DISTINCT FROM 'commit'

-- name: unfinished
-- Calls without an answer that nobody is asked about, that no executor ends, and whose answer is not on its way.
SELECT c.call_id, c.tenant, c.conversation_id, c.turn_id, c.message_id, c.step, c.position, c.tool,
    t.author ->> 'id' AS requester, t.cause, n.agent, n.language, n.labels, v.effect, v.schema_digest, v.judged_at,
    coalesce(a.arguments, c.arguments) AS arguments, coalesce(a.digest, c.digest) AS digest,
    CASE WHEN a.call_id IS NULL THEN c.shown_arguments ELSE coalesce(a.shown_arguments, a.arguments) END
        AS shown_arguments,
    a.state AS approval, a.closed_at, e.state AS execution, e.fence, e.begun_at, e.finished_at, e.error,
    -- The house's own calls have none, unless they are commits that were decided.
    c.tool NOT IN ('accomplish', 'final_answer', 'commit_changes', 'propose_changes') OR a.pool IS NOT NULL
        AS has_executions,
    (SELECT to_jsonb(w) FROM executor.workspace_entries AS w WHERE w.call_id = c.call_id) AS entry,
    coalesce(
        a.pool,
        (SELECT x.pool FROM executor.executions AS x WHERE x.tool = c.tool ORDER BY x.begun_at DESC LIMIT 1)
    ) AS pool
FROM agent.tool_calls AS c
JOIN agent.turns AS t USING (turn_id)
JOIN agent.conversations AS n ON n.conversation_id = c.conversation_id
LEFT JOIN policy.verdicts AS v USING (call_id)
LEFT JOIN approval.approvals AS a USING (call_id)
LEFT JOIN executor.executions AS e USING (call_id)
WHERE c.state <> 'answered' AND a.state IS DISTINCT FROM 'pending'
    AND coalesce(e.state, '') NOT IN ('running', 'verifying', 'committing')
    AND NOT EXISTS (
        SELECT FROM (
            SELECT events FROM executor.outbox UNION ALL SELECT events FROM policy.outbox
            UNION ALL SELECT events FROM approval.outbox UNION ALL SELECT events FROM jobs.outbox
        ) AS box CROSS JOIN LATERAL unnest(box.events) AS event
        WHERE CAST(event AS json) ->> 'type' IN ('placet.tool-call.finished.v1', 'placet.tool-call.refused.v1')
            AND CAST(event AS json) -> 'data' ->> 'call_id' = c.call_id
    )

-- name: doubt
-- A call that was permitted and that no executor had taken: nobody holds its attempt.
INSERT INTO executor.executions (
    call_id, tenant, conversation_id, tool, schema_digest, pool, idempotent, state, fence, worker, lease_until,
    permit_id, permit_issuer, permit_expires_at, permit, call, cause, mode, begun_at, finished_at, error
)
VALUES (
    %(call_id)s, %(tenant)s, %(conversation_id)s, %(tool)s, %(schema_digest)s, %(pool)s, false, %(state)s, %(fence)s,
    'restore', %(lease_until)s, %(permit_id)s, %(issuer)s, %(restored_at)s, '', %(call)s, %(cause)s, %(mode)s,
    %(begun_at)s, %(finished_at)s, %(error)s
)

-- name: note
INSERT INTO executor.history (tenant, machine, subject_id, event, from_state, to_state, actor, call_id, detail)
VALUES
    (
        %(tenant)s, 'execution', %(call_id)s, 'claimed', NULL, 'running', 'restore', %(call_id)s,
        jsonb_build_object('fence', 1, 'permit_id', %(permit_id)s::text, 'pool', %(pool)s::text)
    ),
    (
        %(tenant)s, 'execution', %(call_id)s, %(event)s, 'running', %(state)s, 'restore', %(call_id)s,
        jsonb_build_object('fence', %(fence)s::int)
    )

-- name: doubt_staged
-- Calls of a commit that people let through and that had not begun, one behind the other: any may have run since, and
-- under which permit is not known.
WITH behind AS (
    SELECT e.call_id
    FROM executor.workspaces AS w JOIN executor.workspace_entries AS e USING (workspace_id, commit_call_id)
    WHERE w.state = 'committing' AND e.kind = 'call' AND e.state = 'kept'
), doubted AS (
    UPDATE executor.executions AS x
    SET state = 'running', mode = 'staged_call', fence = fence + 1, worker = 'restore', lease_until = %(restored_at)s,
        permit = '', finished_at = NULL, idempotent = false
    FROM behind WHERE x.call_id = behind.call_id AND x.state = 'staged' RETURNING x.*
)
INSERT INTO executor.history (tenant, machine, subject_id, event, from_state, to_state, actor, call_id, detail)
SELECT tenant, 'execution', call_id, 'released', 'staged', 'running', 'restore', call_id,
    jsonb_build_object('fence', fence, 'permit_id', permit_id, 'pool', pool)
FROM doubted

-- name: tell_cards
-- Cards of what waits say that it may have run since, and whom they ask anew; those in Slack at once, where they stand.
UPDATE notifier.deliveries SET card = card || jsonb_build_object(
    'restored', (extract(epoch FROM %(restored_at)s::timestamptz) * 1000000)::bigint, 'votes', '[]'::jsonb
) WHERE pending

-- name: show_cards
WITH due AS (
    UPDATE notifier.deliveries
    SET state = 'due', version = version + 1, due_at = %(restored_at)s, attempt = 0, error = ''
    WHERE pending AND state = 'sent' AND split_part(channel, ':', 1) = 'slack'
    RETURNING *
)
INSERT INTO notifier.history (tenant, machine, subject_id, event, from_state, to_state, actor, call_id, detail)
SELECT tenant, 'delivery', delivery_id, 'revised', 'sent', 'due', 'restore', call_id,
    jsonb_build_object('approval_id', approval_id, 'channel', channel, 'revision', revision)
FROM due

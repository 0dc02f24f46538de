-- What the gateway reads of jobs.

-- The constant is `placet.gateway.store.paging.ROWS_MAX`.
-- name: list_jobs
SELECT * FROM (
    SELECT job_id, agent, author, state, spec ->> 'task' AS task, tasks, decided, running, attempts, flagged, tokens,
        cost, unpriced, reason, changes, entries, created_at, ended_at
    FROM read.jobs
    WHERE tenant = :tenant AND (:author::text IS NULL OR author = :author) AND (:state::text IS NULL OR state = :state)
        AND (:after_at::timestamptz IS NULL OR (created_at, job_id) < (:after_at, :after_id::text))
    ORDER BY created_at DESC, job_id DESC
    LIMIT 201
) AS newest
ORDER BY created_at DESC, job_id DESC LIMIT :most

-- name: find_job
SELECT job_id, agent, author, state, spec, spec ->> 'task' AS task, tasks, decided, active, running,
    attempts, flagged, agreed, "cast", tokens, cost, unpriced, reason, result, changes, entries,
    log_seq, created_at, ended_at
FROM read.jobs
WHERE tenant = :tenant AND job_id = :job_id

-- name: tasks_of
SELECT number, task_id, text, state, needs, produces, group_number, k, votes, drawn, drawn_before, running,
    answer, reason
FROM read.job_tasks
WHERE tenant = :tenant AND job_id = :job_id
ORDER BY number

-- name: attempts_of
SELECT attempt_id, number, attempt, conversation_id, state, vote_key, answer, flags, reason, input_tokens,
    output_tokens, cost, calls, asked_again, begun_at, ended_at
FROM read.job_attempts
WHERE tenant = :tenant AND job_id = :job_id
ORDER BY number, attempt

-- name: open_cards
-- Those of jobs that calls in there wait for too, at any depth: they surface in the logs (see `surfaced_in`).
WITH shown AS (
    SELECT conversation_id, approval_id FROM read.approvals
    WHERE tenant = :tenant AND state = 'pending' AND conversation_id = ANY (:conversation_ids::text[])
    UNION
    SELECT a.conversation_id, a.data ->> 'approval_id'
    FROM read.log a
    JOIN read.log c USING (tenant, conversation_id)
    WHERE a.tenant = :tenant AND a.conversation_id = ANY (:conversation_ids::text[]) AND a.type = 'approval'
        AND c.type = 'tool_call' AND c.data ->> 'caller' IS NOT NULL AND c.data ->> 'call_id' = a.data ->> 'call_id'
)
SELECT s.conversation_id, a.approval_id
FROM shown s JOIN read.approvals a ON a.tenant = :tenant AND a.approval_id = s.approval_id
WHERE a.state = 'pending'
ORDER BY a.created_at, a.approval_id

-- name: read_log
SELECT seq, type, at, data
FROM read.job_log
WHERE tenant = :tenant AND job_id = :job_id AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: conversation_of
SELECT conversation_id
FROM read.job_attempts
WHERE tenant = :tenant AND job_id = :job_id AND attempt_id = :attempt_id

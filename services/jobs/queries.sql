-- Statements of the jobs service. Whatever changes a job locks its row first.

-- name: add_job
INSERT INTO jobs.jobs (
    job_id, tenant, agent, author, spec, state, tasks, decided, active, attempts, running, flagged, agreed, "cast", tokens,
    cost, cost_most, unpriced, starved, staged, entries, changes, conflicted, log_seq, reason
)
VALUES (
    :job_id::text, :tenant::text, :agent, :author, :spec::jsonb, 'dividing', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, false,
    false, 0, '', 0, 0, ''
)
ON CONFLICT DO NOTHING
RETURNING job_id

-- name: stopped
-- Whether an administrator stopped what a new job is: of its agent, its tenant or all, or the tool that asks for it.
SELECT FROM read.stops
WHERE coalesce(tenant = :tenant, true) AND coalesce(agent = :agent, true) AND coalesce(tool = :tool, true)
LIMIT 1

-- name: lock_job
SELECT job_id, spec::text AS spec, state, tasks, decided, active, attempts, running, flagged, agreed, "cast", tokens,
    cost, cost_most, unpriced, starved, staged, workspace, entries, changes, result::text AS result, conflicted,
    retried, silent_since, log_seq, reason, created_at
FROM jobs.jobs
WHERE job_id = :job_id::text AND tenant = :tenant::text
FOR NO KEY UPDATE

-- name: is_there
SELECT job_id FROM jobs.jobs WHERE job_id = :job_id::text

-- name: load_task
-- A task with the answers that it needs.
SELECT t.number, t.task_id, t.text, t.state, t.needs, t.produces, t.group_number, t.open_needs, t.k, t.votes::text AS votes,
    t.drawn, t.running, t.winner, t.base, t.behind, t.entries::text AS entries, t.drawn_before, t.conflicts,
    t.thrown_out::text AS thrown_out, t.reason, (
        SELECT jsonb_object_agg(n.task_id, n.answer)::text
        FROM jobs.tasks n WHERE n.job_id = t.job_id AND n.task_id = ANY (t.needs)
    ) AS inputs
FROM jobs.tasks t
WHERE t.job_id = :job_id::text AND t.number = :number

-- name: load_attempt
SELECT attempt_id, number, attempt, conversation_id, state, vote_key, tree_digest, staged, flags, reason, input_tokens,
    output_tokens, cost, calls, asked_again, begins_at
FROM jobs.attempts
WHERE attempt_id = :attempt_id::text AND job_id = :job_id::text

-- name: unblock
-- Tell what needs a task that it is decided; return what needs nothing more.
WITH told AS (
    UPDATE jobs.tasks
    SET open_needs = open_needs - 1, state = CASE WHEN open_needs = 1 THEN 'ready' ELSE state END
    WHERE job_id = :job_id::text AND state = 'blocked' AND needs @> ARRAY[:task_id::text]
    RETURNING number, task_id, open_needs
)
SELECT number, task_id FROM told WHERE open_needs = 0 ORDER BY number

-- name: startable
-- Tasks that may begin, those first whose winner conflicted, and where the budget had no room, tasks that wait for it.
SELECT number
FROM jobs.tasks
WHERE job_id = :job_id::text AND (state = 'ready' OR (:starved::bool AND state = 'running' AND running = 0))
ORDER BY state DESC, drawn_before = 0, number
LIMIT :places

-- name: tried_anew
SELECT count(*) FROM jobs.tasks
WHERE job_id = :job_id::text AND state IN ('running', 'merging') AND drawn_before > 0

-- name: open_tasks
SELECT number, task_id, text, state, needs, produces, group_number, open_needs, k, votes::text AS votes, drawn, running,
    winner, base, behind, entries::text AS entries, drawn_before, conflicts, thrown_out::text AS thrown_out, reason,
    NULL AS inputs
FROM jobs.tasks
WHERE job_id = :job_id::text AND state IN ('blocked', 'ready', 'running', 'merging')
ORDER BY number

-- name: running_attempts
SELECT attempt_id, number, attempt, conversation_id, state, vote_key, tree_digest, staged, flags, reason, input_tokens,
    output_tokens, cost, calls, asked_again, begins_at
FROM jobs.attempts
WHERE job_id = :job_id::text AND state = 'running'
ORDER BY number, attempt

-- name: answers
SELECT task_id, text, needs, produces, answer::text AS answer
FROM jobs.tasks
WHERE job_id = :job_id::text AND number > 0
ORDER BY number

-- name: entries
-- What the winners of a job left staged, in the order in which it was moved.
SELECT entries::text AS entries FROM jobs.tasks
WHERE job_id = :job_id::text AND behind IS NOT NULL
ORDER BY behind

-- name: losers
SELECT a.conversation_id
FROM jobs.attempts a JOIN jobs.tasks t USING (job_id, number)
WHERE a.job_id = :job_id AND (:number::int IS NULL OR a.number = :number) AND a.staged > 0
    AND a.state IN ('voted', 'conflicted', 'flagged') AND t.winner IS DISTINCT FROM a.attempt_id
ORDER BY a.attempt_id

-- name: live_before
SELECT tenant, job_id FROM jobs.jobs WHERE ended_at IS NULL AND created_at <= :moment

-- name: due_attempts
SELECT attempt_id, job_id, number,
    (SELECT tenant FROM jobs.jobs j WHERE j.job_id = a.job_id) AS tenant
FROM jobs.attempts a
WHERE begins_at <= clock_timestamp()
ORDER BY begins_at
LIMIT :limit

-- name: held_retries
-- Attempts in which people are asked, at the one task of its job beside which nothing begins.
SELECT DISTINCT ON (a.job_id) a.attempt_id, a.job_id, a.number, j.tenant
FROM jobs.jobs j
JOIN jobs.attempts a ON a.job_id = j.job_id AND a.number = j.retried AND a.state = 'running'
JOIN read.card_times c ON c.tenant = j.tenant AND c.conversation_id = a.conversation_id AND c.closed_at IS NULL
WHERE j.retried IS NOT NULL AND j.ended_at IS NULL
ORDER BY a.job_id
LIMIT :limit

-- name: untaken_attempts
-- Attempts that no agent has taken for a while, and of which nobody was told.
SELECT a.attempt_id, a.job_id, a.number, j.tenant
FROM jobs.attempts a JOIN jobs.jobs j USING (job_id)
WHERE a.state = 'running' AND a.begins_at IS NULL AND a.reason = ''
    AND a.begun_at < clock_timestamp() - make_interval(secs => :seconds) AND NOT EXISTS (
        SELECT FROM read.taken_conversations c WHERE c.tenant = j.tenant AND c.conversation_id = a.conversation_id
    )
ORDER BY a.begun_at
LIMIT :limit

-- name: lost_attempts
-- While people are asked in an attempt, or in a job that it has done, its time stands still; it begins anew when they are
-- not asked any more. The card about what a job changes stands in no attempt, so of that its state tells.
WITH RECURSIVE late AS (
    SELECT a.attempt_id, a.job_id, a.number, a.deadline, a.conversation_id, j.tenant,
        make_interval(secs => (j.spec -> 'plan' ->> 'attempt_seconds')::float) AS lease
    FROM jobs.attempts a JOIN jobs.jobs j USING (job_id)
    WHERE a.state = 'running' AND a.deadline < clock_timestamp() AND a.begins_at IS NULL
),
inside AS (
    SELECT attempt_id, tenant, conversation_id, NULL::varchar AS job_id FROM late
    UNION
    SELECT i.attempt_id, i.tenant, a.conversation_id, j.job_id
    FROM inside i JOIN jobs.jobs j ON j.tenant = i.tenant AND j.spec #>> '{caller,conversation_id}' = i.conversation_id
    LEFT JOIN jobs.attempts a ON a.job_id = j.job_id
)
SELECT attempt_id, job_id, number, tenant
FROM late l
WHERE NOT EXISTS (
    SELECT FROM inside i
    LEFT JOIN read.card_times c ON c.tenant = i.tenant AND c.conversation_id = i.conversation_id
    LEFT JOIN jobs.jobs j ON j.job_id = i.job_id AND j.workspace IS NOT NULL
    WHERE i.attempt_id = l.attempt_id AND (
        (c.conversation_id IS NOT NULL AND c.closed_at IS NULL)
        OR j.state IN ('waiting', 'withdrawing')
        OR GREATEST(c.closed_at, j.ended_at) + l.lease > clock_timestamp()
    )
)
ORDER BY deadline
LIMIT :limit

-- name: write
-- Store what became of a locked job.
WITH job AS (
    UPDATE jobs.jobs
    SET state = :state::text, tasks = :tasks, decided = :decided, active = :active, attempts = :attempts, running = :running,
        flagged = :flagged, agreed = :agreed, "cast" = :cast, tokens = :tokens, cost = :cost, cost_most = :cost_most,
        unpriced = :unpriced, starved = :starved, staged = :staged, workspace = :workspace::text,
        entries = :entries, changes = :changes::text, conflicted = :conflicted, retried = :retried::int,
        silent_since = :silent_since::timestamptz, log_seq = :log_seq, reason = :reason::text,
        result = COALESCE(:result::jsonb, result),
        ended_at = CASE WHEN :ended::bool THEN COALESCE(ended_at, clock_timestamp()) END
    WHERE job_id = :job_id::text
),
new_tasks AS (
    INSERT INTO jobs.tasks
        (job_id, number, task_id, text, state, needs, produces, group_number, open_needs, k, votes, drawn, running, reason,
         drawn_before, conflicts, thrown_out, base, entries)
    SELECT :job_id::text, number, task_id, text, state, needs, produces, group_number, open_needs, k, votes, drawn, running,
        reason, 0, 0, '{}', 0, '[]'
    FROM jsonb_to_recordset(:new_tasks::jsonb) AS b (
        number int, task_id text, text text, state text, needs text[], produces text[], group_number int, open_needs int,
        k int, votes jsonb, drawn int, running int, reason text
    )
),
tasks AS (
    UPDATE jobs.tasks t
    SET state = b.state, k = b.k, votes = b.votes, drawn = b.drawn, running = b.running, reason = b.reason,
        answer = COALESCE(b.answer, t.answer), winner = b.winner, drawn_before = b.drawn_before, conflicts = b.conflicts,
        thrown_out = b.thrown_out, base = b.base, behind = b.behind, entries = b.entries
    FROM jsonb_to_recordset(:tasks_now::jsonb) AS b (
        number int, state text, k int, votes jsonb, drawn int, running int, reason text, answer jsonb, winner text,
        drawn_before int, conflicts int, thrown_out jsonb, base int, behind int, entries jsonb
    )
    WHERE t.job_id = :job_id::text AND t.number = b.number
),
new_attempts AS (
    INSERT INTO jobs.attempts (
        attempt_id, job_id, number, attempt, conversation_id, state, begins_at, flags, deadline, reason, input_tokens,
        output_tokens, calls, asked_again, staged
    )
    SELECT attempt_id, :job_id::text, number, attempt, conversation_id, state, begins_at, '{}',
        clock_timestamp() + :lease::interval, '', 0, 0, 0, 0, 0
    FROM jsonb_to_recordset(:new_attempts::jsonb)
        AS b (attempt_id text, number int, attempt int, conversation_id text, state text, begins_at timestamptz)
),
attempts AS (
    UPDATE jobs.attempts a
    SET state = b.state, vote_key = b.vote_key, answer = COALESCE(b.answer, a.answer), tree_digest = b.tree_digest,
        staged = b.staged, flags = b.flags, reason = b.reason, input_tokens = b.input_tokens, output_tokens = b.output_tokens, cost = b.cost,
        calls = b.calls, asked_again = b.asked_again, begins_at = b.begins_at,
        deadline = CASE WHEN a.begins_at IS NULL THEN a.deadline ELSE clock_timestamp() + :lease::interval END,
        begun_at = CASE WHEN a.begins_at IS NULL THEN a.begun_at ELSE clock_timestamp() END,
        ended_at = CASE WHEN b.state <> 'running' THEN COALESCE(a.ended_at, clock_timestamp()) END
    FROM jsonb_to_recordset(:attempts_now::jsonb) AS b (
        attempt_id text, state text, vote_key text, answer jsonb, tree_digest text, staged int, flags text[], reason text,
        input_tokens int, output_tokens int, cost float, calls int, asked_again int, begins_at timestamptz
    )
    WHERE a.attempt_id = b.attempt_id
)
INSERT INTO jobs.log (job_id, seq, tenant, type, data)
SELECT :job_id::text, b.seq, :tenant::text, b.type, b.data
FROM jsonb_to_recordset(:log::jsonb) AS b (seq int, type text, data jsonb)

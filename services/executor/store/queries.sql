-- Effects (lists of CTEs that end in `effect`) are for `Work.execute_once`; all else runs as it is.
-- Times are the database's clock, never a worker's.

-- name: claim
-- Rows of calls that nobody took, in the order of their answers and ids: two executors with the same calls cannot lock
-- each other out. Left without a row is, too, what comes after a call of the same answer that was approved, and what
-- would run beside one, which the unique key of answers tells whoever is faster.
wanted AS (
    SELECT * FROM unnest(
        :keys::text[], :call_ids::text[], :tenants::text[], :conversation_ids::text[], :tools::text[],
        :schema_digests::text[], :idempotents::boolean[], :permit_ids::text[], :permit_issuers::text[],
        :permit_ends::timestamptz[], :permits::text[], :calls::text[], :causes::jsonb[], :states::text[],
        :errors::text[], :modes::text[], :plans::text[], :api_keys::text[], :agents::text[], :answers::text[],
        :earlier::text[]
    ) AS given (
        key, call_id, tenant, conversation_id, tool, schema_digest, idempotent, permit_id, permit_issuer,
        permit_expires_at, permit, call, cause, state, error, mode, plan, api_keys, agent, answer, earlier
    )
), taken AS (
    INSERT INTO executor.executions (
        call_id, tenant, conversation_id, tool, schema_digest, pool, idempotent, state, fence, worker, lease_until,
        permit_id, permit_issuer, permit_expires_at, answer_id, permit, call, cause, begun_at, finished_at, error,
        mode, plan
    )
    SELECT call_id, tenant, conversation_id, tool, schema_digest, :pool, idempotent, state, (state = 'running')::int,
        :worker, CASE state WHEN 'running' THEN clock_timestamp() + :lease::interval END, permit_id, permit_issuer,
        permit_expires_at, answer, permit, call, cause, CASE state WHEN 'running' THEN :begun_at::timestamptz END,
        CASE state WHEN 'running' THEN NULL ELSE clock_timestamp() END, error, mode, plan
    FROM wanted WHERE NOT EXISTS (SELECT FROM executor.past_calls AS p WHERE p.call_id = wanted.call_id)
        -- Ids, separated by spaces; each is found by its key, and most calls have none.
        AND NOT (wanted.state = 'running' AND wanted.earlier <> '' AND EXISTS (
            SELECT FROM unnest(string_to_array(wanted.earlier, ' ')) AS e (call_id)
            CROSS JOIN LATERAL (SELECT FROM read.approved_calls AS a WHERE a.call_id = e.call_id LIMIT 1) AS approved
            WHERE coalesce(
                (SELECT x.state IN ('running', 'verifying', 'committing') FROM executor.executions AS x
                 WHERE x.call_id = e.call_id),
                (SELECT false FROM read.answered_calls AS d WHERE d.call_id = e.call_id LIMIT 1),
                true
            )
        ))
    ORDER BY answer, call_id
    ON CONFLICT DO NOTHING RETURNING call_id
), over AS MATERIALIZED (
    -- After every wait for another transaction, also for a row that is not taken then.
    SELECT count(*) AS calls, clock_timestamp() AS at FROM taken
), effect AS (
    SELECT wanted.key, wanted.state = 'running' AND wanted.permit_expires_at <= over.at AS late,
        -- What follows is read as it was at the beginning: whoever hears of it late asks again.
        -- Keys of people whose yes is behind it, separated by spaces; each is found by its id, however many there are.
        wanted.state = 'running' AND wanted.api_keys <> '' AND EXISTS (
            SELECT FROM unnest(string_to_array(wanted.api_keys, ' ')) AS used (key_id)
            CROSS JOIN LATERAL (
                SELECT FROM read.api_keys AS k WHERE k.key_id = used.key_id AND k.revoked_at IS NOT NULL LIMIT 1
            ) AS gone
        ) AS revoked,
        -- Whether an administrator stopped such calls; a commit is stopped with any entry that it names.
        EXISTS (
            SELECT FROM read.stops AS s
            WHERE wanted.state = 'running' AND coalesce(s.tenant = wanted.tenant, true)
                AND coalesce(s.agent = wanted.agent, true) AND (
                    coalesce(s.tool = wanted.tool, true) OR wanted.mode = 'commit' AND EXISTS (
                        SELECT FROM executor.workspaces AS w JOIN executor.workspace_entries AS e USING (workspace_id)
                        WHERE w.tenant = wanted.tenant AND w.conversation_id = wanted.conversation_id
                            AND w.state = 'open' AND e.state = 'waiting' AND e.tool = s.tool
                            AND strpos(wanted.call::json ->> 'arguments', e.call_id) > 0
                    )
                )
        ) AS stopped
    FROM over, wanted JOIN taken USING (call_id)
)

-- name: void
-- The same of one call that was claimed before; `entries` are those of a commit.
SELECT
    EXISTS (
        SELECT FROM read.stops AS s
        WHERE coalesce(s.tenant = :tenant, true) AND coalesce(s.agent = :agent, true)
            AND (coalesce(s.tool = :tool, true) OR s.tool IN (
                SELECT tool FROM executor.workspace_entries WHERE call_id = ANY (:entries::text[])
            ))
    ) AS stopped,
    EXISTS (SELECT FROM read.api_keys WHERE key_id = ANY (:keys::text[]) AND revoked_at IS NOT NULL) AS revoked

-- name: takers
SELECT call_id, '' AS taken_by FROM executor.past_calls WHERE call_id = ANY (:call_ids::text[])
UNION ALL
SELECT call_id, cause ->> 'id' FROM executor.executions WHERE call_id = ANY (:call_ids::text[])

-- name: take_up
-- A call that this very process has claimed at one of these moments, and that nobody has begun.
UPDATE executor.executions SET begun_at = :begun_at, lease_until = clock_timestamp() + :lease::interval
WHERE call_id = :call_id AND worker = :worker AND fence = 1 AND state = 'running'
    AND begun_at = ANY (:moments::timestamptz[])
RETURNING permit_expires_at <= clock_timestamp() AS late

-- name: unstaged
-- Of these calls those that may still be staged: not judged yet, or on their way.
SELECT call_id FROM unnest(:call_ids::text[]) AS call_id
WHERE NOT EXISTS (
    SELECT FROM executor.executions AS e WHERE e.call_id = call_id.call_id AND e.state <> 'running'
) AND NOT EXISTS (
    SELECT FROM read.verdicts AS v WHERE v.call_id = call_id.call_id AND v.effect <> 'stage'
)

-- name: turn_away
UPDATE executor.executions
SET state = :state, error = :error, finished_at = clock_timestamp(), lease_until = NULL, begun_at = NULL, fence = 0
WHERE call_id = :call_id AND fence = :fence AND state = 'running'
RETURNING call_id

-- name: abandon
INSERT INTO executor.executions (
    call_id, tenant, conversation_id, tool, schema_digest, pool, idempotent, state, fence, worker, permit_id,
    permit_issuer, permit_expires_at, permit, call, cause, finished_at, error
)
VALUES (
    :call_id, :tenant, :conversation_id, :tool, :schema_digest, :pool, false, :state, 0, :worker, :permit_id,
    '', clock_timestamp(), '', '{}', :cause, clock_timestamp(), :error
)
ON CONFLICT DO NOTHING RETURNING call_id

-- name: settle
-- Ends those of the attempts that are still the newest of their calls.
ended AS (
    SELECT * FROM unnest(:keys::text[], :call_ids::text[], :fences::integer[], :states::text[], :errors::text[])
        AS given (key, call_id, fence, state, error)
), settled AS (
    UPDATE executor.executions AS e
    SET state = ended.state, error = ended.error, finished_at = :finished_at, lease_until = NULL
    FROM ended
    WHERE e.call_id = ended.call_id AND e.fence = ended.fence AND e.state IN ('running', 'verifying')
    RETURNING ended.key
), effect AS (
    SELECT key FROM settled
)

-- name: let_go
UPDATE executor.executions SET lease_until = clock_timestamp()
WHERE call_id = :call_id AND fence = :fence AND state = 'running' RETURNING call_id

-- name: renew
UPDATE executor.executions SET lease_until = clock_timestamp() + :lease::interval
WHERE call_id = :call_id AND fence = :fence AND state IN ('running', 'verifying') RETURNING call_id

-- name: is_ours
SELECT FROM executor.executions
WHERE call_id = :call_id AND fence = :fence AND state IN ('running', 'verifying')

-- name: standing
-- Locked: what history says of it stays so until that is written.
SELECT state, fence FROM executor.executions WHERE call_id = :call_id FOR UPDATE

-- name: probe
UPDATE executor.executions
SET state = 'verifying', fence = fence + 1, worker = :worker, lease_until = clock_timestamp() + :lease::interval
WHERE call_id = :call_id AND fence = :fence AND state = 'running' RETURNING *

-- name: to_repeat
-- Another attempt may begin, but never after the permit's end, whatever the tool can stand. Staging changes nothing
-- outside, so that any call may be staged again; a commit has a duty of its own. What is in its workspace already is
-- only told, however late.
SELECT * FROM executor.executions
WHERE state IN ('running', 'verifying') AND pool = ANY (:pools::text[]) AND lease_until <= now()
    AND state = 'running' AND (
        (mode IS NOT DISTINCT FROM 'stage' AND EXISTS (
            SELECT FROM executor.workspace_entries AS w WHERE w.call_id = executions.call_id
        ))
        OR (
            idempotent AND fence < :attempts_max AND permit_expires_at > clock_timestamp()
            AND (mode IS NOT DISTINCT FROM 'stage' OR schema_digest = ANY (:repeatable::text[]))
            -- What an administrator stopped waits, until it may run again or its permit ends.
            AND NOT EXISTS (
                SELECT FROM read.stops AS s
                WHERE coalesce(s.tenant = executions.tenant, true) AND coalesce(s.tool = executions.tool, true)
                    AND (s.agent IS NULL OR s.agent = CAST(executions.call AS json) ->> 'agent')
            )
        )
    )
ORDER BY lease_until LIMIT 1 FOR UPDATE OF executions SKIP LOCKED

-- name: to_probe
-- Not before the tool must have ended, wherever it may still run: a worker that was cut off from the database alone is
-- lost too, and a probe that looked before would say of a call under way that it did not run. The newest attempt began
-- at `begun_at` if it is the first, and before its last renewal in any case.
SELECT * FROM executor.executions
WHERE state IN ('running', 'verifying') AND pool = ANY (:pools::text[]) AND lease_until <= now()
    AND state = 'running' AND mode IS DISTINCT FROM 'stage'
    AND NOT (
        idempotent AND fence < :attempts_max AND permit_expires_at > clock_timestamp()
        AND schema_digest = ANY (:repeatable::text[])
    )
    AND EXISTS (
        SELECT FROM unnest(:probed::text[], :timeouts::float8[]) AS probe (digest, seconds)
        WHERE probe.digest = schema_digest AND clock_timestamp() >=
            CASE fence WHEN 1 THEN begun_at ELSE lease_until END + make_interval(secs => probe.seconds)
    )
ORDER BY lease_until LIMIT 1 FOR UPDATE SKIP LOCKED

-- name: never_again
UPDATE executor.executions SET idempotent = false WHERE call_id = :call_id

-- name: begin_again
UPDATE executor.executions AS e
SET state = :state, fence = fence + 1, worker = :worker, lease_until = clock_timestamp() + :lease::interval
WHERE call_id = :call_id RETURNING *

-- name: give_up
-- What nobody will ever know: it cannot be repeated, and its probe is lost or is none. Of what is in its workspace it is
-- known.
WITH due AS (
    SELECT call_id, state AS left_state FROM executor.executions
    WHERE state IN ('running', 'verifying') AND pool = ANY (:pools::text[]) AND lease_until <= now()
        AND mode IS DISTINCT FROM 'commit' AND (
            state = 'verifying' OR NOT (
                idempotent AND fence < :attempts_max AND permit_expires_at > clock_timestamp()
                AND (mode IS NOT DISTINCT FROM 'stage' OR schema_digest = ANY (:repeatable::text[]))
            ) AND NOT (schema_digest = ANY (:probed::text[]) AND mode IS DISTINCT FROM 'stage')
        ) AND NOT (mode IS NOT DISTINCT FROM 'stage' AND EXISTS (
            SELECT FROM executor.workspace_entries AS w WHERE w.call_id = executions.call_id
        ))
    ORDER BY lease_until LIMIT :most FOR UPDATE SKIP LOCKED
)
UPDATE executor.executions AS e
SET state = CASE mode WHEN 'stage' THEN 'failed' ELSE 'unknown' END,
    error = CASE mode WHEN 'stage' THEN :not_staged ELSE :error END, finished_at = clock_timestamp(), lease_until = NULL
FROM due WHERE e.call_id = due.call_id
RETURNING e.*, due.left_state

-- name: resolve
UPDATE executor.executions
SET state = 'resolved', resolution = :said, resolved_by = :by, resolution_note = :note, resolution_signed = :signed,
    resolved_at = clock_timestamp()
WHERE call_id = :call_id AND tenant = :tenant AND state = 'unknown' RETURNING *

-- name: state_of
SELECT state FROM executor.executions WHERE call_id = :call_id AND tenant = :tenant FOR UPDATE

-- name: count_unknown
SELECT pool, count(*) AS calls FROM executor.executions
WHERE state = 'unknown' AND mode IS DISTINCT FROM 'commit' AND pool = ANY (:pools::text[]) GROUP BY pool;

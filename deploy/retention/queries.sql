-- Run by the owner of the schemas. Each batch of conversations goes from all schemas in one transaction, so that no
-- service ever sees a part of one.

-- name: take_turn
-- One purge at a time, until this transaction ends.
SELECT pg_try_advisory_xact_lock(hashtext('placet_purge')) AS taken

-- name: take_erasing_turn
-- One erasure after the other, until this transaction ends: two would wait for what each other has changed.
SELECT pg_advisory_xact_lock(hashtext('placet_erasure'))

-- name: idle
-- Conversations in which nothing has happened for so long and nothing waits.
SELECT c.tenant, c.conversation_id FROM agent.conversations AS c
WHERE c.conversation_id > :after AND (:only::text[] IS NULL OR c.conversation_id = ANY (:only::text[]))
    AND c.turn_id IS NULL AND c.queued = 0 AND (NOT c.held OR c.ended_at IS NOT NULL) AND coalesce(c.staged, 0) = 0
    AND coalesce((
        SELECT l.at FROM agent.log AS l WHERE l.conversation_id = c.conversation_id AND l.seq = c.log_seq
    ), c.created_at) <= clock_timestamp() - :keep::interval
    AND NOT EXISTS (
        SELECT FROM agent.tool_calls AS k LEFT JOIN executor.executions AS e USING (call_id)
        LEFT JOIN approval.approvals AS a USING (call_id)
        WHERE k.conversation_id = c.conversation_id AND (
            k.state <> 'answered' OR a.state = 'pending'
            OR e.state IN ('running', 'verifying', 'committing')
            -- Of a commit it is the calls that nobody knows of, and that people resolve.
            OR (e.state = 'unknown' AND e.mode IS DISTINCT FROM 'commit')
            -- A change that was staged stays so; it may wait in the workspace of another conversation: of a job.
            OR (e.state = 'staged' AND EXISTS (
                SELECT FROM executor.workspace_entries AS x JOIN executor.workspaces AS w USING (workspace_id)
                WHERE x.call_id = k.call_id AND w.state IN ('open', 'committing')
            ))
        )
    )
    AND NOT EXISTS (
        SELECT FROM executor.workspaces AS w
        WHERE w.tenant = c.tenant AND w.conversation_id = c.conversation_id AND w.state IN ('open', 'committing')
    )
ORDER BY c.conversation_id LIMIT :most FOR UPDATE OF c SKIP LOCKED

-- name: calls_of
SELECT call_id FROM agent.tool_calls WHERE tenant = :tenant AND conversation_id = ANY (:ids::text[])

-- name: approvals_of
SELECT approval_id FROM approval.approvals WHERE call_id = ANY (:calls::text[])

-- name: keep_past
-- Calls that ended within a day, the longest life of a permit: whoever kept one must not use it once its call is gone.
INSERT INTO executor.past_calls (call_id, expires_at)
SELECT call_id, finished_at + interval '1 day' FROM executor.executions
WHERE tenant = :tenant AND call_id = ANY (:calls::text[]) AND finished_at > clock_timestamp() - interval '1 day'
ON CONFLICT DO NOTHING

-- name: forget_past
DELETE FROM executor.past_calls WHERE expires_at <= clock_timestamp()

-- name: unwritten
-- Never written in, so no other service knows of them.
DELETE FROM gateway.conversations AS c
WHERE c.created_at <= clock_timestamp() - :keep::interval AND c.conversation_id = ANY (ARRAY(
    SELECT g.conversation_id FROM gateway.conversations AS g
    WHERE g.created_at <= clock_timestamp() - :keep::interval
        AND NOT EXISTS (SELECT FROM agent.conversations AS a WHERE a.conversation_id = g.conversation_id)
    LIMIT :most
))
RETURNING c.conversation_id

-- name: spent_grants
-- Grants that cover nothing any more, with their uses.
WITH spent AS (
    SELECT grant_id FROM policy.grants
    WHERE greatest(given_at, least(expires_at, coalesce(revoked_at, void_at, expires_at)))
        <= clock_timestamp() - :keep::interval AND (expires_at <= now() OR coalesce(revoked_at, void_at) IS NOT NULL)
    LIMIT :most FOR UPDATE SKIP LOCKED
), used AS (
    DELETE FROM policy.grant_uses WHERE grant_id IN (SELECT grant_id FROM spent)
)
DELETE FROM policy.grants WHERE grant_id IN (SELECT grant_id FROM spent) RETURNING grant_id

-- name: old_jobs
SELECT job_id FROM jobs.jobs WHERE ended_at <= clock_timestamp() - :keep::interval
ORDER BY ended_at LIMIT :most FOR UPDATE SKIP LOCKED

-- name: old_letters
DELETE FROM dead_letters.dead_letters WHERE dead_letter_id IN (
    SELECT dead_letter_id FROM dead_letters.dead_letters
    WHERE resolved_at <= clock_timestamp() - :keep::interval LIMIT :most FOR UPDATE SKIP LOCKED
)
RETURNING dead_letter_id

-- name: old_blocks
-- Blocks of a tenant that are old.
SELECT number, token FROM gateway.checkpoints
WHERE tenant = :tenant AND number > :after AND sealed_at <= clock_timestamp() - :keep::interval
ORDER BY number LIMIT :most

-- name: forget_blocks
DELETE FROM gateway.checkpoints WHERE tenant = :tenant AND number < :number

-- name: opened_by
-- What somebody opened for themselves and wrote in: who opens for visitors, named or not, is not their end user.
SELECT tenant, conversation_id FROM gateway.conversations AS c
WHERE created_by = :identity AND visitor IS NULL
    AND EXISTS (SELECT FROM agent.conversations AS a WHERE a.conversation_id = c.conversation_id)
    AND NOT EXISTS (
        SELECT FROM agent.messages AS m
        WHERE m.conversation_id = c.conversation_id AND m.author ->> 'kind' = 'visitor'
    )
    OR tenant = :tenant AND :visitor = coalesce(visitor, conversation_id)

-- name: left_to_visitors
-- What somebody's key opened, and in which others, or they themselves, wrote with its token alone: nobody can tell.
SELECT tenant, conversation_id FROM gateway.conversations AS c
WHERE created_by = :identity AND visitor IS NULL AND EXISTS (
        SELECT FROM agent.messages AS m
        WHERE m.conversation_id = c.conversation_id AND m.author ->> 'kind' = 'visitor'
    )
ORDER BY created_at DESC

-- name: written
-- Those of these conversations that any service but the gateway knows.
SELECT conversation_id FROM agent.conversations WHERE conversation_id = ANY (:ids::text[])

-- name: forget_unwritten
DELETE FROM gateway.conversations AS c
WHERE tenant = :tenant AND :visitor = coalesce(visitor, conversation_id)
    AND NOT EXISTS (SELECT FROM agent.conversations AS a WHERE a.conversation_id = c.conversation_id)

-- name: decided_calls
-- Calls of others that somebody decided about, asked for, let through by a grant, or found out about; and what ran with
-- such a commit, also once its workspace is gone. A grant may be gone before what it let through; the verdict says whose.
WITH decided AS (
    SELECT call_id, approval_id FROM approval.approvals AS a
    WHERE (:tenant = '' OR tenant = :tenant) AND (requester = ANY (:forms::text[]) OR EXISTS (
        SELECT FROM approval.decisions AS d
        WHERE d.tenant = a.tenant AND d.approval_id = a.approval_id AND d.person = ANY (:forms::text[])
    ))
    UNION SELECT call_id, NULL FROM executor.executions
    WHERE (:tenant = '' OR tenant = :tenant)
        AND (resolved_by = ANY (:forms::text[]) OR CAST(nullif(call, '') AS json) ->> 'requester' = ANY (:forms::text[]))
    UNION SELECT call_id, NULL FROM policy.verdicts
    WHERE (:tenant = '' OR tenant = :tenant) AND starts_with(rule, 'grant:')
        AND EXISTS (
            SELECT FROM unnest(:forms::text[]) AS who WHERE starts_with(reason, 'Allowed from now on by ' || who || ', ')
        )
)
SELECT call_id FROM decided
UNION SELECT e.call_id FROM executor.workspace_entries AS e JOIN decided ON decided.call_id = e.commit_call_id
UNION SELECT h.call_id FROM executor.history AS h JOIN decided ON decided.approval_id = h.detail ->> 'reference'
WHERE h.machine = 'execution' AND h.event = 'released'

-- name: in_act
-- Where such a call runs, or waits for its turn: its permit, which is signed, names who approved it. Where a call waits
-- for people that they asked for, voted on or may not decide, and which stop they may not lift: under another name they
-- would be somebody else.
SELECT c.conversation_id AS place FROM agent.tool_calls AS c
WHERE c.call_id = ANY (:calls::text[]) AND (
    EXISTS (
        SELECT FROM executor.executions AS x
        WHERE x.call_id = c.call_id AND x.state IN ('running', 'verifying', 'committing')
    )
    OR EXISTS (SELECT FROM executor.parked AS p WHERE strpos(p.body, c.call_id) > 0)
)
UNION SELECT conversation_id FROM approval.approvals
WHERE (:tenant = '' OR tenant = :tenant) AND state = 'pending'
    AND (call_id = ANY (:calls::text[]) OR CAST(closed_to AS text) ~ :pattern)
UNION SELECT concat('stop ', stop_id) FROM gateway.stops
WHERE by_another AND resumed_at IS NULL AND stopped_by = ANY (:forms::text[])

-- name: may_have_asked
-- Where people are asked, or still may be, for what somebody asked, or for what may be theirs: in a conversation that they
-- opened, relayed or wrote in, or with a key that they made and that nobody had taken over. A job asks where it was called.
WITH RECURSIVE waiting AS (
    SELECT tenant, conversation_id AS place, conversation_id AS asked_in, requester, created_at AS since
    FROM approval.approvals WHERE state = 'pending'
    UNION ALL SELECT tenant, conversation_id, conversation_id, author ->> 'id', started_at
    FROM agent.turns WHERE ended_at IS NULL
    -- One that people held when it ended answers nobody any more.
    UNION ALL SELECT m.tenant, conversation_id, conversation_id, m.author ->> 'id', m.posted_at
    FROM agent.messages AS m JOIN agent.conversations AS c USING (conversation_id)
    WHERE m.turn_id IS NULL AND NOT m.by_operator AND NOT (c.held AND c.ended_at IS NOT NULL)
    -- What is staged is asked about later.
    UNION ALL SELECT t.tenant, t.conversation_id, t.conversation_id, t.author ->> 'id', t.started_at
    FROM agent.staged_entries AS e JOIN agent.tool_calls AS k USING (call_id) JOIN agent.turns AS t USING (turn_id)
    UNION ALL SELECT tenant, concat('job ', job_id), spec #>> '{caller,conversation_id}', author, created_at
    FROM jobs.jobs WHERE ended_at IS NULL
    -- What one of its attempts was told reaches all of it.
    UNION ALL SELECT j.tenant, concat('job ', job_id), a.conversation_id, j.author, j.created_at
    FROM jobs.jobs AS j JOIN jobs.attempts AS a USING (job_id) WHERE j.ended_at IS NULL
), asked AS (
    SELECT tenant, place, asked_in, requester, since FROM waiting
    UNION SELECT w.tenant, w.place, t.data #>> '{caller,conversation_id}', w.requester, w.since
    FROM asked AS w JOIN agent.attempts AS t ON t.conversation_id = w.asked_in
)
SELECT DISTINCT place FROM asked AS w
WHERE (:tenant = '' OR w.tenant = :tenant) AND (requester = ANY (:forms::text[]) OR EXISTS (
    SELECT FROM gateway.conversations AS c
    WHERE c.tenant = w.tenant AND c.conversation_id = w.asked_in AND (
        c.created_by = ANY (:forms::text[]) OR c.relayed_by ~ :pattern
    )
) OR EXISTS (
    -- What was asked with a key before it was revoked may come late, as votes have it.
    SELECT FROM gateway.api_keys AS k
    WHERE k.tenant = w.tenant AND concat('person:', k.person) = w.requester AND k.created_by = ANY (:forms::text[])
        AND k.created_at <= w.since AND coalesce(k.taken_over_at, 'infinity') > w.since
        AND coalesce(k.revoked_at, 'infinity') > w.since - interval '30 days'
))

-- name: still_written
-- Votes and stops of somebody that still have what they wrote or signed.
SELECT a.conversation_id AS place FROM approval.decisions AS d JOIN approval.approvals AS a USING (tenant, approval_id)
WHERE (:tenant = '' OR d.tenant = :tenant) AND d.person = ANY (:forms::text[]) AND (d.reason <> '' OR d.signed <> '')
UNION SELECT concat('stop ', stop_id) FROM gateway.stops WHERE stopped_by = ANY (:forms::text[]) AND signature <> ''

-- name: wait_at_most
SELECT set_config('lock_timeout', :milliseconds, true)

-- name: await_votes
-- Waits for the votes and stops that are being written: whoever looks afterwards sees them.
LOCK TABLE approval.decisions, gateway.stops IN SHARE MODE

-- name: still_named
-- Where somebody has voted, asked or stopped under their name.
SELECT conversation_id AS place FROM approval.approvals AS a
WHERE (:tenant = '' OR tenant = :tenant) AND (requester = ANY (:forms::text[]) OR decided_by = ANY (:forms::text[]) OR EXISTS (
    SELECT FROM approval.decisions AS d
    WHERE d.tenant = a.tenant AND d.approval_id = a.approval_id AND d.person = ANY (:forms::text[])
))
UNION SELECT concat('stop ', stop_id) FROM gateway.stops WHERE stopped_by = ANY (:forms::text[])

-- name: words
-- What they wrote as reasons, notes, answers and comments, and where it is quoted: in the conversation of its call and, where
-- that is an attempt, in its job and in the conversation that asked for the job.
WITH RECURSIVE written AS (
    SELECT d.tenant, a.conversation_id AS place, unnest(ARRAY[d.reason, d.details ->> 'response']) AS said
    FROM approval.decisions AS d LEFT JOIN approval.approvals AS a USING (tenant, approval_id)
    WHERE d.person = ANY (:forms::text[])
    UNION SELECT tenant, conversation_id, resolution_note FROM executor.executions WHERE resolved_by = ANY (:forms::text[])
    UNION SELECT tenant, conversation_id, reason FROM executor.workspaces WHERE ended_by = ANY (:forms::text[])
    -- What they threw away while people were asked about it: the agent says why, in a string of JSON.
    UNION SELECT tenant, conversation_id, CAST(substring(decision_reason FROM '"(?:[^"\\]|\\.)*"') AS jsonb) #>> '{}'
    FROM approval.approvals
    WHERE EXISTS (
        SELECT FROM unnest(:forms::text[]) AS who
        WHERE starts_with(decision_reason, concat('Not run: ', who, ' threw away what was staged: "'))
    )
    UNION SELECT c.tenant, a.conversation_id, c.text
    FROM gateway.comments AS c LEFT JOIN approval.approvals AS a USING (tenant, approval_id)
    WHERE c.person = ANY (:forms::text[])
), quoted AS (
    SELECT tenant, place, said FROM written WHERE said <> ''
    UNION SELECT q.tenant, asked.place, q.said
    FROM quoted AS q JOIN agent.attempts AS t ON t.conversation_id = q.place,
        unnest(ARRAY[t.data ->> 'job_id', t.data #>> '{caller,conversation_id}']) AS asked (place)
)
SELECT tenant, place, said FROM quoted WHERE (:tenant = '' OR tenant = :tenant)

-- name: blank_decisions
-- What they wrote, and what was signed with their name.
-- And what others signed that names them: whom they gave their place, who may have asked, who made their key.
WITH others AS (
    UPDATE approval.decisions SET signed = '' WHERE (:tenant = '' OR tenant = :tenant) AND person <> ALL (:forms::text[]) AND (
        ARRAY[details ->> 'to', details ->> 'key_made_by'] && :forms::text[]
        OR details ->> 'opened_by' ~ :pattern
    ) RETURNING decision_id
), edits AS (
    UPDATE approval.edits SET signed = '' WHERE edit_id IN (SELECT decision_id FROM others)
)
UPDATE approval.decisions SET reason = '', details = '{}', signed = ''
WHERE (:tenant = '' OR tenant = :tenant) AND person = ANY (:forms::text[])

-- name: others_views
SELECT tenant, person, name, address FROM gateway.saved_views WHERE (:tenant = '' OR tenant = :tenant) FOR UPDATE

-- name: change_view
UPDATE gateway.saved_views SET address = :address WHERE tenant = :tenant AND person = :person AND name = :name

-- name: blank_permits
WITH entries AS (UPDATE executor.workspace_entries SET permit = NULL WHERE call_id = ANY (:calls::text[]))
UPDATE executor.executions SET permit = '' WHERE call_id = ANY (:calls::text[])

-- name: forget_addresses
WITH links AS (DELETE FROM notifier.links WHERE person = :identity), mails AS (
    DELETE FROM notifier.mails WHERE person IN (:identity, :name)
), sessions AS (DELETE FROM gateway.sessions WHERE person = :identity), views AS (
    DELETE FROM gateway.saved_views WHERE person = :identity
)
-- A card that waits for them goes nowhere any more, not even in doubt; that one was never shown, others hear of.
UPDATE notifier.deliveries SET recipient = delivery_id, person = '', reference = '{}', lease_until = NULL,
    fence = fence + 1,
    state = CASE WHEN NOT pending THEN state WHEN sent_version = 0 THEN 'given_up' ELSE 'spared' END
WHERE person IN (:identity, :name)

-- name: forget_names
-- Cards call them by name. Of theirs, and of those that change no more, what is left is what the notifier reads of any;
-- another's that is still to change loses the name alone.
UPDATE notifier.deliveries SET card = CASE
    WHEN pending AND person NOT IN (:identity, :name) THEN card #- ARRAY['names', :identity]
    ELSE jsonb_build_object('approval_id', approval_id, 'tenant', tenant,
        'conversation_id', coalesce(card ->> 'conversation_id', ''), 'state', coalesce(card ->> 'state', 'pending'))
END
WHERE (:tenant = '' OR tenant = :tenant) AND (person IN (:identity, :name) OR CAST(card AS text) ~ :pattern)

-- name: forget_operator
-- What visitors are told of an operator has the bare id.
UPDATE agent.log SET data = jsonb_set(
    data, '{text}', to_jsonb(regexp_replace(data ->> 'text', :words, :pseudonym, 'g'))
)
WHERE data ->> 'operator' = :identity AND data ? 'text'

-- name: blank_stops
-- What they said of a stop, which no page shows without; the stop itself stays in force.
UPDATE gateway.stops SET reason = '[erased]' WHERE stopped_by = :identity

-- name: bare_names
-- Where they are named as the directory has them.
SELECT FROM gateway.api_keys WHERE person = :name
UNION ALL SELECT FROM notifier.mails WHERE person = :name
UNION ALL SELECT FROM notifier.deliveries WHERE person = :name
LIMIT 1

-- name: revoke_keys
UPDATE gateway.api_keys
SET revoked_at = coalesce(revoked_at, now()), revoked_by = coalesce(revoked_by, 'erasure'), person = :pseudonym
WHERE person = :name

-- name: asked_erasures
SELECT erasure_id, who FROM gateway.erasures WHERE done_at IS NULL ORDER BY asked_at

-- name: end_erasure
UPDATE gateway.erasures SET done_at = now(), who = :pseudonym, waits_for = '{}' WHERE erasure_id = :erasure_id

-- name: put_off_erasure
UPDATE gateway.erasures SET waits_for = :places WHERE erasure_id = :erasure_id

-- name: forget_comments
DELETE FROM gateway.comments WHERE (:tenant = '' OR tenant = :tenant) AND person = ANY (:forms::text[])

-- name: sealed_with_name
-- A row of the history that names somebody, by the digest that stays of it.
SELECT CAST(line AS json) ->> 'said' AS said FROM read.history
WHERE salt IS NOT NULL AND (:tenant = '' OR tenant = :tenant) AND (actor = ANY (:actors::text[]) OR said ~ :pattern) LIMIT 1

-- name: erasure_of
-- The erasure that took the name out of such a row.
SELECT subject_id FROM gateway.history
WHERE machine = 'erasure' AND event = 'erased' AND detail -> 'said' ?| :said::text[]
ORDER BY id DESC LIMIT 1

-- name: record_erasure
INSERT INTO gateway.history (tenant, machine, subject_id, event, to_state, actor, detail)
VALUES (:tenant, 'erasure', :pseudonym, 'erased', 'erased', 'purge', CAST(:detail AS jsonb))

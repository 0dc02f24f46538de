-- Effects (lists of CTEs that end in `effect`) are for `Work.execute_once`; all else runs as it is.
--
-- Whatever judges by time locks first and reads the clock then. A statement that does both must lock in a CTE of its
-- own: PostgreSQL reads the clock of a WHERE before it waits for the row, and would approve what expired meanwhile.

-- name: open
-- Of calls that nothing was heard of before. Calls in the order of their ids: nobody locks another one out.
asked AS (
    SELECT * FROM jsonb_to_recordset(:asked) AS given (
        key text, approval_id text, tenant text, call_id text, conversation_id text, turn_id text, message_id text,
        step integer, "position" integer, agent text, requester text, language text, labels jsonb, tool text, schema_digest text, arguments text,
        shown_arguments text, origins jsonb, base jsonb, digest text, category text, pool text, permit_expires_after_seconds integer,
        summary text, searched text, rule text, rulebook_digest text, directory_digest text, reason text, approval_rule jsonb,
        deciders text[], deciders_digest text, closed_to jsonb, voters jsonb, state text, revision integer,
        arguments_revision integer, created_at timestamptz, expires_at timestamptz, steps_done integer,
        next_step_at timestamptz, delegations jsonb, staged jsonb, correlation_id text, traceparent text
    )
), first AS (
    INSERT INTO approval.calls (tenant, call_id, heard_at)
    SELECT tenant, call_id, clock_timestamp() FROM asked ORDER BY call_id
    ON CONFLICT DO NOTHING RETURNING tenant, call_id
), opened AS (
    INSERT INTO approval.approvals (
        approval_id, tenant, call_id, conversation_id, turn_id, message_id, step, "position", agent, requester, language, labels, tool,
        schema_digest, arguments, shown_arguments, origins, base, digest, category, pool, permit_expires_after_seconds, summary,
        searched, rule, rulebook_digest, directory_digest, reason, approval_rule, deciders, deciders_digest, closed_to, voters, state, revision,
        arguments_revision, created_at, expires_at, steps_done, next_step_at, delegations, staged, correlation_id,
        traceparent
    )
    SELECT
        approval_id, tenant, call_id, conversation_id, turn_id, message_id, step, "position", agent, requester, language, labels, tool,
        schema_digest, arguments, shown_arguments, origins, base, digest, category, pool, permit_expires_after_seconds, summary,
        searched, rule, rulebook_digest, directory_digest, reason, approval_rule, deciders, deciders_digest, closed_to, voters, state, revision,
        arguments_revision, created_at, expires_at, steps_done, next_step_at, delegations, staged, correlation_id,
        traceparent
    FROM asked JOIN first USING (tenant, call_id)
    RETURNING approval_id
), effect AS (
    SELECT asked.key FROM asked JOIN opened USING (approval_id)
)

-- name: read_decisions
-- What each decision is judged by: the approval, what was answered to the same decision before, everybody's last vote
-- on the arguments as they are, and which of the API keys behind all that work no more. The time is from before all of
-- that was read: what is revoked by then has no part in it.
SELECT a.*, given.number, statement_timestamp() AS now, d.person AS said_by, d.verb AS said_verb,
    d.approval_id AS said_of, d.digest AS said_digest, d.details AS said_details, d.answer AS said_answer,
    cast_votes.votes, ARRAY(
        SELECT key_id FROM (
            SELECT given.key_id
            UNION SELECT each -> 'by' ->> 'key_id' FROM jsonb_array_elements(a.delegations) AS each
            UNION SELECT vote ->> 'key_id' FROM jsonb_array_elements(cast_votes.votes) AS vote
        ) AS used (key_id)
        WHERE key_id <> '' AND NOT EXISTS (
            SELECT FROM read.api_keys WHERE api_keys.key_id = used.key_id AND api_keys.revoked_at IS NULL
        )
    ) AS revoked, ARRAY(
        -- What the model proposed before, in the same answer, and may still run.
        SELECT e.call_id FROM approval.approvals AS e
        WHERE e.tenant = a.tenant AND e.conversation_id = a.conversation_id AND e.turn_id = a.turn_id
            AND e.step = a.step AND e."position" < a."position" AND e.state = 'approved'
            AND NOT coalesce((e.approval_rule ->> 'independent')::boolean, false)
    ) AS earlier, today.digest AS rulebook_now, today.directory_digest AS directory_now,
    today.people_since, (
        -- An edit may have brought back the arguments that somebody decided about before: whatever they are by now.
        SELECT coalesce(max(e.at), 0) FROM approval.decisions AS e
        WHERE e.approval_id = a.approval_id AND e.tenant = a.tenant AND e.person = given.person
            AND coalesce(e.conversation_id, '') = given.conversation_id AND e.outcome = 'accepted'
            AND e.verb NOT IN ('claim', 'release', 'cancel')
    ) AS newest
FROM unnest(
    :tenants::text[], :approval_ids::text[], :decision_ids::text[], :key_ids::text[], :persons::text[],
    :conversation_ids::text[]
) WITH ORDINALITY AS given (tenant, approval_id, decision_id, key_id, person, conversation_id, number)
LEFT JOIN approval.approvals AS a ON a.approval_id = given.approval_id AND a.tenant = given.tenant
LEFT JOIN approval.decisions AS d ON d.tenant = given.tenant AND d.decision_id = given.decision_id
LEFT JOIN read.active_rulebook AS today ON true
CROSS JOIN LATERAL (
    SELECT coalesce(jsonb_agg(to_jsonb(last) ORDER BY last.counted_revision), '[]') AS votes
    FROM (
        -- A visitor may be called like a person, so the conversation tells the two apart.
        SELECT DISTINCT ON (person, conversation_id) verb, person, roles, proof, conversation_id, key_id,
            details ->> 'opened_by' AS opened_by, counted_revision
        FROM approval.decisions
        WHERE approval_id = a.approval_id AND tenant = a.tenant AND arguments_revision = a.arguments_revision
        ORDER BY person, conversation_id, counted_revision DESC, decided_at DESC
    ) AS last
) AS cast_votes
ORDER BY given.number

-- name: keep_decisions
-- Decisions, each with what it changes of its approval, where that is still what it was judged by: pending, the same
-- revision, and on the same side of its deadline; and where it was not waited for, because keys and rules are read as
-- they were before a wait. Approvals are locked in the order of their calls' ids, as withdrawals do.
made AS (
    SELECT * FROM jsonb_to_recordset(:made) AS given (
        key text, once boolean, locked boolean, tenant text, decision_id text, approval_id text, person text, verb text, reason text,
        digest text, revision integer, proof text, key_id text, roles jsonb, conversation_id text, details jsonb,
        signed text, at double precision, outcome text, answer jsonb, arguments_revision integer, counted_revision integer,
        decided_at timestamptz, changing text, seen_revision integer, in_time boolean, cancels text,
        new_state text, new_decided_by text, new_decision_reason text, new_result_kind text, new_answer_kind text,
        new_closed_at timestamptz, more jsonb
    )
), starts AS MATERIALIZED (
    SELECT count(*), clock_timestamp() AS at FROM made
), locked AS MATERIALIZED (
    SELECT a.approval_id, a.state, a.revision, a.expires_at, starts.at
    FROM approval.approvals AS a JOIN made ON a.approval_id = made.changing CROSS JOIN starts
    ORDER BY a.call_id FOR UPDATE OF a
), waits AS MATERIALIZED (
    -- After every wait for another transaction.
    SELECT coalesce(clock_timestamp() - min(at) > interval '0.1 seconds', false) AS long FROM locked
), valid AS MATERIALIZED (
    SELECT made.* FROM made CROSS JOIN waits LEFT JOIN locked ON locked.approval_id = made.changing
    WHERE made.signed IS NOT NULL AND (
        made.changing IS NULL OR (
            locked.state = 'pending' AND locked.revision = made.seen_revision
            AND (clock_timestamp() < locked.expires_at) = made.in_time
            AND (made.locked OR NOT waits.long)
        )
    )
), kept AS (
    INSERT INTO approval.decisions (
        tenant, decision_id, approval_id, person, verb, reason, digest, revision, proof, key_id, roles,
        conversation_id, details, signed, at, outcome, answer, arguments_revision, counted_revision, decided_at
    )
    SELECT tenant, decision_id, approval_id, person, verb, reason, digest, revision, proof, key_id, roles,
        conversation_id, details, signed, at, outcome, answer, arguments_revision, counted_revision, decided_at
    FROM valid ORDER BY tenant, decision_id
    ON CONFLICT DO NOTHING RETURNING tenant, decision_id
), done AS (
    SELECT valid.* FROM valid JOIN kept USING (tenant, decision_id)
), closed AS (
    UPDATE approval.approvals AS a SET state = done.new_state, decided_by = done.new_decided_by,
        decision_reason = done.new_decision_reason, result_kind = done.new_result_kind,
        answer_kind = done.new_answer_kind, closed_at = done.new_closed_at
    FROM done WHERE a.approval_id = done.changing AND done.more IS NULL AND done.new_state <> 'pending'
), changed AS (
    UPDATE approval.approvals AS a SET state = done.new_state, decided_by = done.new_decided_by,
        decision_reason = done.new_decision_reason, result_kind = done.new_result_kind,
        answer_kind = done.new_answer_kind, closed_at = done.new_closed_at, arguments = m.arguments,
        shown_arguments = m.shown_arguments, origins = m.origins, digest = m.digest, edited = m.edited, summary = m.summary,
        searched = m.searched, arguments_revision = m.arguments_revision, revision = m.revision,
        claimed_by = m.claimed_by, claimed_until = m.claimed_until, delegations = m.delegations,
        deciders = m.deciders, deciders_digest = m.deciders_digest, closed_to = m.closed_to, voters = m.voters,
        seats = m.seats
    FROM done, jsonb_to_record(done.more) AS m (
        arguments text, shown_arguments text, origins jsonb, digest text, edited jsonb, summary text, searched text,
        arguments_revision integer, revision integer, claimed_by text, claimed_until timestamptz, delegations jsonb,
        deciders text[], deciders_digest text, closed_to jsonb, voters jsonb, seats jsonb
    )
    WHERE a.approval_id = done.changing AND done.more IS NOT NULL
), cancelled AS (
    UPDATE approval.approvals AS a SET cancel_asked_by = done.cancels, cancel_asked_at = clock_timestamp()
    FROM done WHERE a.approval_id = done.approval_id AND done.cancels IS NOT NULL
        AND a.state = 'approved' AND a.cancel_asked_at IS NULL
), effect AS (
    SELECT key FROM done
    UNION ALL
    -- Answered before: once more, but not for the same event.
    SELECT key FROM made WHERE signed IS NULL AND (NOT once OR key IN (SELECT message_id FROM fresh))
)

-- name: no_arrival
SELECT ''::text AS message_id

-- name: withdrawal_of
SELECT withdrawn_kind, withdrawn_reason FROM approval.calls WHERE tenant = :tenant AND call_id = :call_id

-- name: add_closed
INSERT INTO approval.approvals SELECT (jsonb_populate_record(NULL::approval.approvals, :row)).*
ON CONFLICT (call_id) DO NOTHING RETURNING approval_id

-- name: lock
SELECT * FROM approval.approvals WHERE tenant = :tenant AND approval_id = :approval_id FOR UPDATE

-- name: lock_calls
SELECT * FROM approval.approvals WHERE tenant = :tenant AND call_id = ANY (:call_ids::text[])
ORDER BY call_id FOR UPDATE

-- name: add_tombstones
-- In the order of their ids: nobody locks another one out.
INSERT INTO approval.calls (tenant, call_id, withdrawn_kind, withdrawn_reason, heard_at)
SELECT :tenant, call_id, :kind, :reason, clock_timestamp() FROM unnest(:call_ids::text[]) AS call_id ORDER BY call_id
ON CONFLICT DO NOTHING RETURNING call_id

-- name: withdraw
UPDATE approval.approvals
SET state = 'withdrawn', result_kind = :kind, decision_reason = :reason, closed_at = clock_timestamp()
WHERE approval_id = ANY (:approval_ids::text[]) AND state = 'pending'
RETURNING approval_id, closed_at

-- name: votes
-- Of each person the last counted decision about the arguments as they are.
SELECT DISTINCT ON (d.approval_id, d.person, d.conversation_id) d.approval_id, d.verb, d.person, d.roles, d.proof,
    d.conversation_id, d.key_id, d.details ->> 'opened_by' AS opened_by, d.counted_revision
FROM approval.decisions AS d JOIN approval.approvals AS a USING (tenant, approval_id, arguments_revision)
WHERE a.approval_id = ANY (:approval_ids::text[])
ORDER BY d.approval_id, d.person, d.conversation_id, d.counted_revision DESC, d.decided_at DESC

-- name: expire
-- What nobody holds. The clock is read once, so that the index of deadlines answers.
UPDATE approval.approvals SET state = 'expired', result_kind = 'expired', closed_at = clock_timestamp()
WHERE approval_id = ANY (ARRAY(
    SELECT approval_id FROM approval.approvals
    WHERE state = 'pending' AND expires_at <= (SELECT clock_timestamp())
    ORDER BY expires_at LIMIT :most FOR UPDATE SKIP LOCKED
))
RETURNING *

-- name: lock_due
-- What is overdue is left to expire.
SELECT * FROM approval.approvals
WHERE state = 'pending' AND next_step_at <= (SELECT clock_timestamp()) AND expires_at > (SELECT clock_timestamp())
ORDER BY next_step_at LIMIT :most FOR UPDATE SKIP LOCKED

-- name: save_steps
UPDATE approval.approvals AS a SET steps_done = taken.steps_done, next_step_at = taken.next_step_at,
    revision = taken.revision, deciders = taken.deciders, deciders_digest = taken.deciders_digest
FROM jsonb_to_recordset(:taken) AS taken (
    approval_id text, steps_done integer, next_step_at timestamptz, revision integer, deciders text[],
    deciders_digest text
)
WHERE a.approval_id = taken.approval_id AND a.state = 'pending'
RETURNING a.approval_id

-- name: newest_of_sets
-- Of each set of deciders that something pending has the newest approval: one step along the index each.
WITH RECURSIVE sets AS (
    (SELECT tenant, deciders_digest, approval_id FROM approval.approvals WHERE state = 'pending'
     ORDER BY tenant, deciders_digest, created_at DESC, approval_id DESC LIMIT 1)
    UNION ALL
    SELECT following.* FROM sets CROSS JOIN LATERAL (
        SELECT tenant, deciders_digest, approval_id FROM approval.approvals AS other
        WHERE state = 'pending' AND (other.tenant, other.deciders_digest) > (sets.tenant, sets.deciders_digest)
        ORDER BY tenant, deciders_digest, created_at DESC, approval_id DESC LIMIT 1
    ) AS following
)
SELECT approvals.* FROM approval.approvals JOIN sets USING (approval_id)

-- name: list_set
SELECT same.* FROM approval.approvals AS one JOIN approval.approvals AS same USING (tenant, deciders_digest)
WHERE one.approval_id = :approval_id AND same.state = 'pending'
ORDER BY same.created_at DESC, same.approval_id DESC LIMIT :most

-- name: count_set
SELECT count(*) FROM (
    SELECT FROM approval.approvals AS one JOIN approval.approvals AS same USING (tenant, deciders_digest)
    WHERE one.approval_id = :approval_id AND same.state = 'pending' LIMIT :most
) AS found

-- name: add_edit
-- Where the approval is still what the edit was judged by; what was asked before has no key.
unchanged AS MATERIALIZED (
    SELECT FROM approval.approvals
    WHERE tenant = :tenant AND approval_id = :approval_id AND state = 'pending' AND revision = :revision FOR UPDATE
), edit AS (
    INSERT INTO approval.edits (
        tenant, edit_id, approval_id, person, reason, state, base_revision, before, before_digest, shown_before,
        arguments, digest, differences, signed, answer_to, asked_at
    )
    SELECT :tenant, :edit_id, :approval_id, :person, :reason, :state, :base_revision, :before, :before_digest,
        :shown_before, :arguments, :digest, '[]', :signed, :answer_to, :asked_at
    FROM unchanged
    ON CONFLICT DO NOTHING RETURNING edit_id
), effect AS (
    SELECT CASE WHEN EXISTS (SELECT FROM edit) THEN :key::text END AS key FROM unchanged
)

-- name: load_edit
SELECT * FROM approval.edits WHERE tenant = :tenant AND edit_id = :edit_id

-- name: end_edit
UPDATE approval.edits
SET state = :state, detail = :detail, shown_arguments = :shown_arguments, differences = :differences,
    rulebook_digest = :rulebook_digest, judged_at = :judged_at
WHERE tenant = :tenant AND edit_id = :edit_id AND state = 'asked'
RETURNING edit_id

-- name: hold_word_cursor
SELECT history_id FROM approval.word_cursor FOR UPDATE SKIP LOCKED

-- name: begin_word_cursor
-- Whoever finds a cursor that another one holds does not wait for them.
INSERT INTO approval.word_cursor (singleton, history_id)
SELECT true, coalesce((SELECT min(id) - 1 FROM approval.history), 0)
WHERE NOT EXISTS (SELECT FROM approval.word_cursor) ON CONFLICT DO NOTHING

-- name: changed_cards
SELECT id, subject_id, event = 'opened' AS opened, at < clock_timestamp() - interval '1 minute' AS settled
FROM approval.history WHERE id > :after AND at <= clock_timestamp() - :behind::interval ORDER BY id LIMIT :most

-- name: plan_anew
-- For what comes rarely and in very different numbers: a plan that was made while a table was small reads all of it.
SET LOCAL plan_cache_mode = force_custom_plan

-- name: remove_open_words
-- Each word by its whole key: a plan that was made while the table was small must not read all of a large one.
DELETE FROM approval.words WHERE ctid = ANY (ARRAY(
    SELECT found.ctid
    FROM approval.approvals AS a, unnest(array_remove(string_to_array(trim(a.searched), ' ') || ARRAY[
        'requester=' || a.requester, 'rule=' || a.rule, 'decided_by=' || a.decided_by], NULL)) AS gone (word), LATERAL (
        SELECT words.ctid FROM approval.words
        WHERE words.tenant = a.tenant AND words.word = gone.word AND words.is_open
            AND words.created_at = a.created_at AND words.approval_id = a.approval_id
        LIMIT 1
    ) AS found
    WHERE a.approval_id = ANY (:approval_ids::text[]) AND a.state <> 'pending'
))

-- name: add_words
-- Columns that people filter by and that have no index of their own are words too, which no text can have.
-- Whoever has the cursor writes alone: asking first costs less than ON CONFLICT.
INSERT INTO approval.words (tenant, word, is_open, created_at, approval_id)
SELECT given.* FROM (
    SELECT DISTINCT a.tenant, word, a.state = 'pending' AS is_open, a.created_at, a.approval_id
    FROM approval.approvals AS a, unnest(array_remove(string_to_array(trim(a.searched), ' ') || ARRAY[
        'requester=' || a.requester, 'rule=' || a.rule, 'decided_by=' || a.decided_by], NULL)) AS word
    WHERE a.approval_id = ANY (:approval_ids::text[])
) AS given
WHERE NOT EXISTS (
    SELECT FROM approval.words AS known
    WHERE known.tenant = given.tenant AND known.word = given.word AND known.is_open = given.is_open
        AND known.created_at = given.created_at AND known.approval_id = given.approval_id
    OFFSET 0
)
ORDER BY 1, 2, 3, 4, 5

-- name: move_word_cursor
UPDATE approval.word_cursor SET history_id = :id

-- name: count_by_tenant
-- No further than a quota.
WITH RECURSIVE tenants AS (
    (SELECT tenant FROM approval.approvals ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT more.tenant FROM approval.approvals more WHERE more.tenant > tenants.tenant ORDER BY 1 LIMIT 1)
    FROM tenants WHERE tenants.tenant IS NOT NULL
)
SELECT tenant, (
    SELECT count(*) FROM (
        SELECT FROM approval.approvals held WHERE held.tenant = tenants.tenant AND held.state = 'pending' LIMIT :most
    ) AS counted
) AS pending
FROM tenants WHERE tenant IS NOT NULL

-- name: count_pending
-- Counts no further than somebody looks, and finds the oldest of each tenant by its index.
WITH RECURSIVE tenants AS (
    (SELECT tenant FROM approval.approvals ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT more.tenant FROM approval.approvals more WHERE more.tenant > tenants.tenant ORDER BY 1 LIMIT 1)
    FROM tenants WHERE tenants.tenant IS NOT NULL
)
SELECT
    (SELECT count(*) FROM (SELECT FROM approval.approvals WHERE state = 'pending' LIMIT :most) counted) AS pending,
    coalesce(extract(epoch FROM clock_timestamp() - min(first.created_at)), 0)::float8 AS oldest
FROM tenants LEFT JOIN LATERAL (
    SELECT created_at FROM approval.approvals held
    WHERE held.tenant = tenants.tenant AND held.state = 'pending' ORDER BY created_at LIMIT 1
) first ON true

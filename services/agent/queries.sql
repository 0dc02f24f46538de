-- Statements of the agent. Whatever changes a conversation locks its row first and raises its version.

-- name: state
-- What is stored of the conversation `c`, as one JSON array for `store.conversation_of`.
json_build_array(
    c.tenant, c.agent, c.language, c.labels, c.ended_at IS NOT NULL, c.held, c.holder_revision, c.holder_told,
    c.log_seq, c.version, c.turn_id,
    (
        SELECT json_agg(json_build_array(
            t.turn_id, t.state, t.step, t.fence, t.takeovers, t.message_id, t.author, t.cause, t.paused,
            t.lease_until < clock_timestamp()
        ))
        FROM agent.turns t
        WHERE t.turn_id = ANY (:turn_ids::text[] || c.turn_id) AND t.conversation_id = c.conversation_id
    ),
    (
        SELECT json_agg(json_build_array(
            k.call_id, k.turn_id, k.step, k.tool, k.message_id, k.state, k.result_kind, k.held, k.next_message,
            k.approval_id, k.approval_revision, k.undecided, k.told_number, k.cards,
            EXISTS (SELECT FROM agent.facts f WHERE f.call_id = k.call_id), t.author, t.cause
        ) ORDER BY k.step, k.position)
        FROM agent.tool_calls k JOIN agent.turns t USING (turn_id)
        WHERE (k.turn_id = c.turn_id OR k.call_id = ANY (:call_ids::text[])) AND k.conversation_id = c.conversation_id
    ),
    (
        SELECT json_agg(json_build_array(
            m.message_id, COALESCE(k.message_id, m.message_id), m.author, m.cause, m.call_id IS NOT NULL,
            COALESCE(m.number, 0)
        ) ORDER BY m.number, m.posted_at)
        FROM agent.messages m LEFT JOIN agent.tool_calls k USING (call_id)
        WHERE m.conversation_id = c.conversation_id AND m.turn_id IS NULL AND NOT m.by_operator
    ),
    (
        SELECT json_object_agg(m.message_id, m.text)
        FROM agent.messages m
        WHERE m.conversation_id = c.conversation_id AND m.message_id = ANY (:message_ids::text[])
    ),
    -- Messages that were taken for decisions are items and nothing else.
    CASE WHEN cardinality(:consent_ids::text[]) > 0 THEN (
        SELECT json_object_agg(l.data ->> 'message_id', l.data ->> 'text')
        FROM agent.log l
        WHERE l.conversation_id = c.conversation_id AND l.type = 'message'
            AND l.data ->> 'message_id' = ANY (:consent_ids::text[])
    ) END,
    CASE WHEN c.staged > 0 THEN (
        SELECT json_agg(json_build_array(
            s.call_id, s.workspace_id, s.position, s.digest, s.decide, s.commit_id, k.turn_id, k.tool, k.message_id,
            t.author, t.cause, s.keys
        ) ORDER BY s.workspace_id, s.position)
        FROM agent.staged_entries s JOIN agent.tool_calls k USING (call_id) JOIN agent.turns t USING (turn_id)
        WHERE s.conversation_id = c.conversation_id
    ) END,
    CASE WHEN c.labels ? 'job' THEN (
        SELECT a.data FROM agent.attempts a WHERE a.conversation_id = c.conversation_id
    ) END
)

-- name: read
SELECT c.conversation_id, STATE AS state
FROM agent.conversations c
WHERE c.conversation_id = ANY (:conversation_ids::text[])

-- name: lock
-- Lock conversations in the order of their ids, and make those that may be born. A row that changed while its lock was
-- waited for is not `fresh`: what is beside it is older than the lock.
WITH born AS (
    INSERT INTO agent.conversations
        (conversation_id, tenant, agent, language, labels, log_seq, version, queued, held, holder_revision, holder_told)
    SELECT b.conversation_id, b.tenant, '', 'en', '{}', 0, 0, 0, false, 0, 0
    FROM unnest(:born_ids::text[], :born_tenants::text[]) AS b (conversation_id, tenant)
    ORDER BY b.conversation_id
    ON CONFLICT DO NOTHING
    RETURNING conversation_id
),
locked AS MATERIALIZED (
    SELECT c.conversation_id, c.version
    FROM agent.conversations c
    WHERE c.conversation_id = ANY (:conversation_ids::text[])
    ORDER BY c.conversation_id
    FOR NO KEY UPDATE
)
SELECT wanted.conversation_id, born.conversation_id IS NOT NULL AS born, c.version = locked.version AS fresh,
    CASE WHEN c.version = locked.version THEN STATE END AS state
FROM unnest(:conversation_ids::text[]) AS wanted (conversation_id)
LEFT JOIN born USING (conversation_id)
LEFT JOIN locked USING (conversation_id)
LEFT JOIN agent.conversations c USING (conversation_id)

-- name: load
-- Conversations with everything that their transcripts are made of: one statement, so one moment.
SELECT c.conversation_id, STATE AS state, json_build_array(
    (
        SELECT json_agg(json_build_array(
            m.turn_id, m.step, m.text, m.number, m.call_id, m.author ->> 'id'
        ) ORDER BY m.number, m.posted_at)
        FROM agent.messages m WHERE m.conversation_id = c.conversation_id AND m.turn_id IS NOT NULL
    ),
    (
        SELECT json_agg(json_build_array(s.turn_id, s.step, s.raw) ORDER BY s.step)
        FROM agent.steps s WHERE s.conversation_id = c.conversation_id
    ),
    (
        SELECT json_agg(json_build_array(
            k.turn_id, k.step, k.position, k.provider_call_id, k.tool, k.arguments, k.digest IS NOT NULL, k.result_kind,
            k.result, k.call_id, k.interim_at IS NOT NULL, k.state = 'stopped' OR k.told_number IS NOT NULL,
            k.told_number
        ) ORDER BY k.position)
        FROM agent.tool_calls k WHERE k.conversation_id = c.conversation_id
    ),
    (
        SELECT json_agg(json_build_array(f.number, f.text) ORDER BY f.number)
        FROM agent.facts f WHERE f.conversation_id = c.conversation_id
    ),
    (
        SELECT json_agg(json_build_array(
            m.number, CASE WHEN m.author ->> 'kind' = 'operator' THEN m.author ->> 'id' ELSE '' END, m.text,
            m.author ->> 'id'
        ) ORDER BY m.number, m.posted_at)
        FROM agent.messages m WHERE m.conversation_id = c.conversation_id AND m.by_operator
    ),
    (
        SELECT json_agg(t.stopped_number)
        FROM agent.turns t WHERE t.conversation_id = c.conversation_id AND t.stopped_number IS NOT NULL
    )
) AS history
FROM agent.conversations c
WHERE c.conversation_id = ANY (:conversation_ids::text[])

-- name: write
-- Store what became of conversations, in the parts below that are needed. Nothing is stored of one that another
-- transaction holds or has changed.
moment AS MATERIALIZED (SELECT clock_timestamp() AS at),
given AS MATERIALIZED (
    SELECT *
    FROM unnest(
        :conversation_ids::text[], :versions::int[], :is_news::bool[], :tenants::text[], :log_seqs::int[],
        :turns::text[], :queueds::int[], :helds::bool[], :holder_revisions::int[], :holder_tolds::int[],
        :agents::text[], :languages::text[], :labelses::jsonb[], :endeds::bool[], :stageds::int[]
    ) AS b (
        conversation_id, version, is_new, tenant, log_seq, turn_id, queued, held, holder_revision, holder_told, agent,
        language, labels, ended, staged
    )
),
born AS (
    INSERT INTO agent.conversations (
        conversation_id, tenant, version, log_seq, turn_id, queued, held, holder_revision, holder_told, agent, language,
        labels, ended_at
    )
    SELECT conversation_id, tenant, 1, log_seq, turn_id, queued, held, holder_revision, holder_told, agent, language,
        labels, CASE WHEN ended THEN at END
    FROM given, moment
    WHERE is_new
    ORDER BY conversation_id
    ON CONFLICT DO NOTHING
    RETURNING conversation_id, tenant
),
locked AS MATERIALIZED (
    SELECT c.conversation_id, c.tenant
    FROM agent.conversations c JOIN given USING (conversation_id)
    WHERE c.version = given.version AND NOT given.is_new
    ORDER BY c.conversation_id
    FOR NO KEY UPDATE OF c WAITING
),
held AS MATERIALIZED (SELECT * FROM locked UNION ALL SELECT * FROM born),
conversation AS (
    UPDATE agent.conversations c
    SET version = c.version + 1, log_seq = b.log_seq, turn_id = b.turn_id, queued = b.queued, held = b.held,
        holder_revision = b.holder_revision, holder_told = b.holder_told, agent = b.agent, language = b.language,
        labels = b.labels, staged = b.staged, ended_at = COALESCE(c.ended_at, CASE WHEN b.ended THEN moment.at END)
    FROM given b JOIN locked USING (conversation_id), moment
    WHERE c.conversation_id = b.conversation_id
)PARTS,
EFFECT

-- name: stored
effect AS (SELECT held.conversation_id AS key, moment.at FROM held, moment)

-- name: all_stored
-- An error (22012) where not all is stored, or something was handled before: then nothing of it counts.
guard AS MATERIALIZED (
    SELECT 1 / CASE WHEN (SELECT count(*) FROM held) = cardinality(:conversation_ids::text[]) NEW THEN 1 ELSE 0 END AS ok
),
effect AS (
    SELECT held.conversation_id AS key, moment.at FROM guard CROSS JOIN moment LEFT JOIN held ON guard.ok = 1
)

-- name: all_new
AND (SELECT count(*) FROM fresh) = cardinality(:_arrived::text[])

-- name: write_log
INSERT INTO agent.log (conversation_id, seq, tenant, type, at, data)
SELECT b.conversation_id, b.seq, held.tenant, b.type, moment.at, b.data
FROM unnest(:log_conversation_id::text[], :log_seq::int[], :log_type::text[], :log_data::jsonb[])
    AS b (conversation_id, seq, type, data)
JOIN held USING (conversation_id), moment

-- name: write_messages
INSERT INTO agent.messages
    (conversation_id, message_id, number, tenant, text, author, cause, turn_id, step, call_id, by_operator)
SELECT b.conversation_id, b.message_id, b.number, held.tenant, b.text, b.author, b.cause, b.turn_id, b.step, b.call_id,
    b.by_operator
FROM unnest(
    :messages_conversation_id::text[], :messages_message_id::text[], :messages_number::int[], :messages_text::text[],
    :messages_author::jsonb[], :messages_cause::jsonb[], :messages_turn_id::text[], :messages_step::int[],
    :messages_call_id::text[], :messages_by_operator::bool[]
) AS b (conversation_id, message_id, number, text, author, cause, turn_id, step, call_id, by_operator)
JOIN held USING (conversation_id)
ORDER BY b.number

-- name: write_moved_messages
UPDATE agent.messages m
SET turn_id = b.turn_id, step = b.step, number = COALESCE(b.number, m.number), by_operator = b.by_operator
FROM unnest(
    :moved_messages_conversation_id::text[], :moved_messages_message_id::text[], :moved_messages_turn_id::text[],
    :moved_messages_step::int[], :moved_messages_number::int[], :moved_messages_by_operator::bool[]
) AS b (conversation_id, message_id, turn_id, step, number, by_operator)
JOIN held USING (conversation_id)
WHERE m.conversation_id = b.conversation_id AND m.message_id = b.message_id

-- name: write_attempts
INSERT INTO agent.attempts (conversation_id, data)
SELECT b.conversation_id, b.data
FROM unnest(:attempts_conversation_id::text[], :attempts_attempt::jsonb[]) AS b (conversation_id, data)
JOIN held USING (conversation_id)
ON CONFLICT (conversation_id) DO UPDATE SET data = excluded.data

-- name: write_turns
-- In their order: a turn ends before the next one of its conversation begins.
INSERT INTO agent.turns (
    turn_id, tenant, conversation_id, state, step, fence, takeovers, open_calls, paused, lease_until, cause, message_id,
    author, reason, stopped_number, final_answer, ended_at
)
SELECT b.turn_id, held.tenant, b.conversation_id, b.state, b.step, b.fence, b.takeovers, b.open_calls, b.paused,
    CASE WHEN b.state = 'thinking' THEN moment.at + :lease::interval END, b.cause, b.message_id, b.author, b.reason,
    b.stopped_number, b.final_answer, CASE WHEN b.ended THEN moment.at END
FROM unnest(
    :turns_conversation_id::text[], :turns_turn_id::text[], :turns_state::text[], :turns_step::int[],
    :turns_fence::int[], :turns_takeovers::int[], :turns_open_calls::int[], :turns_paused::bool[],
    :turns_cause::jsonb[], :turns_message_id::text[], :turns_author::jsonb[], :turns_reason::text[],
    :turns_stopped_number::int[], :turns_final_answer::jsonb[], :turns_ended::bool[]
) WITH ORDINALITY AS b (
    conversation_id, turn_id, state, step, fence, takeovers, open_calls, paused, cause, message_id, author, reason,
    stopped_number, final_answer, ended, place
)
JOIN held USING (conversation_id), moment
ORDER BY b.place
ON CONFLICT (turn_id) DO UPDATE
SET state = excluded.state, step = excluded.step, fence = excluded.fence, takeovers = excluded.takeovers,
    open_calls = excluded.open_calls, paused = excluded.paused, lease_until = excluded.lease_until,
    cause = excluded.cause, message_id = excluded.message_id, reason = excluded.reason,
    stopped_number = excluded.stopped_number, final_answer = excluded.final_answer, ended_at = excluded.ended_at

-- name: write_steps
INSERT INTO agent.steps
    (turn_id, step, tenant, conversation_id, message_id, raw, model, input_tokens, output_tokens, said_at)
SELECT b.turn_id, b.step, held.tenant, b.conversation_id, b.message_id, b.raw, b.model, b.input_tokens, b.output_tokens,
    moment.at
FROM unnest(
    :steps_conversation_id::text[], :steps_turn_id::text[], :steps_step::int[], :steps_message_id::text[],
    :steps_raw::jsonb[], :steps_model::text[], :steps_input_tokens::int[], :steps_output_tokens::int[]
) AS b (conversation_id, turn_id, step, message_id, raw, model, input_tokens, output_tokens)
JOIN held USING (conversation_id), moment

-- name: write_new_calls
INSERT INTO agent.tool_calls (
    call_id, tenant, conversation_id, turn_id, message_id, step, position, provider_call_id, tool, arguments,
    shown_arguments, digest, state, result_kind, result, approval_revision, undecided, answered_at
)
SELECT b.call_id, held.tenant, b.conversation_id, b.turn_id, b.message_id, b.step, b.position, b.provider_call_id,
    b.tool, b.arguments, b.shown_arguments, b.digest, b.state, b.result_kind, b.result, 0, false,
    CASE WHEN b.state = 'answered' THEN moment.at END
FROM unnest(
    :new_calls_conversation_id::text[], :new_calls_call_id::text[], :new_calls_turn_id::text[],
    :new_calls_message_id::text[], :new_calls_step::int[], :new_calls_position::int[],
    :new_calls_provider_call_id::text[], :new_calls_tool::text[], :new_calls_arguments::text[],
    :new_calls_shown_arguments::text[], :new_calls_digest::text[], :new_calls_state::text[],
    :new_calls_result_kind::text[], :new_calls_result::jsonb[]
) AS b (
    conversation_id, call_id, turn_id, message_id, step, position, provider_call_id, tool, arguments, shown_arguments,
    digest, state, result_kind, result
)
JOIN held USING (conversation_id), moment

-- name: write_calls
UPDATE agent.tool_calls k
SET state = b.state, result_kind = b.result_kind, result = COALESCE(b.result, k.result), held = b.held,
    next_message = b.next_message, approval_id = b.approval_id, approval_revision = b.approval_revision,
    undecided = b.undecided, told_number = b.told_number, cards = b.cards,
    interim_at = CASE WHEN b.state = 'continued' THEN COALESCE(k.interim_at, moment.at) ELSE k.interim_at END,
    answered_at = CASE WHEN b.state = 'answered' THEN COALESCE(k.answered_at, moment.at) END
FROM unnest(
    :calls_conversation_id::text[], :calls_call_id::text[], :calls_state::text[], :calls_result_kind::text[],
    :calls_result::jsonb[], :calls_held::text[], :calls_next_message::text[], :calls_approval_id::text[],
    :calls_approval_revision::int[], :calls_undecided::bool[], :calls_told_number::int[], :calls_cards::jsonb[]
) AS b (
    conversation_id, call_id, state, result_kind, result, held, next_message, approval_id, approval_revision, undecided,
    told_number, cards
)
JOIN held USING (conversation_id), moment
WHERE k.call_id = b.call_id

-- name: write_facts
INSERT INTO agent.facts (call_id, tenant, conversation_id, number, text)
SELECT b.call_id, held.tenant, b.conversation_id, b.number, b.text
FROM unnest(:facts_conversation_id::text[], :facts_call_id::text[], :facts_number::int[], :facts_text::text[])
    AS b (conversation_id, call_id, number, text)
JOIN held USING (conversation_id)

-- name: write_staged
INSERT INTO agent.staged_entries (call_id, conversation_id, workspace_id, position, digest, decide, commit_id, keys)
SELECT b.call_id, b.conversation_id, b.workspace_id, b.position, b.digest, b.decide, b.commit_id, b.keys
FROM unnest(
    :staged_conversation_id::text[], :staged_call_id::text[], :staged_workspace_id::text[], :staged_position::int[],
    :staged_digest::text[], :staged_decide::text[], :staged_commit_id::text[], :staged_keys::jsonb[]
) AS b (conversation_id, call_id, workspace_id, position, digest, decide, commit_id, keys)
JOIN held USING (conversation_id)
ON CONFLICT (call_id) DO UPDATE SET decide = excluded.decide, commit_id = excluded.commit_id

-- name: write_unstaged
DELETE FROM agent.staged_entries s
USING unnest(:unstaged_conversation_id::text[], :unstaged_call_id::text[]) AS b (conversation_id, call_id), held
WHERE s.call_id = b.call_id AND held.conversation_id = b.conversation_id

-- name: void
-- Of a permit for a call of these: whether such calls are stopped, and whether a key works no more that it was approved with.
SELECT
    EXISTS (
        SELECT FROM read.stops
        WHERE coalesce(tenant = :tenant, true) AND coalesce(tool = :tool, true) AND coalesce(agent = :agent, true)
    ) AS stopped,
    EXISTS (SELECT FROM read.api_keys WHERE key_id = ANY (:keys::text[]) AND revoked_at IS NOT NULL) AS revoked

-- name: unanswered
-- The calls of a locked conversation that have no result, in their order.
SELECT call_id FROM agent.tool_calls
WHERE conversation_id = :conversation_id AND state <> 'answered'
ORDER BY turn_id, step, position

-- name: lost_turns
SELECT conversation_id, turn_id FROM agent.turns
WHERE state = 'thinking' AND lease_until < (SELECT clock_timestamp())
ORDER BY lease_until
LIMIT :limit

-- name: is_from_before
-- Whether a turn began until a moment, or reads what was there then: a message, or the outcome of a call.
SELECT FROM agent.turns AS t
WHERE t.turn_id = :turn_id AND (
    t.started_at <= :moment
    OR EXISTS (
        SELECT FROM agent.messages AS m LEFT JOIN agent.tool_calls AS c USING (call_id)
        WHERE m.conversation_id = t.conversation_id AND m.turn_id = t.turn_id
            AND least(m.posted_at, c.proposed_at) <= :moment
    )
)

-- name: renew
-- A turn that this very claim has just settled has no lease to renew, and is not lost either.
UPDATE agent.turns
SET lease_until = CASE WHEN state = 'thinking' THEN clock_timestamp() + :lease::interval END
WHERE turn_id = :turn_id AND fence = :fence
RETURNING turn_id

-- name: give_back
UPDATE agent.turns SET lease_until = clock_timestamp()
WHERE turn_id = :turn_id AND fence = :fence AND state = 'thinking'

-- name: give_back_all
UPDATE agent.turns SET lease_until = clock_timestamp() WHERE state = 'thinking'

-- name: used_by_conversation
SELECT model, sum(input_tokens), sum(output_tokens) FROM agent.steps
WHERE conversation_id = :conversation_id
GROUP BY model

-- name: used_by_agent
SELECT s.model, sum(s.input_tokens), sum(s.output_tokens)
FROM agent.steps s JOIN agent.conversations c USING (conversation_id)
WHERE s.tenant = :tenant AND s.said_at >= date_trunc('day', clock_timestamp(), 'UTC') AND c.agent = :agent
GROUP BY s.model

-- name: used_by_tenant
SELECT model, sum(input_tokens), sum(output_tokens) FROM agent.steps
WHERE tenant = :tenant AND said_at >= date_trunc('day', clock_timestamp(), 'UTC')
GROUP BY model

-- name: load_pseudonyms
SELECT value, pseudonym, kind, canonical, number FROM agent.pseudonyms
WHERE conversation_id = :conversation_id
ORDER BY number, value_sha256

-- name: lock_pseudonyms
SELECT FROM agent.conversations WHERE conversation_id = :conversation_id FOR NO KEY UPDATE

-- name: count_pseudonyms
SELECT count(*) FROM agent.pseudonyms WHERE conversation_id = :conversation_id

-- name: keep_pseudonyms
INSERT INTO agent.pseudonyms
    (conversation_id, value_sha256, pseudonym_sha256, tenant, value, pseudonym, kind, canonical, number)
SELECT :conversation_id::text, b.value_sha256, b.pseudonym_sha256, :tenant::text, b.value, b.pseudonym, b.kind,
    b.canonical, b.number
FROM unnest(
    :value_sha256s::text[], :pseudonym_sha256s::text[], :values::text[], :pseudonyms::text[], :kinds::text[],
    :canonicals::text[], :numbers::int[]
) AS b (value_sha256, pseudonym_sha256, value, pseudonym, kind, canonical, number)

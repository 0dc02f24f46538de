-- name: load_conversation
SELECT c.tenant, c.conversation_id, c.agent, c.language, c.labels, c.visitor, c.created_at, c.created_by,
    c.opener_decides, c.ended_at, c.holder, c.holder_revision, c.operator, c.held_since, c.held_reason, c.told_seq,
    c.relayed_by, r.job_id, j.author, c.token_hash
FROM gateway.conversations AS c
LEFT JOIN read.conversations AS r ON r.tenant = c.tenant AND r.conversation_id = c.conversation_id
LEFT JOIN read.jobs AS j ON j.tenant = r.tenant AND j.job_id = r.job_id
WHERE c.tenant = :tenant AND c.conversation_id = :conversation_id

-- name: adopt_conversation
INSERT INTO gateway.conversations (tenant, conversation_id, agent, language, labels, created_at)
SELECT tenant, conversation_id, agent, language, labels, created_at FROM read.conversations
WHERE tenant = :tenant AND conversation_id = :conversation_id
ON CONFLICT DO NOTHING

-- name: open_conversation
INSERT INTO gateway.conversations
    (tenant, conversation_id, agent, language, labels, visitor, token_hash, token_expires_at, token_of, created_by,
    opener_decides, relayed_by)
VALUES (:tenant, :conversation_id, :agent, :language, :labels, :visitor, :token_hash,
    clock_timestamp() + make_interval(secs => :token_seconds::double precision), :created_by::text, :created_by::text,
    :opener_decides, :relayed_by)
ON CONFLICT DO NOTHING

-- name: note_relay
UPDATE gateway.conversations SET relayed_by = ltrim(relayed_by || ' ' || :holder)
WHERE tenant = :tenant AND conversation_id = :conversation_id AND :holder <> ALL (string_to_array(relayed_by, ' '))
    AND NOT (opener_decides AND created_by = :holder)

-- name: renew_token
-- The token before is good no more; without a hash, none is, also where the conversation has ended. One that its holder
-- has renewed stays whose it was: they name the one that they came with, which must be good still.
UPDATE gateway.conversations SET token_hash = :token_hash::text, token_of = coalesce(:taker, token_of),
    token_expires_at = clock_timestamp() + make_interval(secs => :token_seconds::double precision)
WHERE tenant = :tenant AND conversation_id = :conversation_id AND (ended_at IS NULL OR :token_hash::text IS NULL)
    AND (:came_with = '' OR (token_hash = :came_with AND token_expires_at > clock_timestamp()))
RETURNING token_expires_at

-- name: end_conversation
UPDATE gateway.conversations SET ended_at = clock_timestamp(), ended_by = :by
WHERE tenant = :tenant AND conversation_id = :conversation_id

-- name: mark_told
UPDATE gateway.conversations SET told_seq = greatest(told_seq, :number)
WHERE tenant = :tenant AND conversation_id = :conversation_id

-- name: post_messages
-- Messages whose conversations are still as they were when these were written, and no job's; and whose writers came with
-- no token, or with the one that is good.
effect AS (
    SELECT w.key
    FROM unnest(:post_keys::text[], :tenants::text[], :conversation_ids::text[], :revisions::int[], :askers::text[],
        :tokens::text[]) AS w (key, tenant, conversation_id, revision, askers, token)
    JOIN gateway.conversations c USING (tenant, conversation_id)
    WHERE c.ended_at IS NULL AND c.holder_revision = w.revision AND c.relayed_by = w.askers
        AND (w.token = '' OR c.token_hash = w.token) AND NOT EXISTS (
        SELECT FROM read.conversations r
        WHERE r.tenant = w.tenant AND r.conversation_id = w.conversation_id AND r.job_id IS NOT NULL
    )
)

-- name: known_texts
SELECT m.conversation_id, m.message_id, m.text
FROM unnest(:tenants::text[], :conversation_ids::text[], :message_ids::text[]) AS w (tenant, conversation_id, message_id)
JOIN read.messages m USING (tenant, conversation_id, message_id)

-- name: recent_conversations
SELECT c.conversation_id, c.created_at, first.title
FROM gateway.conversations c LEFT JOIN LATERAL (
    SELECT left(l.data ->> 'text', :title_max) AS title FROM read.log l
    WHERE l.tenant = c.tenant AND l.conversation_id = c.conversation_id AND l.type = 'message'
    ORDER BY l.seq LIMIT 1
) AS first ON true
WHERE c.tenant = :tenant AND c.created_by = :created_by
ORDER BY c.created_at DESC LIMIT :most

-- name: read_log
SELECT seq, type, at, data FROM read.log
WHERE tenant = :tenant AND conversation_id = :conversation_id AND seq > :after
ORDER BY seq LIMIT :most

-- name: surfaced_in
-- Approvals of jobs that calls of a conversation wait for, at any depth.
SELECT DISTINCT a.data ->> 'approval_id'
FROM read.log a
WHERE a.tenant = :tenant AND a.conversation_id = :conversation_id AND a.type = 'approval' AND a.data ->> 'call_id' IN (
    SELECT c.data ->> 'call_id' FROM read.log c
    WHERE c.tenant = :tenant AND c.conversation_id = :conversation_id AND c.type = 'tool_call'
        AND c.data ->> 'caller' IS NOT NULL
)

-- name: tail
-- `bytes`: of what is newer than an item. The newest is there whatever its size.
SELECT seq, type, at, data FROM (
    SELECT seq, type, at, data, coalesce(sum(octet_length(data::text)) OVER newer, 0) AS bytes
    FROM (
        SELECT seq, type, at, data FROM read.log
        WHERE tenant = :tenant AND conversation_id = :conversation_id
            AND (:types::text[] IS NULL OR type = ANY (:types))
        ORDER BY seq DESC LIMIT :most
    ) AS newest
    WINDOW newer AS (ORDER BY seq DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
) AS weighed
WHERE bytes < :bytes_max ORDER BY seq DESC

-- name: end_of_call
SELECT data FROM read.log
WHERE tenant = :tenant AND conversation_id = :conversation_id AND type = 'tool_call'
    AND data ->> 'call_id' = :call_id AND data ? 'kind'
ORDER BY seq DESC LIMIT 1

-- name: newest_number
SELECT coalesce(max(seq), 0) FROM read.log WHERE tenant = :tenant AND conversation_id = :conversation_id

-- name: running_turn
SELECT turn_id FROM read.conversations WHERE tenant = :tenant AND conversation_id = :conversation_id

-- name: load_words
-- What the agent said beside each held call, and the message that led to it: not where its turn has arguments that
-- people must not see, which the message may name.
SELECT w.approval_id, (
    SELECT l.data ->> 'quote' FROM read.log l
    WHERE l.tenant = w.tenant AND l.conversation_id = w.conversation_id AND l.type = 'approval'
        AND l.data ->> 'approval_id' = w.approval_id AND l.data ? 'quote'
    LIMIT 1
) AS quote, (
    SELECT left(m.text, 1000) FROM read.tool_calls c JOIN read.messages m USING (tenant, conversation_id, message_id)
    WHERE c.call_id = w.call_id AND c.tenant = w.tenant AND NOT EXISTS (
        SELECT FROM read.tool_calls o
        WHERE o.conversation_id = w.conversation_id AND o.turn_id = c.turn_id
            AND (o.arguments = '' OR position('•••' IN o.arguments) > 0)
    )
    LIMIT 1
) AS asked
FROM unnest(:tenants::text[], :conversation_ids::text[], :approval_ids::text[], :call_ids::text[])
    AS w (tenant, conversation_id, approval_id, call_id)

-- name: shows_approval
SELECT EXISTS (
    SELECT FROM read.log WHERE tenant = :tenant AND conversation_id = :conversation_id AND type = 'approval'
        AND data ->> 'approval_id' = :approval_id
) AS shown

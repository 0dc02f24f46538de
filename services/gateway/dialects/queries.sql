-- name: token_usage
-- A step is said at the moment of its items, after everything that it answers.
SELECT sum(input_tokens)::bigint AS read, sum(output_tokens)::bigint AS written FROM read.steps
WHERE tenant = :tenant AND conversation_id = :conversation_id
    AND said_at > coalesce(:since::timestamptz, '-infinity') AND said_at <= coalesce(:until::timestamptz, 'infinity')

-- name: written
SELECT seq, data ->> 'message_id' AS message_id, coalesce(data -> 'author' ->> 'id', '') AS author FROM read.log
WHERE tenant = :tenant AND conversation_id = :conversation_id AND type = 'message' AND data ->> 'role' = 'user'

-- name: is_of_chat
-- Frontends put what they found in files above what the user wrote, in the newest message alone: its end is compared.
SELECT count(*) = 0 OR bool_or(EXISTS (
    SELECT FROM unnest(:texts::text[]) AS t (text)
    WHERE right(chr(10) || (data ->> 'text'), length(t.text) + 1) = chr(10) || t.text
)) AS is_of_chat
FROM read.log
WHERE tenant = :tenant AND conversation_id = :conversation_id AND type = 'message' AND data ->> 'role' = 'user'

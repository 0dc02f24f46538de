-- name: token_usage
-- A step is said at the moment of its items, after everything that it answers.
SELECT sum(input_tokens)::bigint AS read, sum(output_tokens)::bigint AS written FROM read.steps
WHERE tenant = :tenant AND conversation_id = :conversation_id
    AND said_at > coalesce(:since::timestamptz, '-infinity') AND said_at <= coalesce(:until::timestamptz, 'infinity')

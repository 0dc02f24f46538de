-- name: move_holder
UPDATE gateway.conversations
SET holder = :holder, holder_revision = :revision, operator = :operator, held_reason = :reason,
    held_since = CASE WHEN :by_people::boolean THEN coalesce(held_since, clock_timestamp()) END
WHERE tenant = :tenant AND conversation_id = :conversation_id AND ended_at IS NULL
    AND holder = :holder_before AND holder_revision = :revision - 1
RETURNING holder_revision

-- name: list_held
SELECT c.conversation_id, c.holder, c.operator, c.held_since, c.held_reason AS reason, c.agent, c.language,
    newest.text AS newest_text, newest.role AS newest_role, newest.at AS newest_at
FROM (
    -- The constant is `placet.gateway.store.paging.ROWS_MAX`.
    SELECT * FROM gateway.conversations AS c
    WHERE c.tenant = :tenant AND c.held_since IS NOT NULL AND c.ended_at IS NULL
        AND (:state::text IS NULL OR c.holder = :state)
        AND (:after_at::timestamptz IS NULL OR (c.held_since, c.conversation_id) < (:after_at, :after_id::text))
    ORDER BY c.held_since DESC, c.conversation_id DESC LIMIT 201
) AS c LEFT JOIN LATERAL (
    SELECT left(l.data ->> 'text', :title_max) AS text, l.data ->> 'role' AS role, l.at FROM read.log l
    WHERE l.tenant = c.tenant AND l.conversation_id = c.conversation_id AND l.type = 'message'
        AND l.data ->> 'text' <> ''
    ORDER BY l.seq DESC LIMIT 1
) AS newest ON true
ORDER BY c.held_since DESC, c.conversation_id DESC LIMIT :most

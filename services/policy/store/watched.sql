-- name: find
-- What stands in the way, of calls with the same terms one: a denial first, then the same arguments. Of those that
-- reach further it is said twice that they do, so that their index is found.
SELECT *
FROM (
    SELECT DISTINCT ON (approval) call_id, approval, denied_at, denied_by, reason, asked_at,
        arguments_digest = :arguments_digest AS same
    FROM policy.watched_calls
    WHERE tenant = :tenant AND tool = :tool AND call_id <> :call_id
        AND (
            conversation_id = :conversation_id
            OR (veto_within <> 'conversation' AND (veto_within = 'tenant' OR requester = :requester))
        )
        AND (arguments_digest = :arguments_digest OR veto_on = 'tool')
        AND (until IS NULL OR until > clock_timestamp())
    ORDER BY approval, denied_at IS NULL, arguments_digest = :arguments_digest DESC, denied_at DESC, asked_at DESC
) AS found
ORDER BY denied_at IS NULL, same DESC, denied_at DESC, asked_at DESC
LIMIT :most::integer

-- name: add
INSERT INTO policy.watched_calls (
    call_id, tenant, conversation_id, requester, tool, arguments_digest, veto_on, veto_within, window_seconds, approval,
    asked_at, denied_by, reason
)
VALUES (
    :call_id, :tenant, :conversation_id, :requester, :tool, :arguments_digest, :veto_on, :veto_within, :window_seconds,
    :approval, :asked_at, '', ''
)
ON CONFLICT DO NOTHING

-- name: add_revision
-- A waiting call under other arguments too; its row is locked, so that its end comes before or after.
INSERT INTO policy.watched_calls (
    call_id, tenant, conversation_id, requester, tool, arguments_digest, veto_on, veto_within, window_seconds, approval,
    asked_at, denied_by, reason
)
SELECT call_id, tenant, conversation_id, requester, tool, :arguments_digest, veto_on, veto_within, window_seconds,
    approval, asked_at, denied_by, reason
FROM policy.watched_calls WHERE call_id = :call_id AND tenant = :tenant AND denied_at IS NULL
LIMIT 1 FOR UPDATE
ON CONFLICT DO NOTHING

-- name: lock
-- Before the end is written in a statement of its own, which then sees what was added meanwhile.
SELECT call_id FROM policy.watched_calls
WHERE call_id = :call_id AND tenant = :tenant AND denied_at IS NULL FOR UPDATE

-- name: deny
UPDATE policy.watched_calls
SET denied_at = :at::timestamptz, until = :at::timestamptz + window_seconds * interval '1 second', denied_by = :by,
    reason = :reason
WHERE call_id = :call_id AND tenant = :tenant AND denied_at IS NULL

-- name: forget
DELETE FROM policy.watched_calls WHERE call_id = :call_id AND tenant = :tenant AND denied_at IS NULL

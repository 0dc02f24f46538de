-- name: usable
-- A condition, which stands where others say {usable}: a grant is not used up, revoked, void, over, or given with a key
-- that is revoked. Whoever showed no key cannot lose it: of these the directory is asked.
uses_left > 0 AND grants.revoked_at IS NULL AND void_at IS NULL AND expires_at > clock_timestamp()
    AND (key_id IS NULL OR EXISTS (
        SELECT FROM read.api_keys WHERE api_keys.key_id = grants.key_id AND api_keys.revoked_at IS NULL
    ))

-- name: add
INSERT INTO policy.grants (
    grant_id, tenant, approval_id, owner, key_id, rule, tool, schema_digest, tool_digest, scope, subject, arguments,
    shown_arguments, bounds, rulebook_digest, uses, uses_left, given_at, expires_at
)
VALUES (
    :grant_id, :tenant, :approval_id, :owner, :key_id, :rule, :tool, :schema_digest, :tool_digest, :scope, :subject,
    :arguments, :shown_arguments, :bounds, :rulebook_digest, :uses, :uses, :given_at, :expires_at
)
ON CONFLICT DO NOTHING RETURNING grant_id

-- name: find
-- Usable grants for a call; the one that ends first comes first. Their arguments are those of the call but for what
-- their bounds name, of which `within` says the rest. `jsonb` has no NUL, so another sign stands for it.
SELECT grant_id, owner, key_id, scope, bounds, uses, arguments, given_at, expires_at
FROM policy.grants
WHERE tenant = :tenant AND rule = :rule AND tool = :tool AND schema_digest = :schema_digest
    AND tool_digest = :tool_digest AND (
        (scope = 'conversation' AND subject = :conversation)
        OR (scope = 'agent' AND subject = :agent)
        OR (scope = 'tenant' AND subject = :tenant)
    )
    AND {usable}
    AND (
        SELECT replace(arguments, '\u0000', '\u0001')::jsonb - names
            = replace(:asked::text, '\u0000', '\u0001')::jsonb - names
        FROM (
            SELECT array(
                SELECT split_part(split_part(bound, '=', 1), '.', 1) FROM jsonb_array_elements_text(bounds) AS bound
            ) AS names
        ) AS varying
    )
ORDER BY expires_at, grant_id
LIMIT :most::integer

-- name: askers
SELECT people FROM read.askers WHERE tenant = :tenant AND conversation_id = :conversation_id

-- name: key_makers
-- What was asked with a key before it was taken over, or revoked, may be judged late.
SELECT created_by FROM read.key_makers
WHERE tenant = :tenant AND person = :person
    AND (taken_over_at IS NULL OR taken_over_at > clock_timestamp() - interval '1 day')
    AND (revoked_at IS NULL OR revoked_at > clock_timestamp() - interval '30 days')

-- name: lock
SELECT grant_id FROM policy.grants WHERE grant_id = :grant_id FOR UPDATE

-- name: use
-- One use of a locked grant that still is one, and for which call: no use without its row.
WITH used AS (
    UPDATE policy.grants SET uses_left = uses_left - 1 WHERE grant_id = :grant_id AND {usable}
    RETURNING grant_id, tenant, uses_left
)
INSERT INTO policy.grant_uses (call_id, grant_id, tenant, used_at)
SELECT :call_id, grant_id, tenant, clock_timestamp() FROM used
RETURNING (SELECT uses_left FROM used) AS uses_left

-- name: return_use
-- Once for each call.
WITH back AS (
    UPDATE policy.grant_uses SET returned_at = clock_timestamp()
    WHERE call_id = :call_id AND tenant = :tenant AND returned_at IS NULL
    RETURNING grant_id
)
UPDATE policy.grants AS g SET uses_left = uses_left + 1
FROM back WHERE g.grant_id = back.grant_id
RETURNING g.grant_id, uses_left, expires_at <= clock_timestamp() AS expired, revoked_at IS NOT NULL AS revoked,
    void_at IS NOT NULL AS void

-- name: void
-- What was given for another entry of its tool than the one there is now; what is over stays over.
UPDATE policy.grants AS g
SET void_at = clock_timestamp(), void_reason = CASE WHEN g.tool = ANY (:tools::text[])
    THEN 'the tool''s entry in the rulebook has changed' ELSE 'the rulebook has the tool no more' END
WHERE void_at IS NULL AND revoked_at IS NULL AND expires_at > clock_timestamp() AND NOT EXISTS (
    SELECT FROM unnest(:tools::text[], :digests::text[]) AS entry (name, digest)
    WHERE entry.name = g.tool AND entry.digest = g.tool_digest
)
RETURNING tenant, grant_id, void_reason, uses_left

-- name: revoke
UPDATE policy.grants SET revoked_at = clock_timestamp(), revoked_by = :by
WHERE grant_id = :grant_id AND tenant = :tenant AND revoked_at IS NULL
RETURNING uses_left, expires_at <= clock_timestamp() AS expired, void_at IS NOT NULL AS void

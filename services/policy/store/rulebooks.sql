-- name: turn
-- One activation at a time, whichever replica it is: "Rulebook" in ASCII.
SELECT pg_advisory_xact_lock(x'52756C65626F6F6B'::bigint)

-- name: newest
SELECT digest, source FROM policy.activations WHERE kind = :kind ORDER BY activated_at DESC LIMIT 1

-- name: add
INSERT INTO policy.activations (activation_id, kind, digest, activated_by, activated_at, source, diff)
VALUES (:activation_id, :kind, :digest, :activated_by, :activated_at, :source, :diff)

-- name: past
-- A page of the past, the newest first; `found` is how many it would have, did their bytes not count.
SELECT *
FROM (
    SELECT page.*, count(*) OVER () AS found, sum(octet_length(facts)) OVER (
        ORDER BY judged_at DESC, verdict_id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS bytes_before
    FROM (
        SELECT verdict_id, facts, effect, rule, approval, judged_at, call_id, tenant, conversation_id, requester, tool,
            digest, schema_digest
        FROM policy.verdicts
        WHERE tenant = :tenant AND judged_at > :now::timestamptz - :since::interval AND facts IS NOT NULL
            AND (judged_at, verdict_id) < (:at::timestamptz, :id::text)
        ORDER BY judged_at DESC, verdict_id DESC
        LIMIT :most::integer
    ) AS page
) AS sized
WHERE coalesce(bytes_before, 0) < :bytes::integer
ORDER BY judged_at DESC, verdict_id DESC

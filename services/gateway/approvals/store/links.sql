-- name: find_link
-- What was mailed before links had codes has none, and is no longer good.
SELECT token_hash, tenant, approval_id, person, coalesce(recipient, '') AS recipient, digest, code_hash,
    expires_at > now() AND code_hash <> '' AS alive
FROM read.links WHERE token_hash = :token_hash

-- name: find_use
-- A use is one no more where its decision was refused, or where nobody has heard of it for so long that it is lost.
SELECT u.verb, u.used_at, u.outcome = 'counted' OR coalesce(d.outcome = 'accepted', false) AS counted
FROM gateway.link_uses u LEFT JOIN read.decisions d ON d.decision_id = u.decision_id AND d.tenant = u.tenant
WHERE u.token_hash = :token_hash AND NOT (
    u.outcome = 'refused' OR (u.outcome = 'sent' AND coalesce(d.outcome <> 'accepted',
        u.used_at < now() - :sent_seconds::int * interval '1 second'))
)

-- name: use_links
-- No row comes back where a link was used before for what counted, or may have counted.
used AS (
    INSERT INTO gateway.link_uses (token_hash, tenant, approval_id, person, verb, decision_id, outcome)
    SELECT token_hash, tenant, approval_id, person, verb, decision_id, 'sent'
    FROM unnest(
        :hashes::text[], :tenants::text[], :approval_ids::text[], :people::text[], :verbs::text[],
        :link_decision_ids::text[]
    ) AS w (token_hash, tenant, approval_id, person, verb, decision_id)
    ON CONFLICT (token_hash) DO UPDATE
    SET verb = excluded.verb, decision_id = excluded.decision_id, outcome = 'sent', used_at = now()
    WHERE link_uses.outcome = 'refused' OR (link_uses.outcome = 'sent' AND coalesce(
        (SELECT d.outcome <> 'accepted' FROM read.decisions d
            WHERE d.decision_id = link_uses.decision_id AND d.tenant = link_uses.tenant),
        link_uses.used_at < now() - :sent_seconds::int * interval '1 second'
    ))
    RETURNING decision_id
), effect AS (
    SELECT decision_id AS key FROM unnest(:decision_ids::text[]) AS w (decision_id)
    WHERE decision_id <> ALL (:link_decision_ids::text[]) OR decision_id IN (SELECT decision_id FROM used)
)

-- name: settle_link
UPDATE gateway.link_uses SET outcome = :became WHERE decision_id = :decision_id AND outcome = 'sent'

-- name: mail_is_of
SELECT FROM read.mails WHERE tenant = :tenant AND mail_id = :mail_id LIMIT 1

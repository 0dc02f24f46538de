-- name: card_at
-- The approval whose card is a message in Slack, in one of the tenants of its workspace.
SELECT tenant, approval_id FROM read.slack_cards
WHERE channel = :channel AND ts = :ts AND tenant = ANY (:tenants::text[]) LIMIT 1

-- name: add
-- One that is there already stays as it is.
INSERT INTO notifier.webhook_events (
    event_id, tenant, webhook, type, body, state, attempt, fence, due_at, created_at, error
)
SELECT event_id, tenant, webhook, type, body, 'due', 0, 0, at, at, ''
FROM jsonb_to_recordset(:events) AS given (
    event_id text, tenant text, webhook text, type text, body text, at timestamptz
)
ORDER BY event_id
ON CONFLICT DO NOTHING

-- name: turn
-- Looks take turns: two at once would choose the same events, and one of them would go away with none.
SELECT pg_advisory_xact_lock(hashtext('placet_webhook_events'))

-- name: free
-- What a worker has may be taken again when its lease has ended; what failed is nobody's until its next try is due.
UPDATE notifier.webhook_events SET lease_until = NULL
WHERE event_id IN (
    SELECT event_id FROM notifier.webhook_events WHERE state = 'due' AND lease_until <= now()
    ORDER BY lease_until LIMIT 1000 FOR UPDATE SKIP LOCKED
)

-- name: claim
-- Tenants take turns at their webhook, and webhooks among all: the first event of each goes before the second of any.
-- However many wait, one look reads no more than a few of each, and nothing of whoever has nothing due now.
WITH RECURSIVE webhooks AS (
    SELECT min(webhook) AS webhook FROM notifier.webhook_events WHERE state = 'due' AND lease_until IS NULL
    UNION ALL
    SELECT (
        SELECT min(each.webhook) FROM notifier.webhook_events AS each
        WHERE state = 'due' AND lease_until IS NULL AND each.webhook > webhooks.webhook
    )
    FROM webhooks WHERE webhook IS NOT NULL
), lanes AS (
    SELECT webhook, '' AS tenant FROM webhooks WHERE webhook <> ALL (:but::text[])
    UNION ALL
    SELECT webhook, (
        SELECT min(each.tenant) FROM notifier.webhook_events AS each
        WHERE state = 'due' AND lease_until IS NULL AND each.webhook = lanes.webhook AND each.tenant > lanes.tenant
    )
    FROM lanes WHERE tenant IS NOT NULL
), found AS (
    SELECT event_id, webhook, due_at,
        row_number() OVER (PARTITION BY webhook, tenant ORDER BY due_at, event_id) AS turn
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT event_id, due_at FROM notifier.webhook_events AS each
        WHERE state = 'due' AND lease_until IS NULL AND each.webhook = lanes.webhook
            AND each.tenant = lanes.tenant AND due_at <= now()
        ORDER BY due_at LIMIT :share::integer
    ) AS first
), placed AS (
    SELECT event_id, due_at, row_number() OVER (PARTITION BY webhook ORDER BY turn, due_at, event_id) AS place
    FROM found
), due AS (
    SELECT event_id FROM notifier.webhook_events
    WHERE state = 'due' AND lease_until IS NULL AND event_id = ANY (
        ARRAY(SELECT event_id FROM placed WHERE place <= :share::integer ORDER BY place, due_at LIMIT :most::integer)
    )
    FOR UPDATE SKIP LOCKED
)
UPDATE notifier.webhook_events AS claimed
SET lease_until = now() + :lease::interval, attempt = attempt + 1, fence = fence + 1
FROM due WHERE claimed.event_id = due.event_id
RETURNING claimed.*

-- name: settle
UPDATE notifier.webhook_events AS e
SET state = given.state, error = given.error, due_at = given.due_at,
    lease_until = CASE WHEN given.state = 'due' THEN given.due_at END
FROM jsonb_populate_recordset(NULL::notifier.webhook_events, :ended) AS given
WHERE e.event_id = given.event_id AND e.fence = given.fence AND e.state = 'due'
RETURNING e.event_id

-- name: lock
SELECT webhook, type, state FROM notifier.webhook_events WHERE event_id = :event_id AND tenant = :tenant FOR UPDATE

-- name: restart
UPDATE notifier.webhook_events SET state = :state, due_at = :at, attempt = 0, error = '' WHERE event_id = :event_id

-- name: forget
DELETE FROM notifier.webhook_events
WHERE event_id IN (
    SELECT event_id FROM notifier.webhook_events WHERE state <> 'due' AND created_at < now() - :age::interval
    FOR UPDATE SKIP LOCKED
)

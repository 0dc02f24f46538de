-- Deliveries and places come as JSON, an array of objects. Who reads by `taken` has these calls (see `calls`).

-- name: add
INSERT INTO notifier.deliveries (
    delivery_id, tenant, approval_id, call_id, channel, recipient, person, state, pending, rank, topic, urgent, tell_by,
    revision, sent_revision, version, sent_version, card, reference, joint, attempt, fence, due_at, updated_at, error,
    alerted
)
SELECT
    delivery_id, tenant, approval_id, call_id, channel, recipient, person, state, pending, rank, topic, urgent, tell_by,
    revision, sent_revision, version, sent_version, card, reference, joint, attempt, fence, due_at, :now::timestamptz,
    error, alerted
FROM jsonb_populate_recordset(NULL::notifier.deliveries, :added) AS given
ORDER BY delivery_id
ON CONFLICT DO NOTHING RETURNING delivery_id

-- name: have_cards
SELECT 1 FROM notifier.deliveries
WHERE approval_id = ANY (:approval_ids::text[]) OR call_id = ANY (:call_ids::text[]) LIMIT 1

-- name: lock_approvals
SELECT * FROM notifier.deliveries WHERE approval_id = ANY (:ids::text[]) AND call_id = ANY (:taken::text[])
ORDER BY delivery_id FOR UPDATE

-- name: lock_calls
SELECT * FROM notifier.deliveries WHERE call_id = ANY (:ids::text[]) AND call_id = ANY (:taken::text[])
ORDER BY delivery_id FOR UPDATE

-- name: lock
SELECT * FROM notifier.deliveries WHERE delivery_id = ANY (:ids::text[]) AND call_id = ANY (:taken::text[])
ORDER BY delivery_id FOR UPDATE

-- name: load
SELECT * FROM notifier.deliveries WHERE delivery_id = ANY (:ids::text[])

-- name: change
-- Claims and settlements have the rest.
UPDATE notifier.deliveries AS d
SET state = given.state, pending = given.pending, urgent = given.urgent, alerted = given.alerted,
    revision = given.revision, sent_revision = given.sent_revision, version = given.version,
    sent_version = given.sent_version, card = given.card, reference = given.reference, joint = given.joint,
    attempt = given.attempt, due_at = given.due_at, tell_by = given.tell_by, error = given.error, updated_at = now()
FROM jsonb_populate_recordset(NULL::notifier.deliveries, :changed) AS given
WHERE d.delivery_id = given.delivery_id

-- name: settle
UPDATE notifier.deliveries AS d
SET state = given.state, sent_revision = given.sent_revision, sent_version = given.sent_version,
    reference = given.reference, attempt = given.attempt, due_at = given.due_at, error = given.error,
    lease_until = NULL, updated_at = now()
FROM jsonb_populate_recordset(NULL::notifier.deliveries, :settled) AS given
WHERE d.delivery_id = given.delivery_id AND d.fence = given.fence

-- name: claimable
-- Due deliveries of channels that do not rest: the longest due first, of these the oldest approvals. A busy place is
-- named as its tenant has it, or without one where all have it.
SELECT d.* FROM notifier.deliveries AS d
WHERE d.state = 'due' AND d.due_at <= now() AND (d.lease_until IS NULL OR d.lease_until < now())
  AND CASE WHEN :among::boolean THEN split_part(d.channel, ':', 1) = ANY (:kinds::text[])
           ELSE split_part(d.channel, ':', 1) <> ALL (:kinds::text[]) END
  AND ' ' || d.channel || ' ' || d.recipient <> ALL (:busy::text[])
  AND d.tenant || ' ' || d.channel || ' ' || d.recipient <> ALL (:busy::text[])
  AND NOT EXISTS (
      SELECT FROM notifier.paces AS p
      WHERE p.tenant IN (d.tenant, '') AND p.channel = d.channel AND p.free_at > now()
  )
ORDER BY d.due_at, d.approval_id, d.delivery_id
LIMIT :most::integer
FOR UPDATE SKIP LOCKED

-- name: company
-- What waits at addresses for its first mail, due or not, and before it, all that was tried in one of these mails.
SELECT d.*
FROM jsonb_to_recordset(:places) AS place (tenant text, channel text, recipient text)
JOIN notifier.deliveries AS d USING (tenant, channel, recipient)
WHERE d.pending AND d.state = 'due' AND (d.lease_until IS NULL OR d.lease_until < now()) AND d.sent_version = 0
  AND NOT d.urgent AND (d.fence = 0 OR d.joint = ANY (:joints::text[]))
ORDER BY coalesce(d.joint = ANY (:joints::text[]), false) DESC, d.due_at, d.approval_id, d.delivery_id
LIMIT :most::integer
FOR UPDATE OF d SKIP LOCKED

-- name: claim
UPDATE notifier.deliveries AS d
SET lease_until = now() + :lease::interval, fence = fence + 1, attempt = attempt + 1, joint = given.joint,
    reference = coalesce(reference, '{}') || :doubt::jsonb
FROM unnest(:ids::text[], :joints::text[]) AS given (delivery_id, joint)
WHERE d.delivery_id = given.delivery_id

-- name: pause
INSERT INTO notifier.paces AS p (tenant, channel, free_at)
SELECT tenant, channel, free_at FROM jsonb_populate_recordset(NULL::notifier.paces, :paces) AS given
ORDER BY tenant, channel
ON CONFLICT (tenant, channel) DO UPDATE SET free_at = greatest(p.free_at, excluded.free_at)

-- name: pace
-- Until when channels are spoken for; nobody else speaks for them meanwhile.
INSERT INTO notifier.paces AS p (tenant, channel, free_at)
SELECT tenant, channel, now() - interval '1 minute' FROM jsonb_populate_recordset(NULL::notifier.paces, :paces) AS given
ORDER BY tenant, channel
ON CONFLICT (tenant, channel) DO UPDATE SET free_at = p.free_at
RETURNING tenant, channel, free_at

-- name: queue_up
-- One transaction at a time counts what waits at an address. For who has locked no delivery yet.
SELECT pg_advisory_xact_lock(key)
FROM (
    SELECT hashtextextended(concat_ws(chr(31), tenant, channel, recipient), 0) AS key
    FROM jsonb_to_recordset(:places) AS place (tenant text, channel text, recipient text)
    ORDER BY key
) AS ordered

-- name: try_places
-- Takes those addresses that are free to be counted, without waiting: for who has locked deliveries.
SELECT tenant, channel, recipient
FROM jsonb_to_recordset(:places) AS place (tenant text, channel text, recipient text)
WHERE pg_try_advisory_xact_lock(hashtextextended(concat_ws(chr(31), tenant, channel, recipient), 0))

-- name: shown
-- By topic what is shown at addresses, or is being sent there, while its approval waits.
SELECT tenant, channel, recipient, topic, count(*) AS cards
FROM jsonb_to_recordset(:places) AS place (tenant text, channel text, recipient text)
JOIN notifier.deliveries USING (tenant, channel, recipient)
WHERE pending AND state IN ('due', 'sent') AND fence > 0
GROUP BY tenant, channel, recipient, topic

-- name: crowded
-- Addresses where cards are kept back, or where a card says that some are.
SELECT DISTINCT tenant, channel, recipient FROM notifier.deliveries
WHERE pending AND (state = 'kept' OR card ->> 'similar' <> '0' OR card ->> 'held_back' <> '0')
LIMIT :most::integer

-- name: waiting
-- What waits at one address, shown or kept back.
SELECT * FROM notifier.deliveries
WHERE pending AND state IN ('due', 'kept', 'sent')
  AND tenant = :tenant AND channel = :channel AND recipient = :recipient

-- name: free
-- What of it nobody else has locked.
SELECT delivery_id FROM notifier.deliveries
WHERE pending AND state IN ('due', 'kept', 'sent')
  AND tenant = :tenant AND channel = :channel AND recipient = :recipient
FOR UPDATE SKIP LOCKED

-- name: untold
-- Pending approvals that may be known to nobody: a card was given up, waits too long, or would come too late. A card
-- that is shown, or is kept back and not too late yet, is looked at for its own sake.
SELECT approval_id
FROM (
    SELECT d.approval_id FROM notifier.deliveries AS d
    WHERE d.pending AND NOT d.alerted AND d.state = 'given_up' AND NOT EXISTS (
        SELECT FROM notifier.deliveries AS other
        WHERE other.approval_id = d.approval_id
          AND (other.state = 'sent' OR (other.state = 'kept' AND other.tell_by IS NOT NULL))
    )
    UNION
    SELECT approval_id FROM notifier.deliveries
    WHERE pending AND sent_version = 0 AND tell_by IS NOT NULL AND state IN ('due', 'kept') AND tell_by <= now()
    UNION
    -- Said twice, so that the index of these rows is found.
    SELECT approval_id FROM notifier.deliveries
    WHERE pending AND sent_version = 0 AND tell_by IS NOT NULL AND state IN ('due', 'kept')
      AND state = 'due' AND due_at >= tell_by
) AS found
LIMIT :most::integer

-- What every service's inbox, outbox and history are asked; {schema} is the service's.

-- name: clock
SELECT clock_timestamp()

-- What a connection learns when it is made.
-- name: restored
SELECT restored_at, backup_at FROM "read".restores ORDER BY restored_at DESC LIMIT 1

-- name: known
SELECT message_id FROM {schema}.inbox WHERE queue = :queue AND message_id = ANY (:ids::text[])

-- name: probe
SELECT 1 FROM {schema}.outbox LIMIT 0

-- Ids in order, so that two envelopes with the same events cannot lock each other out.
-- name: take_new
INSERT INTO {schema}.inbox (message_id, queue)
SELECT id, :queue FROM unnest(:ids::text[]) AS given (id) ORDER BY id
ON CONFLICT DO NOTHING RETURNING message_id, now()

-- Copies come within minutes where services run; but queues drop nothing for its age, so a copy that comes later than
-- this after the first one was handled is stopped by the keys of the service's tables alone.
-- name: forget_old
WITH gone AS (
    DELETE FROM {schema}.inbox WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM {schema}.inbox WHERE handled_at < now() - interval '7 days' LIMIT :most
    ))
    RETURNING 1
)
SELECT count(*) FROM gone

-- name: forget_sent
DELETE FROM {schema}.outbox WHERE id = ANY(:ids::text[])

-- Ids are in the order of time.
-- name: outbox_age
SELECT coalesce((
    SELECT extract(epoch FROM clock_timestamp() - created_at) FROM {schema}.outbox ORDER BY id LIMIT 1
), 0)::float8 AS seconds

-- The relay's own rows of a sweep are nobody else's for as long as fresh ones are their writer's.
-- name: take_due
UPDATE {schema}.outbox SET due_at = now() + interval '5 seconds'
WHERE id IN (
    SELECT id FROM {schema}.outbox WHERE due_at <= now() ORDER BY id LIMIT :most FOR UPDATE SKIP LOCKED
)
RETURNING id, exchange, key, batch, mandatory, events

-- Parts of the statement that `Work` puts together.
-- name: fresh
fresh AS (
    INSERT INTO {schema}.inbox (message_id, queue)
    SELECT id, :_queue FROM unnest(:_arrived::text[]) AS given (id) ORDER BY id
    ON CONFLICT DO NOTHING RETURNING message_id
)

-- name: noted
noted AS (
    INSERT INTO {schema}.history (
        tenant, machine, subject_id, event, from_state, to_state, actor, call_id, detail, message_id
    )
    SELECT tenant, machine, subject_id, event, from_state, to_state, actor, call_id, detail, message_id
    FROM jsonb_to_recordset(:_changes) AS given (
        tenant text, machine text, subject_id text, event text, from_state text, to_state text, actor text,
        call_id text, detail jsonb, message_id text, key text
    ) {where}
)

-- name: sent
sent AS (
    INSERT INTO {schema}.outbox (id, exchange, key, batch, mandatory, events)
    SELECT id, exchange, given.route, batch, mandatory, array_agg(event ORDER BY number)
    FROM unnest(
        :_ids::text[], :_exchanges::text[], :_routes::text[], :_batches::smallint[], :_mandatory::boolean[],
        :_events::text[], :_keys::text[]
    ) WITH ORDINALITY AS given (id, exchange, route, batch, mandatory, event, key, number) {where}
    GROUP BY id, exchange, given.route, batch, mandatory
)

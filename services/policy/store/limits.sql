-- name: lock
-- Makes the counters that are missing and locks all of them, in the order of their ids.
INSERT INTO policy.counters (counter_id, tenant, rule, measure, per, subject, touched_at)
SELECT given.*, clock_timestamp()
FROM unnest(
    :counter_id::text[], :tenant::text[], :rule::text[], :measure::text[], :per::text[], :subject::text[]
) AS given (counter_id, tenant, rule, measure, per, subject)
ORDER BY given.counter_id
ON CONFLICT (counter_id) DO UPDATE SET touched_at = excluded.touched_at

-- name: lock_free
SELECT counter_id FROM policy.counters WHERE counter_id = ANY (:counter_ids::text[])
ORDER BY counter_id FOR UPDATE NOWAIT

-- name: take
-- What is asked of every limit, or nothing at all. The counters must be locked.
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
demand AS (
    SELECT * FROM unnest(:counter_ids::text[], :amounts::numeric[], :most::numeric[], :windows::integer[])
        AS d (counter_id, amount, at_most, seconds)
),
taken AS (
    SELECT d.amount, d.at_most, coalesce(sum(r.amount), 0) AS used
    FROM demand d CROSS JOIN moment m LEFT JOIN policy.reservations r
        ON r.counter_id = d.counter_id AND r.released_at IS NULL
        AND r.reserved_at > m.now - make_interval(secs => d.seconds)
    GROUP BY d.counter_id, d.amount, d.at_most, d.seconds
)
INSERT INTO policy.reservations (counter_id, call_id, tenant, amount, reserved_at)
SELECT DISTINCT d.counter_id, :call_id::text, :tenant::text, d.amount, m.now
FROM demand d CROSS JOIN moment m
WHERE NOT EXISTS (SELECT FROM taken WHERE used + amount > at_most)
RETURNING counter_id

-- name: reserved
SELECT counter_id, amount FROM policy.reservations
WHERE call_id = :call_id AND tenant = :tenant AND released_at IS NULL

-- name: give_back
UPDATE policy.reservations SET released_at = clock_timestamp(), released_as = :kind
WHERE call_id = :call_id AND tenant = :tenant AND released_at IS NULL

-- name: wait_now
SELECT current_setting('lock_timeout')

-- name: wait_at_most
SELECT set_config('lock_timeout', :wait, true)

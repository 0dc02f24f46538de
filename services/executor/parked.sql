-- Permits that wait for their tenant's turn. Times are the database's clock, never a worker's.

-- name: count_parked
SELECT pool, count(*) AS calls FROM executor.parked WHERE pool = ANY (:pools::text[]) GROUP BY pool

-- name: some_tenants
SELECT DISTINCT tenant FROM read.api_keys WHERE revoked_at IS NULL LIMIT 2

-- name: park
INSERT INTO executor.parked (event_id, pool, tenant, body, parked_at)
VALUES (:event_id, :pool, :tenant, :body, clock_timestamp())
ON CONFLICT DO NOTHING

-- name: take_parked
-- The longest parked of each tenant up to its share, who has fewest slots first; and each tenant of which some are
-- parked, one after the other from the index.
WITH RECURSIVE tenants AS (
    SELECT min(tenant) AS tenant FROM executor.parked WHERE pool = ANY (:pools::text[])
    UNION ALL
    SELECT (SELECT min(p.tenant) FROM executor.parked AS p WHERE p.tenant > t.tenant AND p.pool = ANY (:pools::text[]))
    FROM tenants AS t WHERE t.tenant IS NOT NULL
), placed AS (
    SELECT p.event_id, coalesce(b.busy, 0) + row_number() OVER (PARTITION BY t.tenant ORDER BY p.parked_at) AS place
    FROM tenants AS t LEFT JOIN unnest(:tenants::text[], :busy::integer[]) AS b (tenant, busy) USING (tenant)
    CROSS JOIN LATERAL (
        SELECT event_id, parked_at FROM executor.parked AS each
        WHERE each.tenant = t.tenant AND pool = ANY (:pools::text[])
            AND (lent_until IS NULL OR lent_until <= (SELECT clock_timestamp()))
        ORDER BY parked_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ) AS p
), lent AS (
    UPDATE executor.parked SET lent_until = clock_timestamp() + :lent::interval
    WHERE event_id = ANY (ARRAY(SELECT event_id FROM placed WHERE place <= :most ORDER BY place LIMIT :limit))
    RETURNING event_id, pool, tenant, body, parked_at
)
SELECT event_id, pool, tenant, body, parked_at FROM lent
UNION ALL
SELECT NULL, '', tenant, '', NULL FROM tenants WHERE tenant IS NOT NULL
ORDER BY parked_at

-- name: keep_parked
-- Behind the others of its tenant: what it comes after may be one of them.
UPDATE executor.parked SET lent_until = clock_timestamp() + :pause::interval, parked_at = clock_timestamp()
WHERE event_id = :event_id

-- name: forget_parked
DELETE FROM executor.parked WHERE event_id = :event_id

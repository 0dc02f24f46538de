-- Permits that wait for their turn. Times are the database's clock, never a worker's.

-- name: count_parked
-- Calls that could run beside each other: of an answer one.
SELECT pool, count(DISTINCT coalesce(answer_id, event_id)) AS calls FROM executor.parked WHERE pool = ANY (:pools::text[]) GROUP BY pool

-- name: some_tenants
SELECT DISTINCT tenant FROM read.api_keys WHERE revoked_at IS NULL LIMIT 2

-- name: park
INSERT INTO executor.parked (event_id, pool, tenant, body, answer_id, position, expires_at, parked_at)
SELECT given.*, clock_timestamp() FROM unnest(
    :event_ids::text[], :pools::text[], :tenants::text[], :bodies::text[], :answers::text[], :positions::integer[],
    :ends::timestamptz[]
) AS given
ORDER BY 1
ON CONFLICT DO NOTHING

-- name: take_parked
-- The longest parked of each tenant up to its share, who has fewest slots first; and each tenant of which some are
-- parked, one after the other from the index. Of the calls of an answer the first, where none of them runs; what has
-- expired is answered at once.
WITH RECURSIVE tenants AS (
    SELECT min(tenant) AS tenant FROM executor.parked WHERE pool = ANY (:pools::text[])
    UNION ALL
    SELECT (SELECT min(p.tenant) FROM executor.parked AS p WHERE p.tenant > t.tenant AND p.pool = ANY (:pools::text[]))
    FROM tenants AS t WHERE t.tenant IS NOT NULL
), placed AS (
    SELECT p.event_id, t.tenant, coalesce(b.busy, 0) + row_number() OVER (PARTITION BY t.tenant ORDER BY p.parked_at) AS place
    FROM tenants AS t LEFT JOIN unnest(:tenants::text[], :busy::integer[]) AS b (tenant, busy) USING (tenant)
    CROSS JOIN LATERAL (
        SELECT event_id, parked_at FROM executor.parked AS each
        WHERE each.tenant = t.tenant AND pool = ANY (:pools::text[])
            AND (lent_until IS NULL OR lent_until <= (SELECT clock_timestamp()))
            AND (
                answer_id IS NULL OR expires_at <= (SELECT clock_timestamp())
                OR NOT EXISTS (
                    SELECT FROM executor.executions AS x
                    WHERE x.answer_id = each.answer_id AND x.state IN ('running', 'verifying', 'committing')
                ) AND NOT EXISTS (
                    SELECT FROM executor.parked AS b
                    WHERE b.answer_id = each.answer_id AND b.position < each.position
                )
            )
        ORDER BY parked_at LIMIT :limit FOR UPDATE SKIP LOCKED
    ) AS p
), lent AS (
    UPDATE executor.parked SET lent_until = clock_timestamp() + :lent::interval
    WHERE event_id = ANY (ARRAY(SELECT event_id FROM placed WHERE place <= :most ORDER BY place LIMIT :limit))
    RETURNING event_id, pool, tenant, body, parked_at
)
SELECT event_id, pool, tenant, body, parked_at, true AS may_begin FROM lent
UNION ALL
SELECT NULL, '', tenant, '', NULL, EXISTS (SELECT FROM placed WHERE placed.tenant = tenants.tenant)
FROM tenants WHERE tenant IS NOT NULL
ORDER BY parked_at

-- name: keep_parked
-- Behind the others of its tenant: what it comes after may be one of them.
UPDATE executor.parked SET lent_until = clock_timestamp() + :pause::interval, parked_at = clock_timestamp()
WHERE event_id = :event_id

-- name: forget_parked
DELETE FROM executor.parked WHERE event_id = :event_id

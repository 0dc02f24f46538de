-- name: take
-- In the order of their keys, so that two transactions cannot lock each other out.
SELECT ordered.name, pg_advisory_xact_lock(ordered.key)
FROM (
    SELECT named.name, hashtextextended(concat_ws(chr(31), 'call', named.name), 0) AS key
    FROM (
        SELECT unnest(:names::text[]) AS name
        UNION
        SELECT call_id FROM notifier.deliveries WHERE approval_id = ANY (:approval_ids::text[])
        UNION
        SELECT call_id FROM notifier.deliveries WHERE delivery_id = ANY (:delivery_ids::text[])
    ) AS named
    ORDER BY key
) AS ordered

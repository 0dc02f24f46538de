-- At most so many that are older than an age; what others have locked is left for the next look.

-- name: reservations
WITH due AS (
    SELECT counter_id, call_id FROM policy.reservations WHERE reserved_at < clock_timestamp() - :age::interval
    ORDER BY reserved_at LIMIT :most::integer FOR UPDATE SKIP LOCKED
)
DELETE FROM policy.reservations AS r USING due WHERE r.counter_id = due.counter_id AND r.call_id = due.call_id
RETURNING 1

-- name: counters
-- A counter goes after its last reservation.
WITH due AS (
    SELECT counter_id FROM policy.counters AS c
    WHERE touched_at < clock_timestamp() - :age::interval
        AND NOT EXISTS (SELECT FROM policy.reservations AS r WHERE r.counter_id = c.counter_id)
    ORDER BY touched_at LIMIT :most::integer FOR UPDATE SKIP LOCKED
)
DELETE FROM policy.counters AS c USING due WHERE c.counter_id = due.counter_id
RETURNING 1

-- name: watched_calls
-- Of one that people have not decided the end is still to come; `until` is set by a denial.
WITH due AS (
    SELECT call_id, arguments_digest FROM policy.watched_calls WHERE until < clock_timestamp() - :age::interval
    ORDER BY until LIMIT :most::integer FOR UPDATE SKIP LOCKED
)
DELETE FROM policy.watched_calls AS w USING due
WHERE w.call_id = due.call_id AND w.arguments_digest = due.arguments_digest
RETURNING 1

-- name: read_whole
-- One moment for all that follows in the transaction.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: begin
INSERT INTO gateway.sealing (singleton, upto)
SELECT true, '{}' WHERE NOT EXISTS (SELECT FROM gateway.sealing) ON CONFLICT DO NOTHING

-- name: sealed_upto
SELECT upto FROM gateway.sealing

-- name: take_upto
SELECT upto FROM gateway.sealing FOR UPDATE SKIP LOCKED

-- name: keep_upto
UPDATE gateway.sealing SET upto = :upto

-- name: newest
-- The newest row that a service wrote, how long its oldest unsealed one waits, the last id that the service took, and
-- the highest id of all. Rows are those of the statement's beginning, and the sequence is asked later: none that a
-- service wrote is beyond it.
SELECT
    coalesce((
        SELECT id FROM read.history WHERE service = :service AND id <= ids.last ORDER BY id DESC LIMIT 1
    ), 0)::bigint AS id,
    coalesce((
        SELECT extract(epoch FROM clock_timestamp() - at) FROM read.history
        WHERE service = :service AND id > :after ORDER BY id LIMIT 1
    ), 0)::float8 AS age,
    ids.last,
    coalesce((SELECT id FROM read.history WHERE service = :service ORDER BY id DESC LIMIT 1), 0)::bigint AS highest
FROM read.history_ids AS ids WHERE ids.service = :service

-- name: writers
-- Who may still commit rows: whoever writes a table locks it, before a row gets its id, until the commit is seen.
SELECT s.nspname AS service, l.pid || '/' || l.virtualtransaction AS writer
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation
JOIN pg_namespace AS s ON s.oid = c.relnamespace
WHERE c.relname = 'history' AND l.mode = 'RowExclusiveLock'
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: leaves
SELECT tenant, id, sha256('\x00'::bytea || convert_to(line, 'UTF8')) AS leaf FROM read.history
WHERE service = :service AND id > :after AND id <= :upto ORDER BY id LIMIT :most

-- name: rows
-- The columns that pages and API show. Their text is made by who verifies it: whoever administers the database may have
-- taught it another one (CREATE CAST). `concat` writes a value in its type's own way.
SELECT service, id, at, tenant, machine, subject_id, call_id, event, from_state, to_state, message_id, actor, salt,
    pg_catalog.concat(detail) AS detail
FROM read.history WHERE service = :service AND tenant = :tenant AND id > :after AND id <= :upto ORDER BY id

-- name: strays
-- Rows that no block can have: ids begin at 1, and what was purged is gone whole.
SELECT count(*) AS rows FROM read.history WHERE service = :service AND tenant = :tenant AND id <= :upto

-- name: unsealed
SELECT count(*) AS rows, min(at) AS oldest FROM read.history
WHERE service = :service AND tenant = :tenant AND id > :after

-- name: head
SELECT token FROM gateway.checkpoints WHERE tenant = :tenant ORDER BY number DESC LIMIT 1

-- name: heads
-- One step for each tenant, however long its chain is.
WITH RECURSIVE heads AS (
    (SELECT tenant, token, sealed_at FROM gateway.checkpoints ORDER BY tenant DESC, number DESC LIMIT 1)
    UNION ALL
    SELECT c.tenant, c.token, c.sealed_at FROM heads, LATERAL (
        SELECT tenant, token, sealed_at FROM gateway.checkpoints
        WHERE tenant < heads.tenant ORDER BY tenant DESC, number DESC LIMIT 1
    ) AS c
)
SELECT token FROM heads ORDER BY sealed_at DESC

-- name: checkpoints
SELECT number, token FROM gateway.checkpoints WHERE tenant = :tenant AND number > :after ORDER BY number LIMIT :most

-- name: checkpoint
SELECT token FROM gateway.checkpoints WHERE tenant = :tenant AND number = :number

-- name: add
INSERT INTO gateway.checkpoints (tenant, number, token) VALUES (:tenant, :number, :token)

-- name: tenants
SELECT tenant FROM gateway.checkpoints UNION SELECT tenant FROM read.history ORDER BY tenant

-- name: ends
SELECT
    coalesce((SELECT id FROM read.history WHERE service = '{service}' ORDER BY id LIMIT 1), 0)::bigint AS lowest,
    coalesce((SELECT id FROM read.history WHERE service = '{service}' ORDER BY id DESC LIMIT 1), -1)::bigint AS highest

-- name: newest_before
SELECT id FROM read.history WHERE service = '{service}' AND id < :id ORDER BY id DESC LIMIT 1

-- name: written_at
SELECT at FROM read.history WHERE service = '{service}' AND id >= :id ORDER BY id LIMIT 1

-- name: first_since
-- No index knows times; they follow the ids, so halving finds one. Behind the last id there may be none that a bigint
-- holds; rows are asked for by what is between.
WITH RECURSIVE half AS (
    SELECT :lowest::bigint::numeric AS low, :highest::bigint + 1::numeric AS high
    UNION ALL
    SELECT CASE WHEN earlier THEN middle + 1 ELSE low END, CASE WHEN earlier THEN high ELSE middle END
    FROM (
        SELECT low, high, low + div(high - low, 2) AS middle, coalesce((
            SELECT at < :at FROM read.history
            WHERE service = '{service}' AND id >= (low + div(high - low, 2))::bigint ORDER BY id LIMIT 1
        ), false) AS earlier
        FROM half WHERE low < high
    ) AS each
)
SELECT max(low) AS id FROM half

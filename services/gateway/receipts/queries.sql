-- name: permit
SELECT permit FROM read.executions WHERE tenant = :tenant AND call_id = :call_id

-- name: schema_digest
SELECT schema_digest FROM read.verdicts WHERE tenant = :tenant AND call_id = :call_id

-- name: votes
SELECT decision_id, person, verb, reason, digest, revision, proof, key_id, outcome,
    counted_revision IS NOT NULL AS counted, decided_at, signed
FROM read.decisions WHERE tenant = :tenant AND approval_id = :approval_id ORDER BY decided_at, decision_id LIMIT :most

-- name: history
SELECT service, id, line, salt, CASE WHEN salt IS NOT NULL THEN said END AS said
FROM read.history WHERE tenant = :tenant AND call_id = :call_id ORDER BY at, service, id LIMIT :most

-- name: erasures
-- Erasures that name a row by the digest that it keeps.
SELECT id FROM gateway.history
WHERE tenant = :tenant AND machine = 'erasure' AND event = 'erased' AND detail -> 'said' @> to_jsonb(:said::text)

-- name: ends
SELECT coalesce(min(number), 1) AS oldest, coalesce(max(number), 0) AS newest FROM gateway.checkpoints WHERE tenant = :tenant

-- name: leaves
SELECT id, sha256('\x00'::bytea || convert_to(line, 'UTF8')) AS leaf FROM read.history
WHERE service = :service AND tenant = :tenant AND id > :after AND id <= :upto ORDER BY id

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
-- Erasures that name rows by the digests that these keep. No index knows them: it is asked once for a receipt.
SELECT h.id, named.said FROM gateway.history AS h, jsonb_array_elements_text(h.detail -> 'said') AS named (said)
WHERE h.tenant = :tenant AND h.machine = 'erasure' AND h.event = 'erased' AND named.said = ANY (:said::text[])

-- name: ends
SELECT coalesce(min(number), 1) AS oldest, coalesce(max(number), 0) AS newest FROM gateway.checkpoints WHERE tenant = :tenant

-- name: leaves
SELECT id, sha256('\x00'::bytea || convert_to(line, 'UTF8')) AS leaf FROM read.history
WHERE service = :service AND tenant = :tenant AND id > :after AND id <= :upto ORDER BY id

-- name: list_askers
-- Nearly as the gateway says it when people decide, but by the time of the first card. Who was told something in a
-- job's conversation asks where the job was called too; and where no conversation called it, in all its attempts.
WITH RECURSIVE held AS (
    SELECT * FROM unnest(
        :approval_ids::text[], :tenants::text[], :conversation_ids::text[], :requesters::text[], :committed::text[]
    ) AS h (approval_id, tenant, conversation_id, requester, committed)
), up AS (
    SELECT approval_id, tenant, conversation_id, 0 AS depth FROM held
    UNION ALL
    SELECT up.approval_id, up.tenant, j.spec -> 'caller' ->> 'conversation_id', up.depth + 1
    FROM up
    JOIN read.conversations AS c USING (tenant, conversation_id)
    JOIN read.jobs AS j USING (tenant, job_id)
    WHERE j.spec -> 'caller' ->> 'conversation_id' IS NOT NULL AND up.depth < 100
), outermost AS (
    SELECT DISTINCT ON (up.approval_id) up.approval_id, up.tenant, up.conversation_id, c.job_id
    FROM up LEFT JOIN read.conversations AS c USING (tenant, conversation_id)
    ORDER BY up.approval_id, up.depth DESC
), places AS (
    SELECT approval_id, tenant, conversation_id FROM held
    UNION
    SELECT approval_id, tenant, conversation_id FROM outermost
    UNION
    SELECT o.approval_id, a.tenant, a.conversation_id FROM outermost AS o JOIN read.job_attempts AS a USING (tenant, job_id)
)
SELECT p.approval_id, a.people FROM places AS p JOIN read.askers AS a USING (tenant, conversation_id)
UNION
SELECT h.approval_id, k.created_by
FROM held AS h JOIN read.key_makers AS k ON k.tenant = h.tenant AND k.person = substr(h.requester, 8)
WHERE h.requester LIKE 'person:%' AND coalesce(k.revoked_at, 'infinity') > now() - interval '30 days'
  AND coalesce(k.taken_over_at, 'infinity')
      > now() - CASE WHEN h.conversation_id ~ 'job-[0-9a-f]{32}$' THEN interval '30 days' ELSE interval '0' END
UNION
SELECT h.approval_id, e.requester
FROM held AS h JOIN read.workspace_entries AS e USING (tenant, conversation_id)
WHERE h.committed <> '' AND strpos(h.committed, e.call_id) > 0 AND e.requester LIKE 'person:%'

-- Each state is a stretch of an index in the order of time, so the newest rows cost the same among a million.
-- name: held
SELECT a.approval_id, a.rule, a.tool, a.state, a.edited IS NOT NULL AS edited, a.created_at, a.closed_at,
    length(a.summary) + length(a.arguments) AS characters, md5(a.arguments) AS said
FROM unnest(:states::text[]) AS s (state), LATERAL (
    SELECT approval_id, rule, tool, state, edited, created_at, closed_at, summary, arguments FROM read.approvals
    WHERE tenant = :tenant AND state = s.state AND created_at >= :since::timestamptz
    ORDER BY created_at DESC, approval_id DESC LIMIT :most
) AS a ORDER BY a.created_at DESC, a.approval_id DESC LIMIT :most

-- name: arguments
SELECT arguments FROM read.approvals
WHERE tenant = :tenant AND approval_id = ANY(:approval_ids::text[]) AND length(arguments) <= :longest
ORDER BY approval_id

-- name: votes
-- Of each person the last one about the arguments as they are: a later vote replaces it, an edit voids it.
SELECT approval_id, person, verb, decided_at FROM (
    SELECT DISTINCT ON (d.approval_id, d.person) d.approval_id, d.person, d.verb, d.decided_at, d.decision_id
    FROM read.decisions AS d JOIN read.approvals AS a USING (tenant, approval_id)
    WHERE d.tenant = :tenant AND d.approval_id = ANY(:approval_ids::text[]) AND d.counted_revision IS NOT NULL
        AND d.arguments_revision = a.arguments_revision
    ORDER BY d.approval_id, d.person, d.counted_revision DESC, d.decided_at DESC
) AS last ORDER BY decided_at, decision_id

-- name: waiting_of
SELECT EXISTS (SELECT FROM read.approvals WHERE tenant = :tenant AND state = 'pending' AND agent = :agent) AS waiting

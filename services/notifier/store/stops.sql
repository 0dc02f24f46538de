-- A card says why such calls are stopped, as it was drawn last (`stopped`). Only cards that people see are looked at.

-- name: any_stop
SELECT EXISTS (SELECT FROM read.stops) AS found

-- name: lock_shown_otherwise
SELECT d.delivery_id, coalesce(why.reason, '') AS stopped
FROM notifier.deliveries AS d
CROSS JOIN LATERAL (
    SELECT min(s.reason) AS reason FROM read.stops AS s
    WHERE coalesce(s.tenant = d.tenant, true) AND coalesce(s.agent = d.card ->> 'agent', true)
      AND (coalesce(s.tool = d.card ->> 'tool', true) OR EXISTS (
          -- A commit is stopped with any entry that its card lists and people did not leave out.
          SELECT FROM jsonb_array_elements(d.card -> 'plan') AS line
          JOIN read.workspace_entries AS e ON e.call_id = line ->> 'call_id' AND e.tenant = d.tenant
          WHERE e.tool = s.tool AND line ->> 'outcome' IS DISTINCT FROM 'left_out'
      ))
) AS why
WHERE d.pending AND d.state IN ('due', 'sent') AND split_part(d.channel, ':', 1) = 'slack'
  AND coalesce(d.card ->> 'stopped', '') <> coalesce(why.reason, '')
ORDER BY d.delivery_id
LIMIT :most
FOR UPDATE OF d SKIP LOCKED

-- name: lock_shown_as_stopped
SELECT d.delivery_id, '' AS stopped
FROM notifier.deliveries AS d
WHERE d.pending AND d.state IN ('due', 'sent') AND split_part(d.channel, ':', 1) = 'slack'
  AND d.card ->> 'stopped' <> ''
ORDER BY d.delivery_id
LIMIT :most
FOR UPDATE OF d SKIP LOCKED

-- name: why_stopped
SELECT d.delivery_id, min(s.reason) AS stopped
FROM notifier.deliveries AS d
JOIN read.stops AS s ON coalesce(s.tenant = d.tenant, true) AND coalesce(s.agent = d.card ->> 'agent', true)
  AND (coalesce(s.tool = d.card ->> 'tool', true) OR EXISTS (
      SELECT FROM jsonb_array_elements(d.card -> 'plan') AS line
      JOIN read.workspace_entries AS e ON e.call_id = line ->> 'call_id' AND e.tenant = d.tenant
      WHERE e.tool = s.tool AND line ->> 'outcome' IS DISTINCT FROM 'left_out'
  ))
WHERE d.delivery_id = ANY (:ids::text[]) AND d.pending
GROUP BY d.delivery_id

-- name: add_verdicts
-- On calls that have none, in the order of their ids: nobody locks another one out. A second proposal waits for the
-- first one's commit. An effect for `Work.execute_once`; its key is the call's id unless another one is given.
effect AS (
    INSERT INTO policy.verdicts (
        verdict_id, call_id, tenant, conversation_id, requester, tool, digest, schema_digest, effect, rule, reason,
        model_reason, approval, terms, rulebook_digest, facts, judged_at
    )
    SELECT verdict_id, call_id, tenant, conversation_id, requester, tool, digest, schema_digest, effect, rule, reason,
        model_reason, approval, terms, rulebook_digest, facts, judged_at
    FROM unnest(
        :verdict_ids::text[], :call_ids::text[], :tenants::text[], :conversation_ids::text[], :requesters::text[],
        :tools::text[], :digests::text[], :schema_digests::text[], :effects::text[], :rules::text[], :reasons::text[],
        :model_reasons::text[], :approvals::text[], :termss::text[], :rulebook_digests::text[], :facts::text[]
    ) AS given (
        verdict_id, call_id, tenant, conversation_id, requester, tool, digest, schema_digest, effect, rule, reason,
        model_reason, approval, terms, rulebook_digest, facts
    ), (SELECT :judged_at::timestamptz AS judged_at) AS moment
    ORDER BY call_id
    ON CONFLICT (call_id) DO NOTHING RETURNING call_id AS key
)

-- name: change_verdict
UPDATE policy.verdicts
SET effect = :effect, rule = :rule, reason = :reason, model_reason = :model_reason, approval = :approval,
    terms = :terms
WHERE verdict_id = :verdict_id

-- name: digests
SELECT call_id, digest FROM policy.verdicts WHERE call_id = ANY (:call_ids::text[])

-- name: staged_calls
-- Of these calls those that policy let a conversation stage, or an attempt at the job that is committed in it.
SELECT call_id, tool, requester, digest, approval, terms, reason, rule,
    floor(extract(epoch FROM judged_at - clock_timestamp()) + (terms::json ->> 'expires_after_seconds')::bigint)::bigint
        AS seconds_left
FROM policy.verdicts
WHERE call_id = ANY (:call_ids::text[]) AND tenant = :tenant AND effect = 'stage'
    AND coalesce(terms::json ->> 'commits_in', conversation_id) = :conversation_id

-- name: staged_facts
-- What is kept of them, to judge them again.
SELECT call_id, tenant, conversation_id, requester, tool, digest, schema_digest, facts FROM policy.verdicts
WHERE call_id = ANY (:call_ids::text[]) AND tenant = :tenant AND effect = 'stage'
    AND coalesce(terms::json ->> 'commits_in', conversation_id) = :conversation_id

-- name: approval_of
SELECT approval FROM policy.verdicts WHERE tenant = :tenant AND call_id = :call_id

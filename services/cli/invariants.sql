-- What must always be true of the rows of all services. Each query returns what breaks it, as (tenant, subject, found);
-- its comment is the numbers of docs/reliability.md and the sentence. What services do one after the other has until
-- `placet.settled` to come true; the machines' tables come as `placet.moves`. By hand, in psql:
--   SET placet.settled = '2026-01-01'; SET placet.moves = '[]';

-- name: calls_wait_for_a_reason
-- 2: A call without an answer waits for people, an execution, a job, a slot or an operator, itself or with its turn.
SELECT min(tenant) AS tenant, call_id AS subject, 'no answer since ' || min(proposed_at) AS found
FROM (
    SELECT c.tenant, c.call_id, c.proposed_at FROM agent.tool_calls AS c
    WHERE c.state <> 'answered' AND c.proposed_at < current_setting('placet.settled')::timestamptz
        AND NOT EXISTS (
            SELECT FROM approval.approvals AS a
            WHERE a.tenant = c.tenant AND a.conversation_id = c.conversation_id AND a.turn_id = c.turn_id
                AND coalesce(a.closed_at, a.expires_at) >= current_setting('placet.settled')::timestamptz
        )
        AND NOT EXISTS (
            SELECT FROM executor.executions AS e WHERE e.conversation_id = c.conversation_id
                AND coalesce(e.finished_at, 'infinity') >= current_setting('placet.settled')::timestamptz
        )
        AND NOT EXISTS (
            SELECT FROM jobs.jobs AS j
            WHERE j.tenant = c.tenant AND j.spec #>> '{caller,conversation_id}' = c.conversation_id
                AND coalesce(j.ended_at, 'infinity') >= current_setting('placet.settled')::timestamptz
                -- Behind another's, as long as it has none itself.
                AND (j.spec #>> '{caller,call_id}' = c.call_id OR NOT EXISTS (
                    SELECT FROM jobs.jobs AS own
                    WHERE own.tenant = c.tenant AND own.spec #>> '{caller,conversation_id}' = c.conversation_id
                        AND own.spec #>> '{caller,call_id}' = c.call_id
                ))
        )
    UNION ALL
    -- Each letter, and each permit that waits for a slot, is read once, for whatever has the form of a call's id: of many
    -- calls and letters none is compared.
    SELECT NULL, named[1], NULL
    FROM (
        SELECT body FROM dead_letters.dead_letters WHERE state = 'open' UNION ALL SELECT body FROM executor.parked
    ) AS held, regexp_matches(body, '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', 'g') AS named
) AS waiting
GROUP BY call_id HAVING count(tenant) = count(*)

-- name: leases_are_looked_after
-- 2, 29: What a worker began and never ended is taken over, or said to be unknown, once its lease is out.
SELECT tenant, call_id AS subject, 'an execution whose lease ran out at ' || lease_until AS found
FROM executor.executions WHERE lease_until < current_setting('placet.settled')::timestamptz
UNION ALL
SELECT tenant, turn_id, 'a turn whose lease ran out at ' || lease_until
FROM agent.turns WHERE lease_until < current_setting('placet.settled')::timestamptz
UNION ALL
SELECT tenant, approval_id, 'an approval past its end at ' || expires_at
FROM approval.approvals WHERE state = 'pending' AND expires_at < current_setting('placet.settled')::timestamptz
UNION ALL
-- A card that is due and may be shown: its channel may have to wait.
SELECT d.tenant, d.delivery_id, 'a card whose lease ran out at ' || d.lease_until
FROM notifier.deliveries AS d
WHERE d.state = 'due' AND greatest(d.lease_until, d.due_at) < current_setting('placet.settled')::timestamptz
    AND d.lease_until IS NOT NULL AND NOT EXISTS (
        SELECT FROM notifier.paces AS p WHERE p.tenant IN (d.tenant, '') AND p.channel = d.channel
            AND p.free_at >= current_setting('placet.settled')::timestamptz
    )

-- name: calls_have_one_answer
-- 3: The log of a conversation has exactly one answer to each call that is answered, and none to another.
SELECT c.tenant, c.call_id AS subject, count(l.seq) || ' answers in the log, state ' || c.state AS found
FROM agent.tool_calls AS c
LEFT JOIN agent.log AS l ON l.conversation_id = c.conversation_id AND l.type = 'tool_call'
    AND l.data ->> 'call_id' = c.call_id AND l.data ? 'kind' AND NOT l.data ? 'outcome'
GROUP BY c.tenant, c.call_id, c.state
HAVING count(l.seq) <> (c.state = 'answered')::int

-- name: executions_are_answered
-- 3, 29: The conversation hears of an execution what became of it: what nobody knows is called unknown.
SELECT e.tenant, e.call_id AS subject,
    e.state || ', and the conversation was told ' || coalesce(c.result_kind, 'nothing') AS found
FROM executor.executions AS e
JOIN agent.tool_calls AS c USING (call_id)
WHERE e.finished_at < current_setting('placet.settled')::timestamptz AND c.result_kind IS DISTINCT FROM CASE
    WHEN e.mode = 'staged_call' THEN 'staged' WHEN e.state = 'resolved' THEN 'unknown' ELSE e.state
END
    -- Unless an operator gave up its permit or its answer: what was discarded keeps no body, its history names the call.
    AND NOT EXISTS (
        SELECT FROM dead_letters.history AS h
        WHERE h.machine = 'dead-letter' AND h.to_state = 'discarded' AND h.tenant = e.tenant AND h.call_id = e.call_id
    )

-- name: outboxes_are_drained
-- 4: What was committed to be sent is sent.
SELECT '' AS tenant, id AS subject, box || ' has it since ' || created_at AS found
FROM (
    SELECT 'agent' AS box, id, created_at FROM agent.outbox
    UNION ALL SELECT 'approval', id, created_at FROM approval.outbox
    UNION ALL SELECT 'dead_letters', id, created_at FROM dead_letters.outbox
    UNION ALL SELECT 'executor', id, created_at FROM executor.outbox
    UNION ALL SELECT 'gateway', id, created_at FROM gateway.outbox
    UNION ALL SELECT 'jobs', id, created_at FROM jobs.outbox
    UNION ALL SELECT 'notifier', id, created_at FROM notifier.outbox
    UNION ALL SELECT 'policy', id, created_at FROM policy.outbox
) AS waiting
WHERE created_at < current_setting('placet.settled')::timestamptz

-- name: nobody_told_is_an_alarm
-- 5: Where an approval has cards and none of them could be shown, operators were told.
SELECT a.tenant, a.approval_id AS subject, 'nobody could be told, and no operator was' AS found
FROM approval.approvals AS a
JOIN notifier.deliveries AS d USING (approval_id)
WHERE a.state = 'pending' AND a.created_at < current_setting('placet.settled')::timestamptz
    AND d.updated_at < current_setting('placet.settled')::timestamptz
GROUP BY a.tenant, a.approval_id
HAVING bool_and(d.state = 'given_up' AND NOT d.alerted)

-- name: discarded_letters_end_their_calls
-- 7: An operator who discards a dead letter ends its call; nobody waits for it any more.
SELECT h.tenant, h.subject_id AS subject, 'call ' || c.call_id || ' still waits' AS found
FROM dead_letters.history AS h
JOIN agent.tool_calls AS c ON c.tenant = h.tenant AND c.call_id = h.call_id AND c.state <> 'answered'
WHERE h.machine = 'dead-letter' AND h.to_state = 'discarded'
    AND h.at < current_setting('placet.settled')::timestamptz

-- name: messages_are_heard_once
-- 8: A message stands once in the log of its conversation, however often it came.
SELECT min(tenant) AS tenant, conversation_id || ' ' || (data ->> 'message_id') AS subject,
    count(*) || ' times in the log' AS found
FROM agent.log WHERE type = 'message' AND data ->> 'role' = 'user'
GROUP BY conversation_id, data ->> 'message_id' HAVING count(*) > 1

-- name: logs_have_no_gaps
-- 8, 26: The log of a conversation is numbered without a gap, and ends with the newest number.
SELECT c.tenant, c.conversation_id AS subject,
    count(l.seq) || ' items up to ' || coalesce(max(l.seq), 0) || ' of ' || c.log_seq AS found
FROM agent.conversations AS c LEFT JOIN agent.log AS l USING (conversation_id)
GROUP BY c.tenant, c.conversation_id, c.log_seq
HAVING count(l.seq) <> c.log_seq OR coalesce(max(l.seq), 0) <> c.log_seq

-- name: nothing_unsafe_is_repeated
-- 9, 11: Only a tool that says it may be repeated is begun again after its worker was lost.
SELECT e.tenant, e.call_id AS subject, count(*) || ' times begun again' AS found
FROM executor.history AS h JOIN executor.executions AS e ON e.call_id = h.subject_id
WHERE h.machine = 'execution' AND h.event = 'reclaimed' AND h.to_state = 'running' AND NOT e.idempotent
    AND e.mode IS DISTINCT FROM 'commit'
    -- To be staged, any call may be begun again; it is let go once.
    AND NOT EXISTS (
        SELECT FROM executor.history AS later
        WHERE later.subject_id = h.subject_id AND later.event = 'released' AND later.id > h.id
    )
GROUP BY e.tenant, e.call_id

-- name: fences_rise
-- 12: No attempt of a call settles after a newer one has begun; what comes late is kept as evidence alone.
SELECT tenant, subject_id AS subject, 'fence ' || fence || ' after ' || before AS found
FROM (
    SELECT tenant, subject_id, (detail ->> 'fence')::int AS fence,
        max((detail ->> 'fence')::int) OVER (
            PARTITION BY subject_id ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
    FROM executor.history WHERE machine = 'execution' AND NOT detail ? 'late'
) AS moved
WHERE fence < before

-- name: one_card_in_one_place
-- 13: An approval has one card in each place, and none claims to show more than there is.
SELECT min(tenant) AS tenant, approval_id AS subject, count(*) || ' in ' || channel || ' for ' || recipient AS found
FROM notifier.deliveries GROUP BY approval_id, channel, recipient
HAVING count(*) > 1 OR bool_or(sent_version > version OR sent_revision > revision)

-- name: decided_once
-- 14, 20, 27: An approval ends once, and stays as it ended.
SELECT min(tenant) AS tenant, subject_id AS subject, 'ended as ' || string_agg(to_state, ', ' ORDER BY id) AS found
FROM approval.history WHERE machine = 'approval' AND from_state = 'pending' AND to_state <> 'pending'
GROUP BY subject_id HAVING count(*) > 1

-- name: begun_by_right
-- 15: What ran was let through by a rule, or by people.
SELECT e.tenant, e.call_id AS subject, 'begun without a right of ' || e.permit_issuer AS found
FROM executor.executions AS e
WHERE e.begun_at IS NOT NULL AND e.mode IS DISTINCT FROM 'staged_call' AND NOT EXISTS (
    SELECT FROM policy.verdicts AS v
    WHERE e.permit_issuer = 'policy' AND v.call_id = e.call_id AND v.tenant = e.tenant
        AND v.effect = CASE e.mode WHEN 'stage' THEN 'stage' ELSE 'allow' END
) AND NOT EXISTS (
    SELECT FROM approval.approvals AS a
    WHERE e.permit_issuer = 'approval' AND a.tenant = e.tenant AND a.state = 'approved' AND a.call_id = e.call_id
)
    -- What a restore found unfinished may have begun since the backup, by a right that went with the database of then.
    AND NOT (
        e.worker = 'restore' AND e.state IN ('unknown', 'resolved')
        AND EXISTS (SELECT FROM gateway.restores AS r WHERE r.restored_at > e.begun_at)
    )
UNION ALL
-- A staged call by the right of its commit. Its workspace goes long before it does, and its history says which that was.
SELECT e.tenant, e.call_id, 'begun without a commit that was let through'
FROM executor.executions AS e
JOIN executor.history AS h
    ON h.machine = 'execution' AND h.event = 'released' AND h.call_id = e.call_id AND h.tenant = e.tenant
-- Of somebody who was erased nothing is left to look for.
WHERE e.mode = 'staged_call' AND h.detail ? 'reference' AND NOT EXISTS (
    SELECT FROM policy.verdicts AS v
    WHERE e.permit_issuer = 'policy' AND v.verdict_id = h.detail ->> 'reference' AND v.tenant = e.tenant
        AND v.tool = 'commit_changes' AND v.effect = 'allow'
) AND NOT EXISTS (
    SELECT FROM approval.approvals AS a
    WHERE e.permit_issuer = 'approval' AND a.approval_id = h.detail ->> 'reference' AND a.tenant = e.tenant
        AND a.tool = 'commit_changes' AND a.state = 'approved'
)

-- name: approved_is_what_ran
-- 16: The call that ran is the one that was judged or approved, to the byte.
SELECT e.tenant, e.call_id AS subject,
    coalesce(ran.digest, 'nothing that has a digest') || ' ran, ' || right_to.digest || ' was let through' AS found
FROM executor.executions AS e
-- Whatever was begun has its call.
CROSS JOIN LATERAL (SELECT CAST(nullif(e.call, '') AS jsonb) ->> 'digest' AS digest) AS ran
JOIN (
    SELECT 'policy' AS issuer, call_id, digest FROM policy.verdicts
    UNION ALL SELECT 'approval', call_id, digest FROM approval.approvals
) AS right_to ON right_to.issuer = e.permit_issuer AND right_to.call_id = e.call_id
WHERE e.begun_at IS NOT NULL AND right_to.digest IS DISTINCT FROM ran.digest

-- name: digests_are_of_their_calls
-- 16: The digest that people and permits bind is that of the stored tool, arguments, tenant and conversation.
SELECT tenant, call_id AS subject, whose || ' has a digest of something else' AS found
FROM (
    SELECT 'approval' AS whose, call_id, tenant, conversation_id, tool, schema_digest, arguments, digest
    FROM approval.approvals
    UNION ALL
    SELECT 'execution', call_id, tenant, conversation_id, tool, schema_digest, told ->> 'arguments', told ->> 'digest'
    FROM executor.executions CROSS JOIN LATERAL (SELECT CAST(nullif(call, '') AS jsonb) AS told) AS kept
) AS bound
WHERE digest <> encode(sha256(convert_to(
    'placet.call.v1' || chr(10) || '{"arguments":' || to_json(arguments) || ',"conversation_id":' ||
    to_json(conversation_id) || ',"schema_digest":' || to_json(schema_digest) || ',"tenant":' || to_json(tenant) ||
    ',"tool":' || to_json(tool) || '}', 'UTF8')), 'hex')

-- name: approvals_are_as_judged
-- 16, 19: People were asked about the call that policy judged, as its verdict says: who, how many, how surely known.
SELECT a.tenant, a.approval_id AS subject, 'asked otherwise than its verdict, ' || v.effect || ' by ' || v.rule AS found
FROM approval.approvals AS a
JOIN policy.verdicts AS v USING (tenant, call_id)
CROSS JOIN LATERAL (
    -- As approval keeps a rule: without what stands at its default, but for this.
    SELECT '{"min_strength": "link"}' || CAST(coalesce(nullif(v.approval, ''), '{}') AS jsonb) AS judged,
        -- A commit's deadline is that of its entries: what would come after it goes, and nobody comes to it.
        CASE WHEN a.tool = 'commit_changes'
            THEN '{expires_after_seconds,reminders_after_seconds,escalations}' ELSE '{}' END::text[] AS times
) AS rule
WHERE v.effect <> 'require_approval' OR (a.edited IS NULL AND a.digest <> v.digest) OR (
    rule.judged - rule.times <> a.approval_rule - rule.times
    OR NOT coalesce(rule.judged -> 'escalations', '[]') @> coalesce(a.approval_rule -> 'escalations', '[]')
) AND concat(v.approval, a.approval_rule) NOT LIKE '%:erased-%'
UNION ALL
-- Both go with their conversation, in one transaction.
SELECT a.tenant, a.approval_id, 'asked without any verdict' FROM approval.approvals AS a
WHERE NOT EXISTS (SELECT FROM policy.verdicts AS v WHERE v.call_id = a.call_id)

-- name: tools_are_as_they_were_judged
-- 17: The tool that was proposed was judged; it ran for whom, and with the schema, that its call was judged by.
SELECT e.tenant, e.call_id AS subject, 'ran with another schema than it was judged by' AS found
FROM executor.executions AS e JOIN policy.verdicts AS v USING (call_id)
WHERE e.begun_at IS NOT NULL AND e.schema_digest <> v.schema_digest
UNION ALL
SELECT v.tenant, v.call_id, v.tool || ' was judged, ' || c.tool || ' proposed'
FROM policy.verdicts AS v JOIN agent.tool_calls AS c USING (call_id) WHERE v.tool <> c.tool
UNION ALL
SELECT v.tenant, v.call_id, 'judged for ' || v.requester || ', ' || held.whose || ' for ' || held.requester
FROM policy.verdicts AS v
JOIN (
    SELECT 'asked' AS whose, call_id, requester FROM approval.approvals
    UNION ALL SELECT 'ran', call_id, CAST(nullif(call, '') AS json) ->> 'requester' FROM executor.executions
) AS held USING (call_id)
WHERE v.requester NOT IN ('', held.requester) AND v.requester || held.requester NOT LIKE '%erased-%'

-- name: rulebooks_are_known
-- 18: Each verdict names a rulebook that was active, and whose text is kept.
SELECT tenant, call_id AS subject, 'judged by the unknown rulebook ' || rulebook_digest AS found
FROM policy.verdicts AS v
WHERE NOT EXISTS (SELECT FROM policy.activations AS a WHERE a.digest = v.rulebook_digest)

-- name: quorum_was_reached
-- 19: Each yes that the rule wants was said to the arguments as they ran, by as many different people of those whom it
-- names, as surely known as it wants, and none was shut out. Who is in a group changes: anybody may have been, then.
WITH yes AS NOT MATERIALIZED (
    SELECT d.* FROM approval.decisions AS d JOIN approval.approvals AS a USING (tenant, approval_id)
    WHERE d.outcome = 'accepted' AND d.verb IN ('approve', 'edit') AND d.arguments_revision = a.arguments_revision
)
SELECT a.tenant, a.approval_id AS subject, said.people || ' people said yes' AS found
FROM approval.approvals AS a
CROSS JOIN LATERAL (
    SELECT count(DISTINCT d.person) AS people,
        coalesce(bool_or(
            d.person = a.requester
            -- Whom the gateway knew beside them, as it signed it.
            OR d.person = ANY (string_to_array(translate(d.details ->> 'opened_by', '~', ''), ' '))
            OR EXISTS (
                SELECT FROM executor.workspace_entries AS e JOIN executor.executions AS x ON x.call_id = e.call_id
                WHERE e.commit_call_id = a.call_id AND CAST(nullif(x.call, '') AS json) ->> 'requester' = d.person
            )
        ), false) AS by_requester
    FROM yes AS d WHERE d.approval_id = a.approval_id AND d.tenant = a.tenant
) AS said
WHERE a.state = 'approved' AND ((said.by_requester AND a.approval_rule -> 'exclude' ? 'requester') OR EXISTS (
    -- A yes that was needed, and that no way to say it has.
    SELECT FROM (
        SELECT a.approval_rule || coalesce(a.approval_rule -> 'alternatives', '[]') AS panels
        UNION ALL SELECT demand -> 'panels' FROM jsonb_array_elements(a.approval_rule -> 'also') AS demand
    ) AS demanded
    WHERE NOT EXISTS (
        SELECT FROM jsonb_array_elements(demanded.panels) AS panel
        WHERE coalesce((panel ->> 'approvals')::int, 1) <= (
            SELECT count(DISTINCT d.person) FROM yes AS d
            WHERE d.approval_id = a.approval_id AND d.tenant = a.tenant
                AND coalesce(array_position('{link,chat,slack,web}', a.approval_rule ->> 'min_strength'), 1)
                    <= CASE d.proof WHEN 'link' THEN 1 WHEN 'conversation_token' THEN 2 WHEN 'slack' THEN 3 ELSE 4 END
                AND EXISTS (
                    -- For themselves, or for who let them; whom an escalation asked decides in every panel.
                    SELECT FROM (
                        SELECT d.person, d.roles UNION ALL SELECT given #>> '{by,person}', given #> '{by,roles}'
                        FROM jsonb_path_query(a.delegations, '$[*]') AS given WHERE given ->> 'to' = d.person
                    ) AS place
                    JOIN jsonb_array_elements_text(
                        coalesce(panel -> 'approvers', '[]')
                        || jsonb_path_query_array(a.approval_rule, '$.escalations[*].approvers[*]')
                    ) AS named ON named = place.person OR place.person LIKE '%erased-%'
                        OR (named = 'requester' AND place.person = a.requester)
                        OR (d.proof <> 'conversation_token' AND (named LIKE 'group:%'
                            OR (named = 'operators' AND (place.roles = '[]' OR place.roles ? 'operators'))))
                )
        )
    )
))

-- name: decided_in_time
-- 21, 27: Nobody decides after the end of an approval, and nothing begins after the end of its permit.
SELECT tenant, approval_id AS subject, state || ' after ' || expires_at AS found
FROM approval.approvals WHERE state IN ('approved', 'denied', 'answered') AND closed_at >= expires_at
UNION ALL
SELECT tenant, call_id, 'begun at ' || begun_at || ', the permit ended at ' || permit_expires_at
FROM executor.executions WHERE begun_at >= permit_expires_at

-- name: permits_are_used_once
-- 22: One permit runs one call.
SELECT min(tenant) AS tenant, permit_id AS subject, 'used by ' || string_agg(call_id, ', ') AS found
FROM executor.executions GROUP BY permit_id HAVING count(*) > 1
UNION ALL
SELECT e.tenant, e.call_id, 'has the permit ' || e.permit_id || ', which its history does not know'
FROM executor.executions AS e
JOIN executor.history AS h ON h.machine = 'execution' AND h.subject_id = e.call_id AND h.detail ? 'permit_id'
GROUP BY e.tenant, e.call_id, e.permit_id HAVING NOT bool_or(h.detail ->> 'permit_id' = e.permit_id)

-- name: grants_add_up
-- 22: A grant lets through as many calls as it was given for, and knows how many are left.
SELECT g.tenant, g.grant_id AS subject, count(u.call_id) || ' uses of ' || g.uses || ', left ' || g.uses_left AS found
FROM policy.grants AS g
LEFT JOIN policy.grant_uses AS u ON u.grant_id = g.grant_id AND u.returned_at IS NULL
GROUP BY g.tenant, g.grant_id, g.uses, g.uses_left HAVING count(u.call_id) + g.uses_left <> g.uses

-- name: grants_know_what_they_let_through
-- 22: What a grant let through is a use of it, from while it stood; no use comes back whose call ran.
SELECT v.tenant, v.call_id AS subject, 'let through by ' || v.rule || ', which does not count it' AS found
FROM policy.verdicts AS v JOIN policy.grants AS g ON v.rule = 'grant:' || g.grant_id
WHERE NOT EXISTS (SELECT FROM policy.grant_uses AS u WHERE u.call_id = v.call_id AND u.grant_id = g.grant_id)
UNION ALL
-- A grant that is over goes before what it let through; its history stays until a block has outlasted it.
SELECT v.tenant, v.call_id, 'let through by ' || v.rule || ', of which no history tells'
FROM policy.verdicts AS v
WHERE starts_with(v.rule, 'grant:') AND NOT EXISTS (
    SELECT FROM policy.history AS h
    WHERE h.call_id = v.call_id AND h.machine = 'grant' AND 'grant:' || h.subject_id = v.rule AND h.tenant = v.tenant
) AND v.judged_at > coalesce(
    (SELECT min(c.sealed_at) FROM gateway.checkpoints AS c WHERE c.tenant = v.tenant), '-infinity')
UNION ALL
-- Give or take what lies between the look at the clock and the row.
SELECT u.tenant, u.call_id, 'used ' || u.grant_id || ' at ' || u.used_at || ', which was given at ' || g.given_at
    || ' and over at ' || least(g.expires_at, g.revoked_at, g.void_at)
FROM policy.grant_uses AS u JOIN policy.grants AS g USING (grant_id)
WHERE u.used_at > least(g.expires_at, g.revoked_at, g.void_at) + interval '10 seconds'
    OR u.used_at < g.given_at - interval '10 seconds'
UNION ALL
SELECT u.tenant, u.call_id, 'gave its use of ' || u.grant_id || ' back at ' || u.returned_at || ', and ran'
FROM policy.grant_uses AS u JOIN executor.executions AS e USING (call_id)
WHERE u.returned_at IS NOT NULL AND (e.state = 'succeeded' OR e.resolution = 'ran')

-- name: denied_stays_denied
-- 23: What people denied is neither let through by a rule nor staged while the veto window is open, as long as the
-- rulebook has such windows at all.
SELECT v.tenant, v.call_id AS subject, CASE v.effect WHEN 'stage' THEN 'staged' ELSE 'let through' END
    || ', though ' || w.call_id || ' was denied at ' || w.denied_at AS found
FROM policy.watched_calls AS w
JOIN policy.verdicts AS v ON v.tenant = w.tenant AND v.tool = w.tool AND v.effect IN ('allow', 'stage')
    AND v.judged_at > w.denied_at AND v.judged_at < w.until
    AND CASE w.veto_within WHEN 'conversation' THEN v.conversation_id = w.conversation_id
        WHEN 'requester' THEN v.requester = w.requester ELSE true END
LEFT JOIN agent.tool_calls AS c ON c.call_id = v.call_id
WHERE (w.veto_on = 'tool' OR encode(sha256(convert_to(c.arguments, 'UTF8')), 'hex') = w.arguments_digest)
    AND NOT EXISTS (
        SELECT FROM policy.activations AS r
        WHERE r.kind = 'rulebook' AND r.digest = v.rulebook_digest AND r.source NOT LIKE '%veto\_window\_seconds%')

-- name: decisions_say_how
-- 24: Each decision that counted says who made it, how they were known, and bears the signature of the gateway, unless
-- its maker was erased since.
SELECT d.tenant, d.decision_id AS subject, 'by ' || d.person || ', known by ' || d.proof AS found
FROM approval.decisions AS d
WHERE d.outcome = 'accepted' AND (
    d.person = '' OR d.proof = ''
    OR d.signed = '' AND d.person NOT LIKE '%:erased-%' AND CAST(d.details AS text) NOT LIKE '%:erased-%'
    OR (d.proof = 'api_key' AND NOT EXISTS (
        SELECT FROM gateway.api_keys AS k WHERE k.key_id = d.key_id AND k.tenant = d.tenant))
)

-- name: endings_have_their_decision
-- 19, 24: What people denied or answered has their decision; where one denial decides, each that counted has ended it.
SELECT a.tenant, a.approval_id AS subject, a.state || ' by ' || a.decided_by || ', who has not said so' AS found
FROM approval.approvals AS a
WHERE a.state IN ('denied', 'answered') AND NOT EXISTS (
    SELECT FROM approval.decisions AS d
    WHERE d.approval_id = a.approval_id AND d.tenant = a.tenant AND d.outcome = 'accepted'
        AND d.verb = CASE a.state WHEN 'denied' THEN 'deny' ELSE 'respond' END
)
UNION ALL
SELECT a.tenant, a.approval_id, a.state || ', though ' || d.person || ' denied it at ' || d.decided_at
FROM approval.approvals AS a JOIN approval.decisions AS d USING (tenant, approval_id)
WHERE a.state <> 'denied' AND d.verb = 'deny' AND d.counted_revision IS NOT NULL
    AND coalesce(a.approval_rule -> 'denials', '1') = '1'
    -- In the place of somebody who has voted, a denial counts for nobody.
    AND a.delegations = '[]'

-- name: votes_are_of_their_card
-- 16: A yes that counted is for the arguments that were approved, as its maker saw them.
SELECT d.tenant, d.decision_id AS subject, 'a yes of ' || d.person || ' to other arguments' AS found
FROM approval.decisions AS d JOIN approval.approvals AS a USING (tenant, approval_id)
WHERE a.state = 'approved' AND d.counted_revision IS NOT NULL AND d.verb = 'approve'
    AND d.arguments_revision = a.arguments_revision AND d.digest <> a.digest

-- name: votes_had_a_right
-- 19, 24: A vote came after its card, with a key that was its maker's alone and worked, give or take a service's clock.
SELECT d.tenant, d.decision_id AS subject, d.verb || ' at ' || d.decided_at || ', opened at ' || a.created_at AS found
FROM approval.decisions AS d JOIN approval.approvals AS a USING (tenant, approval_id)
WHERE d.counted_revision IS NOT NULL AND d.decided_at < a.created_at - interval '10 seconds'
UNION ALL
SELECT d.tenant, d.decision_id, concat_ws(', ', d.verb || ' of ' || d.person || ' at ' || d.decided_at,
    'with a key of ' || k.person, 'theirs since ' || k.taken_over_at, 'revoked at ' || k.revoked_at)
FROM approval.decisions AS d JOIN gateway.api_keys AS k USING (key_id)
WHERE d.counted_revision IS NOT NULL AND (
    k.tenant <> d.tenant
    OR coalesce(k.taken_over_at, 'infinity') > d.decided_at + interval '10 seconds'
    -- The key of somebody who was erased is revoked with them, and bears another name.
    OR k.person NOT LIKE 'erased-%' AND d.person NOT LIKE '%:erased-%'
        AND ('person:' || k.person <> d.person OR k.revoked_at < d.decided_at - interval '10 seconds')
)

-- name: votes_came_in_time
-- 27: A vote that counted was given before the end of its approval.
SELECT d.tenant, d.decision_id AS subject, d.verb || ' at ' || d.decided_at || ', over at ' || a.expires_at AS found
FROM approval.decisions AS d JOIN approval.approvals AS a USING (tenant, approval_id)
WHERE d.counted_revision IS NOT NULL AND d.decided_at >= a.expires_at

-- name: signatures_are_there
-- 15: What counted, and what ran, bears a signature, unless it went with somebody who was erased.
SELECT tenant, decision_id AS subject, 'a decision that nobody signed' AS found
FROM approval.decisions
WHERE outcome = 'accepted' AND signed <> '' AND signed !~ '^[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+$'
UNION ALL
SELECT tenant, call_id, 'ran by a permit that nobody signed' FROM executor.executions
WHERE begun_at IS NOT NULL AND permit <> '' AND permit !~ '^[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+$'

-- name: ran_where_it_was_let
-- 15: A call ran in the pool that people let it run in.
SELECT e.tenant, e.call_id AS subject, 'ran in ' || e.pool || ', approved for ' || a.pool AS found
FROM executor.executions AS e JOIN approval.approvals AS a USING (tenant, call_id)
WHERE e.begun_at IS NOT NULL AND e.permit_issuer = 'approval' AND e.pool <> a.pool

-- name: successes_ran
-- 15: What succeeded, ran: all but jobs, which have no execution, and the answer of a turn, which nobody judges.
SELECT c.tenant, c.call_id AS subject, 'succeeded, and no executor has it' AS found
FROM agent.tool_calls AS c
WHERE c.result_kind = 'succeeded' AND c.tool NOT IN ('accomplish', 'final_answer')
    AND NOT EXISTS (SELECT FROM executor.executions AS e WHERE e.call_id = c.call_id)
UNION ALL
SELECT tenant, call_id, 'succeeded, and never began' FROM executor.executions
WHERE state = 'succeeded' AND begun_at IS NULL

-- name: moves_are_of_the_machine
-- 20, 25: Every change of a state is a row of its machine's table.
WITH move AS MATERIALIZED (
    SELECT move ->> 0 AS machine, coalesce(move ->> 1, '') AS from_state, move ->> 2 AS to_state
    FROM jsonb_array_elements(current_setting('placet.moves')::jsonb) AS move
)
SELECT h.tenant, h.subject_id AS subject,
    h.machine || ' from ' || coalesce(h.from_state, 'nothing') || ' to ' || h.to_state AS found
FROM (
    SELECT tenant, machine, subject_id, from_state, to_state FROM agent.history
    UNION ALL SELECT tenant, machine, subject_id, from_state, to_state FROM approval.history
    UNION ALL SELECT tenant, machine, subject_id, from_state, to_state FROM dead_letters.history
    UNION ALL SELECT tenant, machine, subject_id, from_state, to_state FROM executor.history
    UNION ALL SELECT tenant, machine, subject_id, from_state, to_state FROM gateway.history
    UNION ALL SELECT tenant, machine, subject_id, from_state, to_state FROM jobs.history
    UNION ALL SELECT tenant, machine, subject_id, from_state, to_state FROM notifier.history
    UNION ALL SELECT tenant, machine, subject_id, from_state, to_state FROM policy.history
) AS h
WHERE h.from_state IS DISTINCT FROM h.to_state AND h.machine IN (SELECT machine FROM move) AND NOT EXISTS (
    SELECT FROM move WHERE move.machine = h.machine AND move.from_state = coalesce(h.from_state, '')
        AND move.to_state = h.to_state
)

-- name: history_leads_to_the_state
-- 25: The history of a thing is unbroken, and its newest row is the state that is stored.
WITH told AS (
    SELECT id, tenant, machine, subject_id, from_state, to_state FROM agent.history
    UNION ALL SELECT id, tenant, machine, subject_id, from_state, to_state FROM approval.history
    UNION ALL SELECT id, tenant, machine, subject_id, from_state, to_state FROM dead_letters.history
    UNION ALL SELECT id, tenant, machine, subject_id, from_state, to_state FROM executor.history
    UNION ALL SELECT id, tenant, machine, subject_id, from_state, to_state FROM jobs.history
), step AS (
    SELECT *, lag(to_state) OVER thing AS before, lead(id) OVER thing AS next
    FROM told WINDOW thing AS (PARTITION BY machine, subject_id ORDER BY id)
), stored AS (
    SELECT 'turn' AS machine, turn_id AS subject_id, state FROM agent.turns
    UNION ALL SELECT 'tool_call', call_id, state FROM agent.tool_calls
    UNION ALL SELECT 'approval', approval_id, state FROM approval.approvals
    UNION ALL SELECT 'execution', call_id, state FROM executor.executions
    UNION ALL SELECT 'workspace', workspace_id, state FROM executor.workspaces
    UNION ALL SELECT 'dead-letter', dead_letter_id, state FROM dead_letters.dead_letters
    UNION ALL SELECT 'job', job_id, state FROM jobs.jobs
    UNION ALL SELECT 'attempt', attempt_id, state FROM jobs.attempts
)
SELECT step.tenant, subject_id AS subject,
    machine || ' came to ' || before || ', and went on from ' || coalesce(from_state, 'nothing') AS found
FROM step WHERE before IS NOT NULL AND from_state IS DISTINCT FROM before
UNION ALL
SELECT step.tenant, subject_id, machine || ' is ' || state || ', its history ends with ' || to_state
FROM step JOIN stored USING (machine, subject_id) WHERE next IS NULL AND state <> to_state
UNION ALL
-- What is older than the oldest block that is kept may have outlasted its history.
SELECT bare.tenant, subject_id, 'without any history since ' || since
FROM (
    SELECT a.tenant, a.approval_id AS subject_id, a.created_at AS since FROM approval.approvals AS a
    WHERE NOT EXISTS (
        SELECT FROM approval.history AS h WHERE h.machine = 'approval' AND h.subject_id = a.approval_id)
    UNION ALL
    SELECT e.tenant, e.call_id, coalesce(e.begun_at, e.finished_at) FROM executor.executions AS e
    WHERE NOT EXISTS (
        SELECT FROM executor.history AS h WHERE h.machine = 'execution' AND h.subject_id = e.call_id)
    UNION ALL
    SELECT c.tenant, c.call_id, c.proposed_at FROM agent.tool_calls AS c
    WHERE NOT EXISTS (
        SELECT FROM agent.history AS h WHERE h.machine = 'tool_call' AND h.subject_id = c.call_id)
) AS bare
WHERE since > coalesce(
    (SELECT min(c.sealed_at) FROM gateway.checkpoints AS c WHERE c.tenant = bare.tenant), '-infinity')

-- name: steps_are_in_order
-- 15, 26: A call is proposed, then opened for people, decided, begun, ended and answered, by the database's clock.
WITH step AS (
    SELECT tenant, call_id, min(at) FILTER (WHERE event = 'proposed') AS proposed,
        min(at) FILTER (WHERE event = 'opened') AS opened,
        min(at) FILTER (WHERE whose = 'approval' AND to_state <> 'pending') AS closed,
        min(at) FILTER (WHERE whose = 'executor' AND event = 'claimed') AS claimed,
        min(at) FILTER (WHERE whose = 'executor' AND to_state NOT IN ('running', 'verifying', 'committing')) AS ended,
        min(at) FILTER (WHERE whose = 'agent' AND event = 'result_came') AS answered
    FROM (
        SELECT 'agent' AS whose, tenant, call_id, event, to_state, at FROM agent.history WHERE machine = 'tool_call'
        UNION ALL
        SELECT 'approval', tenant, call_id, event, to_state, at FROM approval.history WHERE machine = 'approval'
        UNION ALL
        SELECT 'executor', tenant, call_id, event, to_state, at FROM executor.history WHERE machine = 'execution'
    ) AS moved
    GROUP BY tenant, call_id
)
SELECT tenant, call_id AS subject, concat_ws(', ', 'proposed ' || proposed, 'opened ' || opened, 'decided ' || closed,
    'begun ' || claimed, 'ended ' || ended, 'answered ' || answered) AS found
FROM step
WHERE opened < proposed OR closed < opened OR claimed < coalesce(closed, opened, proposed) OR ended < claimed
    OR answered < coalesce(ended, claimed, closed, opened, proposed)

-- name: turns_count_their_calls
-- 3, 26: A turn waits for exactly those of its calls that have no answer; the model is called again after the last.
SELECT t.tenant, t.turn_id AS subject, t.open_calls || ' counted, ' || count(c.call_id) || ' open' AS found
FROM agent.turns AS t
LEFT JOIN agent.tool_calls AS c ON c.turn_id = t.turn_id AND c.state = 'open'
GROUP BY t.tenant, t.turn_id, t.open_calls HAVING count(c.call_id) <> t.open_calls

-- name: what_was_refused_never_ran
-- 28: What a rule refused, or people denied, or was withdrawn or ran out before anybody decided, has not begun.
SELECT e.tenant, e.call_id AS subject, 'begun, though it was ' || refused.how AS found
FROM executor.executions AS e
JOIN (
    SELECT call_id, state AS how FROM approval.approvals WHERE state NOT IN ('pending', 'approved')
    UNION ALL SELECT call_id, 'refused by ' || rule FROM policy.verdicts WHERE effect = 'deny'
) AS refused USING (call_id)
WHERE e.begun_at IS NOT NULL

-- name: nothing_ran_while_stopped
-- 28: What an emergency stop covers has not begun between its two ends, give or take what a service's clock is behind.
WITH begun AS (
    -- Of one that its worker lost nobody can say when it ran: its claim stands before it is turned away. To stage it is
    -- not to run it.
    SELECT tenant, call_id, tool, call, begun_at AS at FROM executor.executions
    WHERE state IN ('succeeded', 'failed') AND fence = 1 AND mode IS DISTINCT FROM 'stage'
    UNION ALL
    -- A staged call at its turn; a restore writes the same of what may have run.
    SELECT e.tenant, e.call_id, e.tool, e.call, h.at
    FROM executor.executions AS e JOIN executor.history AS h ON h.subject_id = e.call_id
    WHERE h.machine = 'execution' AND h.event = 'released' AND h.actor NOT IN ('restore', 'erased')
)
SELECT begun.tenant, begun.call_id AS subject, 'begun at ' || begun.at || ', stopped since ' || s.stopped_at AS found
FROM begun JOIN gateway.stops AS s
    ON begun.at > s.stopped_at + interval '10 seconds'
    AND begun.at < coalesce(s.resumed_at, 'infinity') - interval '10 seconds'
    AND coalesce(s.tenant = begun.tenant, true) AND coalesce(s.tool = begun.tool, true)
    AND (s.agent IS NULL OR s.agent = CAST(nullif(begun.call, '') AS json) ->> 'agent')

-- name: stops_stand_until_lifted
-- 28: An emergency stop stands until the gateway lifts it: nobody takes its row away, or ends it, by hand.
SELECT h.tenant, h.subject_id AS subject, 'stopped at ' || h.at || ', never lifted, and stands no more' AS found
FROM gateway.history AS h
WHERE h.machine = 'stop' AND h.event = 'stopped'
    AND NOT EXISTS (
        SELECT FROM gateway.history AS r WHERE r.machine = 'stop' AND r.event = 'resumed' AND r.subject_id = h.subject_id
    )
    AND NOT EXISTS (SELECT FROM gateway.stops AS s WHERE s.stop_id = h.subject_id AND s.resumed_at IS NULL)

-- name: history_is_append_only
-- 32: No service may change or delete what is written into a history.
SELECT '' AS tenant, r.rolname AS subject, 'may change ' || t.oid::regclass AS found
FROM pg_roles AS r CROSS JOIN pg_class AS t JOIN pg_namespace AS n ON n.oid = t.relnamespace
WHERE t.relname = 'history' AND t.relkind = 'r' AND r.rolname LIKE '%\_' || n.nspname AND r.rolcanlogin
    AND EXISTS (SELECT FROM aclexplode(n.nspacl) AS given WHERE given.grantee = r.oid)
    AND has_table_privilege(r.oid, t.oid, 'UPDATE, DELETE, TRUNCATE')

-- name: rows_stay_with_their_tenant
-- 33: Rows that belong together belong to one tenant.
SELECT tenant, subject, 'belongs to ' || other || ' too' AS found
FROM (
    SELECT t.tenant, t.turn_id AS subject, c.tenant AS other
    FROM agent.turns AS t JOIN agent.conversations AS c USING (conversation_id)
    -- Not every conversation came through the gateway.
    UNION ALL SELECT c.tenant, c.conversation_id, g.tenant
    FROM agent.conversations AS c JOIN gateway.conversations AS g USING (conversation_id)
    WHERE NOT EXISTS (
        SELECT FROM gateway.conversations AS own
        WHERE own.tenant = c.tenant AND own.conversation_id = c.conversation_id
    )
    UNION ALL SELECT l.tenant, l.conversation_id, c.tenant
    FROM agent.log AS l JOIN agent.conversations AS c USING (conversation_id)
    UNION ALL SELECT m.tenant, m.message_id, c.tenant
    FROM agent.messages AS m JOIN agent.conversations AS c USING (conversation_id)
    UNION ALL SELECT k.tenant, k.call_id, t.tenant FROM agent.tool_calls AS k JOIN agent.turns AS t USING (turn_id)
    UNION ALL SELECT s.tenant, s.turn_id, t.tenant FROM agent.steps AS s JOIN agent.turns AS t USING (turn_id)
    UNION ALL SELECT h.tenant, e.call_id, e.tenant
    FROM executor.history AS h JOIN executor.executions AS e ON e.call_id = h.subject_id
    WHERE h.machine = 'execution'
    UNION ALL SELECT h.tenant, a.approval_id, a.tenant
    FROM approval.history AS h JOIN approval.approvals AS a ON a.approval_id = h.subject_id
    WHERE h.machine = 'approval'
    UNION ALL SELECT v.tenant, v.call_id, k.tenant FROM policy.verdicts AS v JOIN agent.tool_calls AS k USING (call_id)
    UNION ALL SELECT a.tenant, a.approval_id, v.tenant
    FROM approval.approvals AS a JOIN policy.verdicts AS v USING (call_id)
    UNION ALL SELECT d.tenant, d.decision_id, a.tenant
    FROM approval.decisions AS d JOIN approval.approvals AS a USING (approval_id) WHERE d.outcome = 'accepted'
    UNION ALL SELECT e.tenant, e.call_id, v.tenant
    FROM executor.executions AS e JOIN policy.verdicts AS v USING (call_id)
    UNION ALL SELECT e.tenant, e.call_id, a.tenant
    FROM executor.executions AS e JOIN approval.approvals AS a USING (call_id)
    UNION ALL SELECT w.tenant, n.call_id, e.tenant
    FROM executor.workspace_entries AS n JOIN executor.workspaces AS w USING (workspace_id)
    JOIN executor.executions AS e ON e.call_id = n.call_id
    UNION ALL SELECT d.tenant, d.edit_id, a.tenant
    FROM approval.edits AS d JOIN approval.approvals AS a USING (approval_id)
    UNION ALL SELECT n.tenant, n.delivery_id, a.tenant
    FROM notifier.deliveries AS n JOIN approval.approvals AS a USING (approval_id)
    UNION ALL SELECT w.tenant, w.call_id, v.tenant
    FROM policy.watched_calls AS w JOIN policy.verdicts AS v USING (call_id)
    UNION ALL SELECT u.tenant, u.call_id, g.tenant FROM policy.grant_uses AS u JOIN policy.grants AS g USING (grant_id)
    UNION ALL SELECT r.tenant, r.call_id, c.tenant
    FROM policy.reservations AS r JOIN policy.counters AS c USING (counter_id)
) AS pairs
WHERE tenant <> other

-- name: services_have_no_other_rights
-- 35: A service's role has no power over the server, and writes no table of another service.
SELECT '' AS tenant, rolname AS subject, 'may more than a service' AS found
FROM pg_roles JOIN pg_namespace AS n ON rolname LIKE '%\_' || n.nspname
WHERE n.nspname IN ('agent', 'approval', 'dead_letters', 'executor', 'gateway', 'jobs', 'notifier', 'policy')
    AND EXISTS (SELECT FROM aclexplode(n.nspacl) AS given WHERE given.grantee = pg_roles.oid)
    AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb OR rolreplication)
UNION ALL
SELECT '', r.rolname, 'may write ' || t.oid::regclass
FROM pg_roles AS r JOIN pg_namespace AS own ON r.rolname LIKE '%\_' || own.nspname AND NOT r.rolsuper
CROSS JOIN pg_class AS t JOIN pg_namespace AS n ON n.oid = t.relnamespace AND n.nspname <> own.nspname
WHERE t.relkind IN ('r', 'p') AND r.rolcanlogin
    AND EXISTS (SELECT FROM aclexplode(own.nspacl) AS given WHERE given.grantee = r.oid)
    AND own.nspname IN ('agent', 'approval', 'dead_letters', 'executor', 'gateway', 'jobs', 'notifier', 'policy')
    AND n.nspname IN ('agent', 'approval', 'dead_letters', 'executor', 'gateway', 'jobs', 'notifier', 'policy')
    AND has_table_privilege(r.oid, t.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')

-- name: bounds_hold
-- 36: Arguments and envelopes are no larger than they may be.
SELECT tenant, call_id AS subject, octet_length(arguments) || ' bytes of arguments' AS found
FROM agent.tool_calls WHERE octet_length(arguments) > 65536 AND result_kind IS DISTINCT FROM 'invalid'
UNION ALL
SELECT '', id, cardinality(events) || ' events in one envelope'
FROM (
    SELECT id, events FROM agent.outbox UNION ALL SELECT id, events FROM approval.outbox
    UNION ALL SELECT id, events FROM executor.outbox UNION ALL SELECT id, events FROM gateway.outbox
    UNION ALL SELECT id, events FROM jobs.outbox UNION ALL SELECT id, events FROM notifier.outbox
    UNION ALL SELECT id, events FROM policy.outbox UNION ALL SELECT id, events FROM dead_letters.outbox
) AS waiting
WHERE cardinality(events) > 64

-- name: nothing_is_from_the_future
-- 38: Nothing happened later than now by the database's clock: no other clock counts, and it was not set back.
SELECT tenant, subject_id AS subject, machine || ' at ' || at AS found
FROM (
    SELECT tenant, machine, subject_id, at FROM agent.history
    UNION ALL SELECT tenant, machine, subject_id, at FROM approval.history
    UNION ALL SELECT tenant, machine, subject_id, at FROM dead_letters.history
    UNION ALL SELECT tenant, machine, subject_id, at FROM executor.history
    UNION ALL SELECT tenant, machine, subject_id, at FROM gateway.history
    UNION ALL SELECT tenant, machine, subject_id, at FROM jobs.history
    UNION ALL SELECT tenant, machine, subject_id, at FROM notifier.history
    UNION ALL SELECT tenant, machine, subject_id, at FROM policy.history
    UNION ALL SELECT tenant, 'approval', approval_id, created_at FROM approval.approvals
    UNION ALL SELECT tenant, 'execution', call_id, begun_at FROM executor.executions
) AS moved
WHERE at > clock_timestamp()

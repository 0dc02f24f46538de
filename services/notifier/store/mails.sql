-- name: add
-- The same mail tried again is the same rows.
INSERT INTO notifier.mails (mail_id, approval_id, tenant, channel, recipient, person, made_at)
SELECT mail_id, approval_id, tenant, channel, recipient, person, :now::timestamptz
FROM jsonb_populate_recordset(NULL::notifier.mails, :mails) AS given
ON CONFLICT DO NOTHING

-- name: add_link
INSERT INTO notifier.links (
    token_hash, mail_id, tenant, approval_id, person, digest, code_hash, revision, expires_at
)
VALUES (
    :token_hash, :mail_id, :tenant, :approval_id, :person, :digest, :code_hash, :revision,
    least(:now::timestamptz + make_interval(secs => :seconds::double precision), :deadline::timestamptz)
)

-- name: approvals_in
SELECT approval_id, channel, recipient, person FROM notifier.mails WHERE mail_id = :mail_id AND tenant = :tenant

-- name: count_waiting
SELECT count(*) FROM notifier.deliveries
WHERE pending AND state IN ('due', 'kept', 'sent')
  AND tenant = :tenant AND channel = :channel AND recipient = :recipient AND person = :person

-- name: forget_links
-- Old ones, but for those that somebody else is deleting.
DELETE FROM notifier.links
WHERE token_hash IN (
    SELECT token_hash FROM notifier.links WHERE expires_at < :before::timestamptz FOR UPDATE SKIP LOCKED
)

-- name: forget_mails
DELETE FROM notifier.mails
WHERE (mail_id, approval_id) IN (
    SELECT mail_id, approval_id FROM notifier.mails WHERE made_at < :before::timestamptz FOR UPDATE SKIP LOCKED
)

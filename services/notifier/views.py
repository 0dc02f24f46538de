"""What others may read of the notifier."""

from __future__ import annotations

VIEWS = {
    "deliveries": """
        SELECT delivery_id, tenant, approval_id, channel, recipient, person, state, pending, revision, sent_revision,
               attempt, error, due_at, updated_at
        FROM notifier.deliveries
        WHERE state NOT IN ('asleep', 'spared')
    """,
    # A reply in Slack stands under one of these messages.
    "slack_cards": """
        SELECT tenant, approval_id, reference ->> 'channel' AS channel, reference ->> 'ts' AS ts
        FROM notifier.deliveries
        WHERE reference ->> 'ts' IS NOT NULL
    """,
    # What is told in them stays here.
    "webhook_events": """
        SELECT event_id, tenant, webhook, type, state, attempt, error, due_at, created_at FROM notifier.webhook_events
    """,
    # Of a link's token there is only the hash, and it is found by nothing else.
    "links": """
        SELECT token_hash, l.tenant, approval_id, l.person, digest, revision, expires_at, code_hash, m.recipient
        FROM notifier.links AS l LEFT JOIN notifier.mails AS m USING (mail_id, approval_id)
    """,
    "mails": """
        SELECT mail_id, tenant, approval_id, channel, recipient, made_at FROM notifier.mails
    """,
}

"""What others may read of the gateway: which API keys work, what is stopped, and when all was restored.

Secrets are told to nobody.
"""

from __future__ import annotations

VIEWS = {
    # Approval asks it when a decision falls: a vote counts as long as the key that proved its maker. Policy asks it
    # of grants.
    "api_keys": """
        SELECT key_id, tenant, revoked_at
        FROM gateway.api_keys
    """,
    # Policy asks them when a grant covers a call under four eyes, and the notifier as it draws a card first: who may
    # have asked in a conversation, or with a key that they made for a person and that this one had not taken over.
    "askers": """
        SELECT tenant, conversation_id,
               concat_ws(' ', CASE WHEN opener_decides THEN created_by END, nullif(relayed_by, '')) AS people
        FROM gateway.conversations
    """,
    "key_makers": """
        SELECT tenant, person, created_by, taken_over_at, revoked_at
        FROM gateway.api_keys
    """,
    # Every service asks it when it connects: what is from before the newest restore is void.
    "restores": """
        SELECT restored_at, backup_at
        FROM gateway.restores
    """,
    # Executors ask it in the statement that claims calls: a stop counts from its commit on. Each empty column of
    # `tenant`, `tool` and `agent` covers all.
    "stops": """
        SELECT stop_id, tenant, tool, agent, reason
        FROM gateway.stops
        WHERE resumed_at IS NULL
    """,
}

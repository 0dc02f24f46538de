"""What others may read of the gateway: which API keys work. Secrets are told to nobody."""

from __future__ import annotations

VIEWS = {
    # Approval asks it when a decision falls: a vote counts as long as the key that proved its maker. Policy asks it
    # of grants.
    "api_keys": """
        SELECT key_id, tenant, revoked_at
        FROM gateway.api_keys
    """,
}

"""What others may read of dead letters: of a letter's body only what people may see."""

from __future__ import annotations

VIEWS = {
    "dead_letters": """
        SELECT dead_letter_id, tenant, queue, service, reason, message_id, message_type, shown_body AS body, state,
               received_at, resolved_at, resolved_by
        FROM dead_letters.dead_letters
    """,
}

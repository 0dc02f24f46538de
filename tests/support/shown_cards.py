"""Cards for tests of channels: one builder, and what a hostile model would write on one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from placet.notifier.cards import Card
from placet.surfaces.card import Argument
from tests.builders import NOON

#: What a model writes that wants to be approved: markup, mentions, a second card, hidden and turned text.
HOSTILE = "<!channel> *Approved* by <@U0ADA> <https://evil.example|placet.example> :white_check_mark: & ```"


def a_card(**changes: Any) -> Card:
    """Return a card that waits for a decision."""
    fields: dict[str, Any] = {
        "approval_id": "approval-1",
        "tenant": "acme",
        "conversation_id": "conversation-1",
        "agent": "default",
        "tool": "create_pay_link",
        "summary": "Create a payment link over 299 TRY?",
        "requested_by": "visitor-1",
        "reason": "Money moves.",
        "rule": "payments",
        "arguments": [Argument("amount", "299", critical=True), Argument("currency", "TRY")],
        "digest": "c0ffee" + "a" * 58,
        "deadline": NOON + timedelta(hours=1),
        "needed": "1 of operators",
        "url": "https://placet.example/inbox/approval-1",
    }
    return Card(**(fields | changes))

"""What a frontend of any dialect is told of an approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: What an approval's card tells beside who may decide it.
_FIELDS = (
    "approval_id",
    "call_id",
    "tool",
    "arguments",
    "summary",
    "reason",
    "digest",
    "revision",
    "state",
    "approvers",
    "expires_at",
    "decided_by",
    "decision_reason",
    "answer_kind",
    "note",
)


def shown_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a frontend is told of an approval."""
    return {name: card[name] for name in _FIELDS if card.get(name) is not None}

"""What both OpenAI dialects say of calls and approvals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services.gateway.dialects.moves import CallAnswered
from services.gateway.dialects.openai_ids import request_id
from services.gateway.holder import Held

_CARD_FIELDS = ("approval_id", "call_id", "tool", "summary", "reason", "digest", "revision", "approvers", "expires_at")


def shown_cards(cards: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a client is told of approvals that wait: beside the card its id, and that of its request."""
    return [
        {"id": card["approval_id"], "request_id": request_id(card)}
        | {name: card[name] for name in _CARD_FIELDS[1:] if card.get(name) is not None}
        for card in cards
    ]


def shown_result(move: CallAnswered) -> dict[str, Any]:
    """Return how a call ended, for clients that want to know more than that it did: {id, tool, kind, …}."""
    told: dict[str, Any] = {"id": move.call_id, "tool": move.tool, "kind": move.kind}
    if blocks := move.result.get("ui_blocks"):
        told["ui_blocks"] = blocks
    return told


def shown_holder(held: Held) -> dict[str, str] | None:
    """Return who answers in the agent's place, {state, operator}; None where the agent does."""
    return {"state": held.state.value, "operator": held.operator} if held.by_people else None


def final_text(end: Mapping[str, Any]) -> str:
    """Return the text of a turn's final answer; empty where it ended without one."""
    answer = end.get("final_answer") or {}
    return str(answer.get("result") or "")


def failure_of(end: Mapping[str, Any]) -> str:
    """Return why a turn failed; empty where it did not."""
    return "" if end["state"] == "finished" else str(end.get("reason") or end["state"])

"""How a conversation stands: a fold over its newest items, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from placet.gateway.conversations.items import Item, ItemType
from placet.gateway.conversations.rules import Card, call_status, conversation_status, shown_card

Told = tuple[ItemType, dict[str, Any]]

STARTED: Told = ("turn", {"state": "started", "turn_id": "t", "message_id": "m"})
PROPOSED: Told = ("tool_call", {"call_id": "c", "turn_id": "t", "tool": "pay", "arguments": {}, "status": "proposed"})
HELD: Told = ("tool_call", {"call_id": "c", "turn_id": "t", "tool": "pay", "status": "pending_confirmation"})
CARD: Told = ("approval", {"call_id": "c", "approval_id": "a", "state": "pending", "digest": "d"})
VOTED: Told = ("approval", {"call_id": "c", "approval_id": "a", "state": "pending", "kind": "voted"})
PAUSED: Told = ("turn", {"state": "paused", "turn_id": "t", "waiting": [{"call_id": "c", "approval_id": "a"}]})
APPROVED: Told = ("approval", {"call_id": "c", "approval_id": "a", "state": "approved"})
PROGRESS: Told = ("progress", {"call_id": "c", "tool": "pay", "fraction": 0.5})
RESULT: Told = ("tool_call", {"call_id": "c", "turn_id": "t", "tool": "pay", "status": "success", "kind": "succeeded"})
OVER: Told = ("turn", {"state": "finished", "turn_id": "t", "reason": "", "idle": True, "open": []})
WAITING = (STARTED, PROPOSED, HELD, CARD, PAUSED)


def items(*told: Told) -> list[Item]:
    """Return a log."""
    return [Item(number, kind, "2026-01-01T00:00:00+00:00", data) for number, (kind, data) in enumerate(told, 1)]


@pytest.mark.parametrize(
    ("told", "state", "call"),
    [
        ((), "idle", None),
        ((STARTED,), "working", None),
        ((STARTED, PROPOSED), "working", "proposed"),
        (WAITING, "waiting", "pending_confirmation"),
        ((*WAITING, VOTED), "waiting", "pending_confirmation"),
        ((*WAITING, APPROVED), "working", "decided"),
        ((*WAITING, APPROVED, PROGRESS), "working", "executing"),
        ((*WAITING, RESULT), "working", "success"),
        ((*WAITING, RESULT, APPROVED), "working", "success"),
        ((*WAITING, RESULT, PROGRESS, APPROVED, OVER), "idle", "success"),
        ((STARTED, PROPOSED, HELD, CARD, OVER), "waiting", "pending_confirmation"),
        ((*WAITING, OVER, APPROVED), "idle", "decided"),
    ],
)
def test_a_conversation_waits_works_or_idles(told: tuple[Told, ...], state: str, call: str | None) -> None:
    """It waits while a call waits for people, also behind its turn; a result is never taken back."""
    status = conversation_status(items(*told))
    known = status.calls.get("c")
    assert (state, call) == (status.state, known.status if known else None)


def test_a_call_keeps_its_approval_and_how_it_ended() -> None:
    """What a list of calls shows."""
    call = conversation_status(items(*WAITING, APPROVED, RESULT)).calls["c"]
    assert ("a", "succeeded", True) == (call.approval_id, call.kind, bool(call.answered_at))


@pytest.mark.parametrize(
    ("approval", "execution", "status"),
    [
        ("pending", None, "pending_confirmation"),
        ("approved", None, "decided"),
        ("denied", None, "decided"),
        ("approved", "running", "executing"),
        (None, "verifying", "executing"),
        (None, None, "proposed"),
    ],
)
def test_a_call_is_told_to_wait_only_while_it_waits(approval: str | None, execution: str | None, status: str) -> None:
    """Once people have decided it is decided, then executing."""
    assert status == call_status(approval, execution)


def spoken(**more: Any) -> Told:
    """Return words of the model."""
    return "message", {"role": "assistant", "message_id": "x", "text": "Shall I?", **more}


@pytest.mark.parametrize(
    ("told", "card"),
    [
        ((CARD,), Card("d", spoken_since=False)),
        ((spoken(), CARD, VOTED), Card("d", spoken_since=False)),
        ((CARD, spoken()), Card("d", spoken_since=True)),
        ((CARD, spoken(while_waiting=True)), Card("d", spoken_since=False)),
        ((CARD, spoken(text="")), Card("d", spoken_since=False)),
        ((CARD, spoken(), (CARD[0], CARD[1] | {"digest": "e"})), Card("e", spoken_since=False)),
        ((VOTED,), None),
    ],
)
def test_a_card_is_as_it_was_last_shown(told: tuple[Told, ...], card: Card | None) -> None:
    """With whether the model has said anything since that could be what a yes is about."""
    assert card == shown_card(items(*told), "a")

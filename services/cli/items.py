"""What the items of a conversation say in a terminal, and which of them ask the person there. Pure."""

from __future__ import annotations

import json
from typing import Any

from placet.cli.output import spoken
from placet.domain.card_text import visible

#: One item of the event stream: {id, type, data}.
Item = dict[str, Any]


def is_card(item: Item) -> bool:
    """Whether an item shows a call that can be decided now: one that begins to wait, or was edited.

    Votes, reminders, claims and the like are items of a pending approval too, and only a card has a digest.
    """
    data = item["data"]
    return bool(item["type"] == "approval" and data.get("state") == "pending" and data.get("digest"))


def ends_turn(item: Item) -> bool:
    """Whether an item says that a turn is over."""
    return bool(item["type"] == "turn" and item["data"].get("state") not in {"started", "paused", "continued"})


def closed_approval(item: Item) -> str | None:
    """Return the id of the approval that an item says is over; None where it says nothing of the kind."""
    data = item["data"]
    closes = item["type"] == "approval" and data.get("state") != "pending"
    return str(data.get("approval_id")) if closes else None


def lines_of(item: Item) -> list[tuple[str, str]]:
    """Return the lines that an item is shown by, each with its style; none for an item that a terminal leaves out."""
    data = item["data"]
    match item["type"]:
        case "message" if data.get("role") == "assistant" and data.get("text"):
            return [(f"agent> {spoken(data['text'])}", "")]
        case "message" if data.get("taken_as"):
            taken = data["taken_as"]
            return [(f"  = taken as {taken['decision']}: {taken['summary']}", "dim")]
        case "tool_call":
            # What is staged has not happened: it is no success yet.
            told = "staged" if data.get("kind") == "staged" else data.get("status")
            return [(f"  . {data.get('tool')}: {told}", "dim")]
        case "progress":
            share = "" if data.get("fraction") is None else f"{data['fraction']:.0%}"
            told = " ".join(part for part in (share, spoken(data.get("text") or "")) if part)
            return [(f"  . {data.get('tool')}: {told or 'runs'}", "dim")]
        case "approval":
            return _note(data) + (_card(data) if is_card(item) else [])
        case _:
            return []


def _note(data: dict[str, Any]) -> list[tuple[str, str]]:
    if data.get("state") != "pending":
        return [(f"  = {data.get('state')}", "dim")]
    note = data.get("note")
    return [(f"  . {spoken(note)}", "dim")] if note else []


def asks_for_staged(item: Item) -> bool:
    """Whether a card asks for entries of a workspace, which are shown line by line."""
    arguments = item["data"].get("arguments")
    return is_card(item) and isinstance(arguments, dict) and {"workspace_id", "entries"} <= arguments.keys()


def _card(data: dict[str, Any]) -> list[tuple[str, str]]:
    if asks_for_staged({"type": "approval", "data": data}):
        return [(f"  ? {data.get('summary')}", "yellow")]
    arguments = visible(json.dumps(data.get("arguments"), ensure_ascii=False))
    # An edit says what it changed, and not again whose arguments these are.
    call = f"{data['tool']} {arguments}" if data.get("tool") else arguments
    return [(f"  ? {data.get('summary')}", "yellow"), (f"    {call}", "")]

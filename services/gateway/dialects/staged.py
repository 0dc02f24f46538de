"""What a conversation's log says of staged calls: their lines stand on the card of the commit that runs them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from placet.gateway.dialects.changes import Data


def note(staged: MutableMapping[str, Data], data: Data) -> None:
    """Note the item of a call that was staged, {call_id, tool, summary}, and later what became of it, its `outcome`.

    A job's commit names its entries itself: they were staged in other conversations.
    """
    call_id = data["call_id"]
    for entry in data.get("entries") or ():
        staged[entry["call_id"]] = dict(entry)
    if data.get("kind") == "staged":
        told = data.get("data")
        summary = str(told.get("summary", "")) if isinstance(told, Mapping) else ""
        staged[call_id] = {"call_id": call_id, "tool": data["tool"], "summary": summary}
    elif call_id in staged and data.get("outcome"):
        staged[call_id] = {**staged[call_id], "outcome": data["outcome"]}


def entries_of(staged: Mapping[str, Data], arguments: Any) -> list[Data]:
    """Return what a commit would do, entry by entry; its arguments are ids, which say nothing to people."""
    named = arguments.get("entries") if isinstance(arguments, Mapping) else None
    return [staged[each] for each in named or () if each in staged]


def leave_out_schema(card: Mapping[str, Any]) -> Data:
    """Return the property by which an answer may leave entries of a commit out; none where the card is of none."""
    entries = [each["call_id"] for each in card.get("staged") or ()]
    if not entries:
        return {}
    return {
        "leave_out": {
            "type": "array",
            "items": {"type": "string", "enum": entries},
            "description": "Goes with a yes: the staged calls that do not run, and with them what touches the same.",
        }
    }

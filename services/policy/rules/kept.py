"""What is kept of a judged call, so that it can be judged again by another rulebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from placet.contracts.messages import ToolCall
from placet.policy.rules.call import CallFacts

#: Fields of a call that its verdict has columns for.
COLUMNS = frozenset({"call_id", "tenant", "conversation_id", "requester", "tool", "digest", "schema_digest"})


def kept_text(call: ToolCall, facts: CallFacts) -> str:
    """Return what a verdict keeps of a call beside `COLUMNS`, and what was counted for it, as JSON text.

    No database reads it, and none minds what is in it. Defaults are left out, and nothing is said twice.
    """
    repeated = {"shown_arguments"} if call.shown_arguments == call.arguments else set()
    told = call.model_dump(mode="json", exclude={*COLUMNS, *repeated, "asked"}, exclude_defaults=True)
    return to_json({"call": told} | ({"history": dict(facts.history)} if facts.history else {})).decode()


def facts_from(text: str, columns: Mapping[str, Any]) -> CallFacts:
    """Return the facts that `kept_text` kept beside `columns`; raise ValueError or NotStrictJson for another text."""
    kept = from_json(text)
    told = {"shown_arguments": kept["call"].get("arguments")} | kept["call"]
    call = ToolCall.model_validate(told | {name: columns[name] for name in COLUMNS})
    return replace(CallFacts.of(call), history=kept.get("history", {}))

"""A tool with a reply larger than some brokers take, and the model that asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

REPLY_BYTES = 200_000
#: YAML reads JSON.
RULEBOOK = json.dumps(
    {
        "version": 1,
        "tools": {
            "read_all": {
                "description": "Reads everything.",
                "category": "safe_read",
                "function": f"{__name__}:read_all",
                "parameters": {"type": "object", "properties": {}},
            }
        },
        "rules": [{"name": "reads", "match": {"tool": "read_all"}, "effect": "allow", "reason": "It only reads."}],
    }
)


def read_all() -> str:
    """Return a lot."""
    return "x" * REPLY_BYTES


def reply(messages: Sequence[Mapping[str, Any]], _: Sequence[Any], choice: str) -> Mapping[str, Any]:
    """Ask for everything, and be done."""
    if messages[-1]["role"] != "user" or choice == "none":
        return {"content": "Done."}
    call = {"id": f"call-{len(messages)}", "type": "function", "function": {"name": "read_all", "arguments": "{}"}}
    return {"content": "", "tool_calls": [call]}

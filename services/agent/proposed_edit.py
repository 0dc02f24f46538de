"""A model that makes the one edit which a message names: an agent for changes that a page proposes and people decide.

It needs no key and no network; `PLACET_MODEL`, or `model` in the file of agents, names it as
`python/placet.agent.proposed_edit:reply`. What it edits is staged, judged and approved like any change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]

TOOL = "edit_file"
STAGED = "The change is proposed. It is made once people have approved it."
UNKNOWN = "I make changes that a page of Placet proposes, and nothing else."


def reply(messages: Sequence[Message], tools: Sequence[Message], choice: str) -> Message:
    """Return the call of `edit_file` whose arguments are the JSON behind the message's first blank line."""
    del tools, choice
    newest = messages[-1]
    if newest["role"] == "tool":
        result = _object(str(newest["content"])).get("result", "unknown")
        return _said(STAGED if result == "staged" else f"The change has ended: {result}.")
    arguments = _object(str(newest["content"]).partition("\n\n")[2])
    if arguments.keys() != {"path", "old", "new"}:
        return _said(UNKNOWN)
    function = {"name": TOOL, "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"content": None, "tool_calls": [{"id": "edit-1", "type": "function", "function": function}]}


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _said(text: str) -> Message:
    return {"content": text, "tool_calls": []}

"""The model of the storm: it proposes as many calls of each kind as a message says, and then it is done."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: People say no to a call of this version, and the rules to one of that.
DENIED, FORBIDDEN = "denied-by-people", "forbidden-by-a-rule"
_KINDS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "gated": ("deploy", {"service": "shop", "version": "1"}),
    "denied": ("deploy", {"service": "shop", "version": DENIED}),
    "forbidden": ("deploy", {"service": "shop", "version": FORBIDDEN}),
    "ungated": ("refund", {"amount": 1}),
    "repeatable": ("set_flag", {"name": "flag"}),
    "staged": ("book_room", {"room": "blue"}),
}
_WISH = re.compile(r"(\d+) (gated|denied|forbidden|ungated|repeatable|staged)")


def reply(messages: Sequence[Mapping[str, Any]], _: Sequence[Any], choice: str) -> Mapping[str, Any]:
    """Answer a transcript; the same one always gets the same answer."""
    last = messages[-1]
    wishes = _WISH.findall(str(last.get("content"))) if last["role"] == "user" and choice != "none" else []
    wanted = [kind for count, kind in wishes for _ in range(int(count))]
    calls = [
        {
            "id": f"call-{len(messages)}-{number}",
            "type": "function",
            "function": {"name": _KINDS[kind][0], "arguments": json.dumps(_KINDS[kind][1])},
        }
        for number, kind in enumerate(wanted)
    ]
    return {"content": "On it." if calls else "Done.", "tool_calls": calls}

"""A model that writes files, for jobs: `python/tests.support.job_writer:reply`. One time in six it writes nonsense."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

_CHANCE = random.Random()  # noqa: S311 - errors of a model that is none
_TASK = re.compile(r"Add the line (\S+) to (\S+)\.")
#: Share of the attempts that write something else.
ERRORS = 1 / 6


def reply(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[Mapping[str, Any]], _choice: str = "auto"
) -> dict[str, Any]:
    """Read the file, write it with one more line, and say that it is done."""
    told = next(str(each["content"]) for each in messages if each["role"] == "user")
    found = _TASK.search(told)
    assert found is not None
    line, path = found.groups()
    results = [json.loads(str(each["content"])) for each in messages if each["role"] == "tool"]
    if not results:
        return _call("read_file", path=path)
    if len(results) == 1:
        before = (results[0].get("data") or {}).get("text", "")
        return _call("write_file", path=path, content=f"{before}{line if _CHANCE.random() > ERRORS else 'nonsense'}\n")
    return _call("final_answer", answer="done")


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{_CHANCE.random()}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call]}

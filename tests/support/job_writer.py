"""A model that writes files, for jobs: `python/tests.support.job_writer:reply`. One time in six it writes nonsense.

Every other attempt takes another way to the same content: it writes a draft first, and then the file.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

_CHANCE = random.Random()  # noqa: S311 - errors of a model that is none
_TASK = re.compile(r"Add the line (\S+) to (\S+)\.")
_WAYS = count()
#: Share of the attempts that write something else.
ERRORS = 1 / 6
DRAFT = "a draft\n"


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
    before = (results[0].get("data") or {}).get("text", "")
    content = f"{before}{line if _CHANCE.random() > ERRORS else 'nonsense'}\n"
    if len(results) == 1:
        return _call("write_file", path=path, content=DRAFT if next(_WAYS) % 2 else content)
    if len(results) == 2 and DRAFT.strip() in json.dumps(messages[-2]):
        return _call("write_file", path=path, content=content)
    return _call("final_answer", answer="done")


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    call = {"id": f"call_{_CHANCE.random()}", "type": "function", "function": function}
    return {"content": None, "tool_calls": [call]}

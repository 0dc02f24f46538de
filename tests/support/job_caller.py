"""A model that has jobs done: `python/tests.support.job_caller:reply`. It divides, tries and answers without errors."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_LINE = re.compile(r"Add the line (\S+) to (\S+)\.")
#: What a person says who wants a job done, or several at once.
WISH = "Have it done: "
AND = " And also: "


def reply(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[Mapping[str, Any]], _choice: str = "auto"
) -> dict[str, Any]:
    """Have a wish done by a job; in its attempts divide it, write the line, or try to have another job done."""
    told = next(str(each["content"]) for each in messages if each["role"] == "user")
    results = [json.loads(str(each["content"])) for each in messages if each["role"] == "tool"]
    if told.startswith("Divide"):
        task = told.rpartition("Task:\n")[2]
        return _call("final_answer", complexity=1, tasks=[{"id": "only", "task": task, "needs": []}])
    if told.startswith(WISH):
        tasks = told.removeprefix(WISH).split(AND)
        if not results:
            return _calls(*(("accomplish", {"task": task}) for task in tasks))
        return {"content": json.dumps((results[-1].get("data") or {}).get("result"))}
    if results:
        refused = "may not have further jobs done" in json.dumps(results[-1])
        return _call("final_answer", answer="refused" if refused else "done")
    found = _LINE.search(told)
    if found is None:
        return _call("accomplish", task="go deeper")
    line, path = found.groups()
    return _call("write_file", path=path, content=f"{line}\n")


def _call(tool: str, **arguments: Any) -> dict[str, Any]:
    return _calls((tool, arguments))


def _calls(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    made = [
        {"id": f"call_{tool}_{at}", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        for at, (tool, arguments) in enumerate(calls)
    ]
    return {"content": None, "tool_calls": made}

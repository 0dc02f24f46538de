"""A model that solves Towers of Hanoi one move at a time and errs on a share of them: `python/hanoi.model:reply`.

`HANOI_ERRORS` is the share of wrong moves, `HANOI_AGREE` the share of these that are the same wrong move,
`HANOI_MALFORMED` the share of answers that do not fit the schema.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

State = list[list[int]]
Answer = dict[str, Any]

PEGS = 3
#: Schema of one task's answer: the move as disk, from, to, and what it leaves on the pegs, the largest disk first.
ANSWER_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "move": {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3},
        "state": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
    },
    "required": ["move", "state"],
    "additionalProperties": False,
}
_CHANCE = random.Random(os.environ.get("HANOI_SEED"))  # noqa: S311 - errors of a model that is none
_STEP = re.compile(r"Make move (\d+) of \d+ for (\d+) disks")
_DISKS = re.compile(r"(\d+) disks")


def job(disks: int) -> dict[str, Any]:
    """Return the job of moving so many disks, as `POST /v1/jobs` takes it: without a division."""
    return {"task": f"Solve the Towers of Hanoi with {disks} disks.", "answer_schema": dict(ANSWER_SCHEMA)}


def tasks(disks: int) -> list[dict[str, Any]]:
    """Return the atomic tasks: each move needs the one before."""
    moves = 2**disks - 1
    return [
        {"id": f"m{n}", "task": f"Make move {n} of {moves} for {disks} disks.", "needs": [f"m{n - 1}"] if n > 1 else []}
        for n in range(1, moves + 1)
    ]


def start(disks: int) -> State:
    """Return the pegs before the first move."""
    return [list(range(disks, 0, -1)), [], []]


def right_answer(number: int, disks: int, before: State) -> Answer:
    """Return the move of this number, from 1, and what it leaves."""
    source, target = (number & (number - 1)) % PEGS, ((number | (number - 1)) + 1) % PEGS
    if disks % 2 == 0:
        # The pegs 1 and 2 change their parts.
        source, target = (-source) % PEGS, (-target) % PEGS
    return moved(before, source, target)


def moved(before: State, source: int, target: int) -> Answer:
    """Return the answer that moves the upper disk of a peg."""
    after = [list(peg) for peg in before]
    disk = after[source].pop()
    after[target].append(disk)
    return {"move": [disk, source, target], "state": after}


def reply(
    messages: Sequence[Mapping[str, Any]], _tools: Sequence[Mapping[str, Any]], _choice: str = "auto"
) -> dict[str, Any]:
    """Answer as a model would: divide the job, or make one move."""
    told = next(str(each["content"]) for each in messages if each["role"] == "user")
    if told.startswith("Divide"):
        found = _DISKS.search(told)
        return _final({"complexity": 5, "tasks": tasks(int(found[1]) if found else 1)})
    step = _STEP.search(told)
    if step is None:
        return {"content": "I know nothing but the Towers of Hanoi."}
    number, disks = int(step[1]), int(step[2])
    before = _before(told, number, disks)
    if _CHANCE.random() < _share("HANOI_MALFORMED"):
        return (
            _final({"move": "the upper one"}) if _CHANCE.random() < 1 / 2 else {"content": "The upper disk, I think."}
        )
    right = right_answer(number, disks, before)
    return _final(_wrong(right, before) if _CHANCE.random() < _share("HANOI_ERRORS") else right)


def _wrong(right: Answer, before: State) -> Answer:
    """Return a wrong move: the same one each time, or any."""
    others = [
        moved(before, source, target)
        for source in range(PEGS)
        for target in range(PEGS)
        if source != target and before[source] and [source, target] != right["move"][1:]
    ]
    return others[0] if _CHANCE.random() < _share("HANOI_AGREE") else _CHANCE.choice(others)


def _before(told: str, number: int, disks: int) -> State:
    if number == 1:
        return start(disks)
    given = told.split("Answers of earlier tasks:\n", 1)[1].split("\n", 1)[0]
    state: State = json.loads(given)[f"m{number - 1}"]["state"]
    return state


def _share(name: str) -> float:
    return float(os.environ.get(name, "0"))


def _final(answer: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": "final_answer", "arguments": json.dumps(answer)}
    return {
        "content": None,
        "tool_calls": [{"id": f"call_{_CHANCE.random()}", "type": "function", "function": function}],
    }

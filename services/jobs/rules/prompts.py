"""What the agents of a job are told: each everything that it needs, and nothing of what others tried."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from placet.contracts.messages import RunJob
from placet.contracts.messages.jobs import ATTEMPT_TEXT_MAX

#: Schema of a task's answer where the job says none.
PLAIN_ANSWER: Mapping[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "string", "maxLength": 32_000}},
    "required": ["answer"],
    "additionalProperties": False,
}
#: What a list of answers takes beside what is told of each, and each beside its text, in characters.
_HEAD, _LINE = 200, 200
_END = "Work on it alone, then call `final_answer` once, with the answer and nothing beside it."


def to_divide(job: RunJob) -> str:
    """Return what an agent is told that divides a job's task."""
    outputs = f"It must produce: {', '.join(job.outputs)}. Say which task produces which.\n" if job.outputs else ""
    return (
        "Divide the task below into atomic tasks: each so small that one answer settles it, each understandable "
        f"without the others, at most {job.plan.tasks_max}. Name the tasks whose answers a task needs.\n{outputs}"
        "Do none of them yourself: call `final_answer` with the division.\n\n"
        f"{_about(job)}"
    )


def to_try(job: RunJob, task: str, inputs: Mapping[str, Any]) -> str:
    """Return what an agent is told that tries one task, with the answers that it needs.

    Answers that are too long together are cut, each beyond an equal share.
    """
    parts = [f"Your task:\n{task}", f"It is one part of this:\n{_about(job)}", _END]
    if inputs:
        parts.insert(1, _answers(inputs, ATTEMPT_TEXT_MAX - sum(map(len, parts)) - _HEAD))
    return "\n\n".join(parts)


def _answers(inputs: Mapping[str, Any], room: int) -> str:
    told = json.dumps(inputs, ensure_ascii=False, sort_keys=True)
    if len(told) <= room:
        return f"Answers of earlier tasks:\n{told}"
    share = room // len(inputs) - _LINE
    texts = {name: json.dumps(inputs[name], ensure_ascii=False, sort_keys=True) for name in sorted(inputs)}
    lines = [f"{name}: {_cut(text, share)}" for name, text in texts.items()]
    return "\n".join(["Answers of earlier tasks, too long together, so long ones are cut:", *lines])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} … (cut: {most} of {len(text)} characters)"


def _about(job: RunJob) -> str:
    told: Sequence[str] = [
        f"Task:\n{job.task}",
        *([f"Context:\n{job.context}"] if job.context else []),
        *([f"Folder: {job.root}"] if job.root else []),
    ]
    return "\n\n".join(told)

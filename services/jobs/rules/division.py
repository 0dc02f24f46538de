"""How an agent divides a task, and what a job came to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from placet.contracts.messages import JobTask
from placet.contracts.messages.jobs import TASK_TEXT_MAX
from placet.domain.division import Unsound, checked

#: Id of the one task of a job that is not divided.
WHOLE = "whole"


def schema_of(tasks_max: int) -> dict[str, Any]:
    """Return the JSON Schema of what an agent that divides a task must answer."""
    name = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
    names = {"type": "array", "items": name, "maxItems": 64}
    task = {
        "type": "object",
        "properties": {
            "id": name,
            "task": {"type": "string", "minLength": 1, "maxLength": TASK_TEXT_MAX},
            "needs": {**names, "description": "Ids of tasks whose answers this one must be given."},
            "produces": {**names, "description": "Declared outputs that its answer is."},
        },
        "required": ["id", "task", "needs"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "complexity": {
                "type": "integer",
                "minimum": 0,
                "maximum": 10,
                "description": "How hard the whole task is.",
            },
            "tasks": {"type": "array", "items": task, "minItems": 1, "maxItems": tasks_max},
        },
        "required": ["complexity", "tasks"],
        "additionalProperties": False,
    }


def divided(
    answer: Mapping[str, Any], task: str, outputs: Sequence[str], *, tasks_max: int, easier: int
) -> list[JobTask]:
    """Return the tasks that an agent's answer names, in an order in which none comes before what it needs.

    One that calls the task easier than `easier` leaves it whole. Raises Unsound.
    """
    try:
        tasks = [JobTask.model_validate(each) for each in answer.get("tasks", ())]
    except ValidationError as error:
        raise Unsound(f"a task is malformed: {error.errors()[0]['msg']}") from error
    complexity = answer.get("complexity")
    if isinstance(complexity, int) and complexity < easier:
        return [JobTask(id=WHOLE, task=task[:TASK_TEXT_MAX], produces=list(outputs))]
    return checked(tasks, outputs, tasks_max=tasks_max)


def result_of(outputs: Sequence[str], tasks: Iterable[JobTask], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a job came to: each declared output's answer, or without outputs those of the last tasks."""
    tasks = list(tasks)
    if outputs:
        return {name: answers[each.id] for name in outputs for each in tasks if name in each.produces}
    needed = {name for each in tasks for name in each.needs}
    return {each.id: answers[each.id] for each in tasks if each.id not in needed}

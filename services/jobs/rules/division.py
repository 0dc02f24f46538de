"""What makes a division of a task sound, and which of its tasks can be tried side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from placet.contracts.errors import PlacetError
from placet.contracts.messages import JobTask
from placet.contracts.messages.jobs import TASK_TEXT_MAX

#: Id of the one task of a job that is not divided.
WHOLE = "whole"


class Unsound(PlacetError):
    """A division that nothing can be tried by; one line says why."""


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


def undivided(task: str, outputs: Sequence[str]) -> list[JobTask]:
    """Return the division of a task that stays whole."""
    return [JobTask(id=WHOLE, task=task[:TASK_TEXT_MAX], produces=list(outputs))]


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
        return undivided(task, outputs)
    return checked(tasks, outputs, tasks_max=tasks_max)


def checked(tasks: Sequence[JobTask], outputs: Sequence[str], *, tasks_max: int) -> list[JobTask]:
    """Return a division in an order in which no task comes before what it needs; raise Unsound where it has none."""
    if not tasks:
        raise Unsound("it has no task")
    if len(tasks) > tasks_max:
        raise Unsound(f"it has {len(tasks)} tasks, more than {tasks_max}")
    if twice := [name for name, times in Counter(each.id for each in tasks).items() if times > 1]:
        raise Unsound(f"two tasks are called {twice[0]}")
    known = {each.id for each in tasks}
    for each in tasks:
        if unknown := sorted(set(each.needs) - known):
            raise Unsound(f"task {each.id} needs {unknown[0]}, which is no task")
    produced = Counter(name for each in tasks for name in set(each.produces))
    for name in outputs:
        if produced[name] != 1:
            raise Unsound(f"output {name} is produced by {produced[name]} tasks")
    if undeclared := sorted(set(produced) - set(outputs)):
        raise Unsound(f"{undeclared[0]} is no declared output")
    groups = groups_of(tasks)
    places = {each.id: place for place, each in enumerate(tasks)}
    return sorted(tasks, key=lambda each: (groups[each.id], places[each.id]))


def groups_of(tasks: Iterable[JobTask]) -> dict[str, int]:
    """Return each task's group, from 0: one more than the last group of what it needs. Raises Unsound for a circle."""
    needs = {each.id: set(each.needs) for each in tasks}
    dependents: dict[str, list[str]] = {name: [] for name in needs}
    for name, needed in needs.items():
        for each in needed:
            dependents[each].append(name)
    groups: dict[str, int] = {}
    left = {name: len(needed) for name, needed in needs.items()}
    free = [name for name, number in left.items() if number == 0]
    while free:
        name = free.pop()
        groups[name] = max((groups[each] + 1 for each in needs[name]), default=0)
        for each in dependents[name]:
            left[each] -= 1
            if left[each] == 0:
                free.append(each)
    if circle := sorted(needs.keys() - groups.keys()):
        raise Unsound(f"tasks need each other in a circle: {', '.join(circle[:5])}")
    return groups


def result_of(outputs: Sequence[str], tasks: Iterable[JobTask], answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a job came to: each declared output's answer, or without outputs those of the last tasks."""
    tasks = list(tasks)
    if outputs:
        return {name: answers[each.id] for name in outputs for each in tasks if name in each.produces}
    needed = {name for each in tasks for name in each.needs}
    return {each.id: answers[each.id] for each in tasks if each.id not in needed}

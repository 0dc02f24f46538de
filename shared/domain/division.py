"""What makes a division of a task sound, and which of its tasks can be tried side by side. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from placet.contracts.errors import PlacetError
from placet.contracts.messages import JobTask


class Unsound(PlacetError):
    """A division that nothing can be tried by; one line says why."""


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

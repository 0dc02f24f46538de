"""Where a job's tasks stand on its picture: groups as columns, needs as lines, attempts as dots. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from placet.gateway.jobs.schemas import AttemptOut, TaskOut

#: Tasks that are drawn with name and attempts; of more each is a square.
DETAILED_MAX = 200
#: Lengths in units of the picture.
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 156, 52, 44, 14, 8
SQUARE, SQUARE_GAP = 14, 4
#: Columns, or squares, side by side before the next row begins.
COLUMNS, SQUARES = 8, 60
#: Attempts that have a dot; the rest are a number.
DOTS_MAX = 10
#: Characters of a task's name and of its votes, with one between them.
NAME_MAX = 17

Mark = Literal["agreed", "other", "flagged", "running", "lost"]


@dataclass(frozen=True, slots=True)
class Dot:
    """One attempt."""

    x: int
    y: int
    mark: Mark
    told: str


@dataclass(frozen=True, slots=True)
class Node:
    """One task."""

    x: int
    y: int
    state: str
    name: str
    votes: str
    told: str
    dots: tuple[Dot, ...]
    #: Attempts without a dot.
    more: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A job's tasks, drawn."""

    width: int
    height: int
    nodes: tuple[Node, ...]
    #: Lines from what is needed to what needs it, as the `d` of a path.
    edges: tuple[str, ...]
    detailed: bool


def picture(tasks: Sequence[TaskOut]) -> Picture:
    """Return the picture of a job's tasks."""
    return _detailed(tasks) if len(tasks) <= DETAILED_MAX else _squares(tasks)


def _squares(tasks: Sequence[TaskOut]) -> Picture:
    step = SQUARE + SQUARE_GAP
    nodes = tuple(
        Node(MARGIN + place % SQUARES * step, MARGIN + place // SQUARES * step, each.state, "", "", _told(each), (), 0)
        for place, each in enumerate(tasks)
    )
    rows = -(-len(tasks) // SQUARES)
    return Picture(2 * MARGIN + min(SQUARES, len(tasks)) * step, 2 * MARGIN + rows * step, nodes, (), detailed=False)


def _detailed(tasks: Sequence[TaskOut]) -> Picture:
    columns: dict[int, list[TaskOut]] = {}
    for each in tasks:
        columns.setdefault(each.group, []).append(each)
    numbers = sorted(columns)
    places: dict[str, tuple[int, int]] = {}
    top, width = MARGIN, 0
    for first in range(0, len(numbers), COLUMNS):
        band = numbers[first : first + COLUMNS]
        for column, number in enumerate(band):
            for row, each in enumerate(columns[number]):
                places[each.id] = (MARGIN + column * (WIDTH + GAP_X), top + row * (HEIGHT + GAP_Y))
        width = max(width, len(band) * (WIDTH + GAP_X) - GAP_X)
        top += max(len(columns[number]) for number in band) * (HEIGHT + GAP_Y) + GAP_Y
    edges = tuple(_edge(places[need], places[each.id]) for each in tasks for need in each.needs)
    nodes = tuple(_node(each, *places[each.id]) for each in tasks)
    return Picture(width + 2 * MARGIN, top, nodes, edges, detailed=True)


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x, y = start[0] + WIDTH, start[1] + HEIGHT // 2
    to_x, to_y = end[0], end[1] + HEIGHT // 2
    if to_x > x:
        middle = (x + to_x) // 2
        return f"M{x} {y} C{middle} {y} {middle} {to_y} {to_x} {to_y}"
    # From the end of one row to the beginning of a later one.
    below = end[1] - GAP_Y
    turn = GAP_X // 4
    return f"M{x} {y} h{turn} V{below} H{to_x - turn} V{to_y} h{turn}"


def _node(task: TaskOut, x: int, y: int) -> Node:
    winner = max(task.votes, key=lambda key: (task.votes[key], key), default="")
    shown = task.attempts[-DOTS_MAX:]
    dots = tuple(
        Dot(x + 12 + place * 11, y + HEIGHT - 13, _mark(each, winner, task.votes_from), _told_attempt(each))
        for place, each in enumerate(shown)
    )
    votes = ":".join(str(number) for number in sorted(task.votes.values(), reverse=True))
    name = _name(task.id, NAME_MAX - (len(votes) + 1 if votes else 0))
    return Node(x, y, task.state, name, votes, _told(task), dots, len(task.attempts) - len(shown))


def _name(task_id: str, most: int) -> str:
    """Return a task's id, or both ends of a long one: ids of one job often begin alike."""
    if len(task_id) <= most:
        return task_id
    tail = (most - 1) // 2
    return f"{task_id[: most - 1 - tail]}…{task_id[-tail:]}"


def _mark(attempt: AttemptOut, winner: str, votes_from: int) -> Mark:
    match attempt.state:
        case "voted" if attempt.attempt < votes_from:
            return "lost"
        case "voted":
            return "agreed" if attempt.vote == winner else "other"
        case "flagged" | "conflicted":
            return "flagged"
        case "running":
            return "running"
        case _:
            return "lost"


def _told(task: TaskOut) -> str:
    votes = ", ".join(f"{key[:8]} {number}" for key, number in sorted(task.votes.items(), key=lambda each: -each[1]))
    parts = [f"{task.id}: {task.task}", task.state, *([f"k {task.k}, {votes}"] if votes else [])]
    return "\n".join(parts)


def _told_attempt(attempt: AttemptOut) -> str:
    what = ", ".join(attempt.flags) or (attempt.vote or "")[:8]
    return f"{attempt.attempt}: {attempt.state} {what}".strip()

"""Divisions: what makes one sound, in which order it is tried, and what a job came to."""

from __future__ import annotations

import pytest

from placet.contracts.messages import JobTask
from placet.domain.division import Unsound, checked, groups_of
from placet.jobs.rules.division import divided, result_of, schema_of

pytestmark = pytest.mark.unit


def a_task(name: str, *needs: str, produces: tuple[str, ...] = ()) -> JobTask:
    """Return a task."""
    return JobTask(id=name, task=f"Do {name}.", needs=list(needs), produces=list(produces))


@pytest.mark.parametrize(
    ("tasks", "outputs", "why"),
    [
        ([], [], "it has no task"),
        ([a_task("a"), a_task("a")], [], "two tasks are called a"),
        ([a_task("a", "b")], [], "task a needs b, which is no task"),
        ([a_task("a", "a")], [], "tasks need each other in a circle: a"),
        ([a_task("a", "c"), a_task("b", "a"), a_task("c", "b")], [], "tasks need each other in a circle: a, b, c"),
        ([a_task(str(number)) for number in range(6)], [], "it has 6 tasks, more than 5"),
        ([a_task("a", produces=("x",))], ["x", "y"], "output y is produced by 0 tasks"),
        ([a_task("a", produces=("x",)), a_task("b", produces=("x",))], ["x"], "output x is produced by 2 tasks"),
        ([a_task("a", produces=("x",))], [], "x is no declared output"),
    ],
)
def test_an_unsound_division_says_why(tasks: list[JobTask], outputs: list[str], why: str) -> None:
    """Nothing can be tried by one that is empty, too large, circular, or does not cover what is declared."""
    with pytest.raises(Unsound) as caught:
        checked(tasks, outputs, tasks_max=5)
    assert why == str(caught.value)


def test_tasks_stand_behind_what_they_need() -> None:
    """Groups are the columns that can be tried side by side; within one the order of the division stays."""
    tasks = [a_task("d", "b", "c"), a_task("b", "a"), a_task("a"), a_task("c"), a_task("e", "a")]
    assert {"a": 0, "c": 0, "b": 1, "e": 1, "d": 2} == groups_of(tasks)
    assert ["a", "c", "b", "e", "d"] == [each.id for each in checked(tasks, [], tasks_max=9)]


def test_an_easy_task_stays_whole() -> None:
    """Below the complexity that is asked for there is one task, which is all of it and makes all outputs."""
    answer = {"complexity": 2, "tasks": [{"id": "a", "task": "A", "needs": []}]}
    (whole,) = divided(answer, "Count to three.", ["sum"], tasks_max=9, easier=3)
    assert ("whole", "Count to three.", ["sum"]) == (whole.id, whole.task, whole.produces)
    assert ["a"] == [each.id for each in divided(answer, "Count to three.", [], tasks_max=9, easier=2)]


def test_a_job_comes_to_its_outputs_or_to_its_last_tasks() -> None:
    """What other tasks were given is no result where nothing is declared."""
    tasks = [a_task("a", produces=("x",)), a_task("b", "a"), a_task("c", "a", produces=("y",))]
    answers = {"a": 1, "b": 2, "c": 3}
    assert {"y": 3, "x": 1} == result_of(["y", "x"], tasks, answers)
    assert {"b": 2, "c": 3} == result_of([], tasks, answers)


def test_the_schema_of_a_division_bounds_its_tasks() -> None:
    """An agent that names more makes a malformed call."""
    assert 7 == schema_of(7)["properties"]["tasks"]["maxItems"]

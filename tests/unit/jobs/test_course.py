"""What happens to a job, without a database: its attempts, its end, and what is said of money."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.contracts.messages import (
    AttemptEnded,
    AttemptRequested,
    AttemptWithdrawn,
    Author,
    JobBudget,
    JobPlan,
    JobTask,
    RunJob,
)
from placet.contracts.messages.jobs import ATTEMPT_TEXT_MAX, TASK_MAX, TASK_TEXT_MAX
from placet.jobs.course import Course
from placet.jobs.job_state import Attempt, Job, Task
from placet.jobs.rules import prompts
from placet.jobs.states import AttemptState, JobState, TaskState

pytestmark = pytest.mark.unit

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def a_course(*tasks: str, **spec: Any) -> Course:
    """Return a new job with tasks that need nothing, begun."""
    given: dict[str, Any] = {"plan": JobPlan(k=2, attempts_max=6)} | spec
    run = RunJob(
        tenant="acme",
        job_id="job",
        agent="default",
        author=Author(kind="person", id="person:ada"),
        task="Everything.",
        tasks=[JobTask(id=name, task=f"Do {name}.") for name in tasks],
        **given,
    )
    course = Course(Job("job", run))
    course.begin()
    return course


def started(course: Course, number: int = 0) -> tuple[Task, list[Attempt]]:
    """Begin a task; return it with its attempts."""
    task = course.new_tasks[number]
    course.start(task)
    return task, [each for each in course.new_attempts if each.number == task.number]


def an_end(attempt: Attempt, answer: Any = "A", **more: Any) -> AttemptEnded:
    """Return the end of an attempt."""
    ids = {"conversation_id": attempt.conversation_id, "attempt_id": attempt.attempt_id}
    told: dict[str, Any] = {"answer": None if more.get("flags") else {"answer": answer}}
    return AttemptEnded(tenant="acme", job_id="job", **ids, **told | {"input_tokens": 10, "output_tokens": 5} | more)


def test_a_first_wave_is_k_attempts_that_know_nothing_of_each_other() -> None:
    """Each has its own conversation and the same words; rules see by labels which one it is."""
    course = a_course("a")
    started(course)
    first, second = [each for each in course.emitted if isinstance(each, AttemptRequested)]
    assert first.text == second.text
    assert first.conversation_id != second.conversation_id
    assert [("job", "a", "1"), ("job", "a", "2")] == [
        (each.labels["job"], each.labels["task"], each.labels["attempt"]) for each in (first, second)
    ]
    assert (0, 1) == (first.variant, second.variant)


def test_what_is_thrown_out_has_no_vote_and_another_takes_its_place() -> None:
    """It is counted and paid for; the task needs as many votes as before."""
    course = a_course("a")
    task, (first, second) = started(course)
    course.take(task, first, an_end(first, flags=["malformed_call"]), NOW)
    assert (AttemptState.FLAGGED, {}, 2, 3) == (first.state, task.votes, task.running, task.drawn)
    third = course.new_attempts[-1]
    course.take(task, second, an_end(second), NOW)
    course.take(task, third, an_end(third), NOW)
    assert (TaskState.DECIDED, {"answer": "A"}) == (task.state, task.answer)
    assert (1, 3, 45) == (course.job.flagged, course.job.attempts, course.job.tokens)


def test_a_lost_attempt_costs_its_share_until_it_is_heard_of() -> None:
    """It is said in the log; where it ends after all, what it really used is counted and its vote is not."""
    course = a_course("a", budget=JobBudget(tokens_per_attempt=100))
    task, (first, _) = started(course)
    course.lose(task, first)
    assert (100, 2, 3) == (course.job.tokens, task.running, task.drawn)
    assert any(isinstance(each, AttemptWithdrawn) for each in course.emitted)
    assert "lost: 100 tokens are counted" in next(data["line"] for _, data in course.log if data.get("state") == "lost")
    course.take(task, first, an_end(first), NOW)
    assert (15, {}, AttemptState.LOST) == (course.job.tokens, task.votes, first.state)
    assert "ended too late: it has no vote" in course.log[-1][1]["line"]


def test_a_lost_attempt_that_answers_nothing_keeps_its_share() -> None:
    """It was withdrawn while its model was asked, and nobody knows what that has used."""
    course = a_course("a", budget=JobBudget(tokens_per_attempt=100))
    task, (first, _) = started(course)
    course.lose(task, first)
    course.take(task, first, an_end(first, flags=["stopped"], input_tokens=0, output_tokens=0), NOW)
    assert (100, 100) == (course.job.tokens, first.input_tokens)
    said = "ended too late: it has no vote. What it used is not known: its share stays counted. (0 calls, 100 tokens)"
    assert course.log[-1][1]["line"].endswith(said)


def test_a_lost_attempt_counts_as_the_dearest_one_until_it_is_heard_of() -> None:
    """A bound of cost would else hold for those alone of which something was heard."""
    course = a_course("a", budget=JobBudget(cost=10.0, tokens_per_attempt=100))
    task, (first,) = started(course)
    course.take(task, first, an_end(first, cost=0.3), NOW)
    lost = course.new_attempts[-1]
    course.lose(task, lost)
    counted = course.job.cost
    course.take(task, lost, an_end(lost, cost=0.1), NOW)
    assert [0.6, 0.4] == [counted, round(course.job.cost, 9)]


def test_behind_a_lost_first_attempt_nothing_begins_within_a_bound_of_cost() -> None:
    """Nobody knows what it may have cost, so nobody can tell that the next one has room."""
    course = a_course("a", budget=JobBudget(cost=1.0, tokens_per_attempt=100))
    task, (first,) = started(course)
    course.lose(task, first)
    assert (True, True, [first]) == (course.job.unpriced, course.job.starved, course.new_attempts)


def test_what_a_stopped_question_used_is_said_not_to_be_counted() -> None:
    """Its attempt was withdrawn while its model was asked: the log and the attempt say why its numbers are low."""
    course = a_course("a")
    task, (first, _) = started(course)
    course.close([task], [first])
    why = "Stopped by its job. Its model was being asked: what that question used is not counted."
    course.take(task, first, an_end(first, flags=["stopped"], reason=why, input_tokens=0, output_tokens=0), NOW)
    assert why == first.reason
    assert course.log[-1][1]["line"].endswith(f"was withdrawn: it has no vote. {why}")


def test_calls_that_were_refused_are_said_beside_the_vote() -> None:
    """An attempt whose write a rule or an emergency stop refused votes all the same, with nothing staged."""
    course = a_course("a")
    task, (first, _) = started(course)
    course.take(task, first, an_end(first, refused=2), NOW)
    assert ", 2 calls refused (0 calls, 15 tokens)" in course.log[-1][1]["line"]


@pytest.mark.parametrize(("number", "times"), [(1, "once"), (2, "2 times")])
def test_what_was_paid_twice_is_said(number: int, times: str) -> None:
    """A worker died while its model was asked: the line of the attempt says so."""
    course = a_course("a")
    task, (first, _) = started(course)
    course.take(task, first, an_end(first, asked_again=number), NOW)
    assert f"asked again {times} after a worker died" in course.log[-1][1]["line"]


def test_lines_of_the_log_count_as_people_do() -> None:
    """One task, two tasks."""
    lines = [a_course(*tasks).log[1][1]["line"] for tasks in ("a", "ab")]
    assert ["divided into 1 task in 1 group", "divided into 2 tasks in 1 group"] == lines


def test_a_job_without_room_for_a_share_waits_and_says_so() -> None:
    """The second attempt of the wave has no room while the first has its share reserved."""
    course = a_course("a", budget=JobBudget(tokens=150, tokens_per_attempt=100))
    task, attempts = started(course)
    assert (1, True) == (len(attempts), course.job.starved)
    course.take(task, attempts[0], an_end(attempts[0]), NOW)
    assert (2, 15) == (task.drawn, course.job.tokens)


def test_a_task_that_nobody_can_win_any_more_ends_its_job() -> None:
    """No attempt is drawn whose vote could not matter."""
    course = a_course("a", plan=JobPlan(k=2, attempts_max=3))
    task, (first, second) = started(course)
    course.take(task, first, an_end(first, "A"), NOW)
    course.take(task, second, an_end(second, "B"), NOW)
    assert (TaskState.FAILED, JobState.FAILED, 2) == (task.state, course.job.state, task.drawn)
    assert course.job.reason.startswith("Task a failed. No answer can win: 2 attempts, votes: ")


def test_a_task_that_nobody_can_win_says_what_was_thrown_out() -> None:
    """By its flags, with what was lost, in the job's reason; the log says each in a sentence."""
    course = a_course("a", plan=JobPlan(k=1, attempts_max=4))
    task, _ = started(course)
    ends = [("no_final_answer", "It said nothing."), ("token_limit", ""), ("token_limit", "")]
    for flag, reason in ends:
        attempt = course.new_attempts[-1]
        course.take(task, attempt, an_end(attempt, flags=[flag], reason=reason), NOW)
    course.lose(task, course.new_attempts[-1])
    why = "4 attempts: 3 thrown out (1 no final answer, 2 token limit), 1 lost, votes: none"
    assert f"Task a failed. No answer can win: {why}." == course.job.reason
    told = [data["line"] for _, data in course.log if data.get("state") == "flagged"]
    assert ["It said nothing. (0 calls, 15 tokens)", "token limit (0 calls, 15 tokens)"] == [
        each.partition("thrown out: ")[2] for each in told[:2]
    ]


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        ([], "No division was sound. No answer can win: 3 attempts: 3 thrown out (unsound division), votes: none."),
        (
            ["no_final_answer"],
            "The task was not divided. No answer can win: 3 attempts: 3 thrown out (no final answer), votes: none.",
        ),
    ],
)
def test_a_division_that_fails_says_why(flags: list[str], what: str) -> None:
    """Nobody is told that divisions were unsound where there was none."""
    course = a_course()
    task, _ = started(course)
    for _ in range(3):
        attempt = course.new_attempts[-1]
        course.take(task, attempt, an_end(attempt, flags=flags), NOW)
    assert what == course.job.reason


def test_an_attempt_that_no_model_answers_does_not_count_and_the_next_one_waits_longer() -> None:
    """Each pause is as long as the silence so far, a minute at most; after fifteen the job is given up."""
    course = a_course("a", plan=JobPlan(k=1, attempts_max=1))
    task, _ = started(course)
    waited = []
    for minutes in (0, 0.5, 14.9):
        attempt, now = course.new_attempts[-1], NOW + timedelta(minutes=minutes)
        course.take(task, attempt, an_end(attempt, flags=["no_model"]), now)
        waited.append((course.new_attempts[-1].begins_at or now) - now)
    assert [timedelta(seconds=1), timedelta(seconds=30), timedelta(seconds=60)] == waited
    assert 1 == sum(isinstance(each, AttemptRequested) for each in course.emitted)
    assert "The next one waits 60 s." in course.log[-1][1]["line"]
    attempt = course.new_attempts[-1]
    course.take(task, attempt, an_end(attempt, flags=["no_model"], reason="Why."), NOW + timedelta(minutes=15))
    assert (JobState.FAILED, "No model answered for 15 minutes. The last reason: Why.") == (
        course.job.state,
        course.job.reason,
    )


def test_any_answer_ends_the_silence() -> None:
    """Also one that is thrown out for another reason: a model said it."""
    course = a_course("a")
    task, (first, second) = started(course)
    course.take(task, first, an_end(first, flags=["no_model"]), NOW)
    course.take(task, second, an_end(second, flags=["token_limit"]), NOW)
    assert (None, None) == (course.job.silent_since, course.new_attempts[-1].begins_at)


def test_no_attempt_is_paid_for_where_attempts_max_is_less_than_the_lead() -> None:
    """The lead is computed once the division says how many tasks there are: more votes than may be drawn."""
    course = a_course("a", plan=JobPlan(p=0.6, attempts_max=5))
    task, attempts = started(course)
    assert ([], TaskState.FAILED, JobState.FAILED) == (attempts, task.state, course.job.state)
    assert "it must be ahead by 12 votes, and attempts_max is 5" in course.job.reason


def test_an_epsilon_that_no_lead_meets_is_said() -> None:
    """The task goes on with the most there is, and its log says what that leaves."""
    course = a_course("a", plan=JobPlan(p=0.51, attempts_max=60))
    started(course)
    (said,) = [line["line"] for _, line in course.log if "leaves a chance" in line["line"]]
    assert said.endswith("leaves a chance of 0.31 that any task is decided wrongly, above 0.01")


def test_an_unsound_division_is_thrown_out_and_made_again() -> None:
    """A division is an answer like any other: one that is no use has no vote."""
    course = a_course()
    task, (first,) = started(course)
    circle = [{"id": "a", "task": "A", "needs": ["b"]}, {"id": "b", "task": "B", "needs": ["a"]}]
    wrong = an_end(first).model_copy(update={"answer": {"complexity": 5, "tasks": circle}})
    course.take(task, first, wrong, NOW)
    assert (["unsound_division"], JobState.DIVIDING, 2) == (first.flags, course.job.state, task.drawn)
    second = course.new_attempts[-1]
    sound = {"complexity": 5, "tasks": [{"id": "a", "task": "A", "needs": []}]}
    course.take(task, second, an_end(second).model_copy(update={"answer": sound}), NOW)
    assert (JobState.RUNNING, 1, "a") == (course.job.state, course.job.tasks, course.new_tasks[-1].task_id)
    voted, divided = [data["line"] for _, data in course.log][-2:]
    assert (True, "divided into 1 task in 1 group") == ("voted" in voted, divided)


def test_a_late_division_divides_nothing() -> None:
    """Where it was given up for lost, another one has taken its place."""
    course = a_course()
    task, (first,) = started(course)
    course.lose(task, first)
    sound = {"complexity": 5, "tasks": [{"id": "a", "task": "A", "needs": []}]}
    course.take(task, first, an_end(first).model_copy(update={"answer": sound}), NOW)
    assert (JobState.DIVIDING, 0) == (course.job.state, course.job.tasks)


def test_a_cancelled_job_withdraws_what_is_under_way() -> None:
    """And a second word changes nothing."""
    course = a_course("a", "b")
    task, attempts = started(course)
    course.cancel("person:ada")
    course.close([task, course.new_tasks[1]], attempts)
    course.cancel("person:grace")
    assert (JobState.CANCELLED, "Cancelled by person:ada.", 0) == (
        course.job.state,
        course.job.reason,
        course.job.running,
    )
    assert {TaskState.WITHDRAWN} == {each.state for each in course.new_tasks}
    assert {AttemptState.WITHDRAWN} == {each.state for each in attempts}


@pytest.mark.parametrize("letter", ["x", '"', "\n", "\u0130"])
@pytest.mark.parametrize("number", [17, 64])
def test_answers_that_are_too_long_together_are_cut_and_said_to_be(letter: str, number: int) -> None:
    """However long what an attempt is told would be, it is sent, with a part of every answer."""
    names = [f"{each:02}".ljust(64, "n") for each in range(number)]
    spec = a_course("a").job.spec.model_copy(update={"task": "t" * TASK_MAX, "context": "c" * TASK_MAX})
    inputs = {name: {"answer": letter * 64_000} for name in names} | {names[-1]: {"answer": "short"}}
    text = prompts.to_try(spec, "d" * TASK_TEXT_MAX, inputs)
    assert 0.9 * ATTEMPT_TEXT_MAX < len(text) <= ATTEMPT_TEXT_MAX
    told = [name for name in names if f'{name}: {{"answer": "' in text]
    assert (names, number - 1, True) == (told, text.count(" … (cut: "), '"short"}' in text)


def test_answers_that_fit_are_told_as_they_are() -> None:
    """Nothing is cut where there is room."""
    text = prompts.to_try(a_course("a").job.spec, "Sum up.", {"b": {"answer": "x" * 60_000}, "a": {"answer": "é"}})
    assert f'Answers of earlier tasks:\n{{"a": {{"answer": "é"}}, "b": {{"answer": "{"x" * 60_000}"}}}}' in text

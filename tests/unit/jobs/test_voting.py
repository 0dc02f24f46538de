"""Votes: who is ahead, how many are lacking, and how many are enough."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.messages import JobBudget
from placet.domain.reliability import (
    K_MAX,
    Record,
    chance_of_error,
    expected_votes,
    least_k,
    votes_needed,
)
from placet.jobs.rules.budget import Spent, affordable, money_of_each, no_room, width
from placet.jobs.rules.voting import lacking, leader, next_step, vote_key

pytestmark = pytest.mark.unit

VOTES = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), max_size=4)


def test_attempts_agree_when_their_answers_mean_the_same() -> None:
    """The order of keys and the way a number is written make no difference; what was staged does."""
    one, other = {"a": 1, "b": [1.0]}, {"b": [1], "a": 1}
    assert vote_key(one, None) == vote_key(other, None)
    assert 3 == len({vote_key(one, None), vote_key(one, "0" * 64), vote_key({**one, "a": 2}, None)})


@pytest.mark.parametrize(
    ("votes", "first", "ahead"),
    [({}, "", 0), ({"a": 2}, "a", 2), ({"a": 2, "b": 2}, "a", 0), ({"a": 1, "b": 4, "c": 2}, "b", 2)],
)
def test_the_leader_is_ahead_of_the_second(votes: dict[str, int], first: str, ahead: int) -> None:
    """By the difference of their votes."""
    assert (first, ahead) == leader(votes)


@given(VOTES, st.integers(1, 6))
def test_what_the_leader_lacks_makes_it_win(votes: dict[str, int], k: int) -> None:
    """With so many more votes it is ahead by k; with one fewer nobody is."""
    missing, first = lacking(votes, k), leader(votes)[0] or "a"
    assert 0 == lacking({**votes, first: votes.get(first, 0) + missing}, k)
    if missing:
        assert 1 == lacking({**votes, first: votes.get(first, 0) + missing - 1}, k)


@given(st.integers(1, 6), st.integers(0, 30), st.randoms(use_true_random=False), st.floats(0.5, 1.0))
def test_a_task_ends_with_no_attempt_spare(k: int, more: int, dice: random.Random, p: float) -> None:
    """Whatever the votes: none is under way when it is decided or fails, and no more are drawn than may be."""
    votes: Counter[str] = Counter()
    running = drawn = 0
    most = k + more
    while True:
        after = next_step(votes, k, running=running, drawn=drawn, attempts_max=most)
        if after.step != "draw":
            break
        drawn, running = drawn + after.draw, running + after.draw
        assert drawn <= most
        assert 0 < running <= lacking(votes, k)
        running -= 1
        if dice.random() < 0.8:
            votes["right" if dice.random() < p else dice.choice("xyz")] += 1
    if after.step == "decided":
        assert (0, after.winner) == (running, leader(votes)[0])
    else:
        assert lacking(votes, k) > running + most - drawn


def test_k_is_the_least_that_keeps_the_chance_of_error_within_its_bound() -> None:
    """As the paper says: it grows with the logarithm of the number of steps."""
    for p in (0.99, 0.95, 0.9, 0.7):
        for tasks in (1, 31, 1_023, 1_048_575):
            k = least_k(p, tasks, 0.01)
            assert k == K_MAX or chance_of_error(k, p, tasks) <= 0.01
            assert k == 1 or chance_of_error(k - 1, p, tasks) > 0.01
    assert [2, 3, 5] == [least_k(0.99, tasks, 0.01) for tasks in (31, 1_023, 1_048_575)]


def test_a_thousand_tasks_cost_what_the_formula_says() -> None:
    """Votes drawn for a model that is right with p, and whose errors agree, beside the length of the random walk."""
    dice, p, k, tasks = random.Random(7), 0.9, 3, 20_000  # noqa: S311 - a run that can be repeated
    drawn = 0
    for _ in range(tasks):
        ahead = 0
        while abs(ahead) < k:
            ahead += 1 if dice.random() < p else -1
            drawn += 1
    assert drawn / tasks == pytest.approx(expected_votes(k, p), rel=0.02)


def test_p_is_believed_more_with_each_vote() -> None:
    """The first task has the most votes to win; agreement brings k down, disagreement up; what is given stands."""
    told = {"tasks": 100, "epsilon": 0.01}
    first, agreed, torn = Record(), Record(300, 300), Record(150, 250)
    found = [votes_needed(None, None, each, **told).k for each in (agreed, first, torn)]  # type: ignore[arg-type]
    assert sorted(found) == found
    assert found[0] < found[1] < found[2]
    assert (4, 3) == (
        votes_needed(4, None, first, tasks=100, epsilon=0.01).k,
        votes_needed(None, 0.99, torn, tasks=1_023, epsilon=0.01).k,
    )


@pytest.mark.parametrize(
    ("budget", "spent", "may"),
    [
        (JobBudget(), Spent(tokens=10**9, cost=1e6), 3),
        (JobBudget(tokens=1_000, tokens_per_attempt=100), Spent(tokens=500, running=3), 2),
        (JobBudget(tokens=1_000, tokens_per_attempt=100), Spent(tokens=999), 0),
        (JobBudget(cost=1.0), Spent(cost=0.5, running=1, cost_most=0.2), 1),
        (JobBudget(cost=1.0), Spent(unpriced=True), 0),
        # Nobody knows yet what one costs; then it costs nothing.
        (JobBudget(cost=1.0), Spent(), 1),
        (JobBudget(cost=1.0), Spent(running=1), 0),
        (JobBudget(cost=1.0), Spent(tokens=50, running=1), 3),
    ],
)
def test_an_attempt_begins_only_with_its_whole_share(budget: JobBudget, spent: Spent, may: int) -> None:
    """Shares of those under way are reserved; a price that nobody knows stops a job that has a bound of cost."""
    assert may == affordable(3, budget, spent)


def test_what_is_left_of_the_money_is_for_all_that_run() -> None:
    """Attempts have jobs done for equal parts; without a bound of cost there is none for them."""
    bound, spent = JobBudget(cost=2.0), Spent(cost=0.5, running=1, cost_most=0.1)
    assert (0.5, None) == (money_of_each(2, bound, spent), money_of_each(2, JobBudget(), spent))


@pytest.mark.parametrize(
    ("decided", "conflicted", "expected"),
    [(0, 0, 4), (9, 0, 4), (0, 1, 1), (4, 3, 1), (6, 3, 1), (12, 3, 2), (4, 1, 2), (20, 1, 4)],
)
def test_fewer_new_tasks_are_tried_at_a_time_where_winners_conflict(
    decided: int, conflicted: int, expected: int
) -> None:
    """The share of pairs that did not conflict, one at least; a single conflict is forgotten."""
    assert expected == width(4, decided, conflicted)


@pytest.mark.parametrize(
    ("budget", "spent", "why"),
    [
        (
            JobBudget(tokens=130, tokens_per_attempt=100),
            Spent(tokens=45),
            "45 of 130 tokens are used, and an attempt may",
        ),
        (
            JobBudget(cost=1.0),
            Spent(cost=0.9, cost_most=0.2),
            "$0.9000 of $1.0 is used, and an attempt may cost $0.2000",
        ),
        (JobBudget(cost=1.0), Spent(unpriced=True), "what an attempt cost is not known"),
    ],
)
def test_a_budget_without_room_says_so_in_numbers(budget: JobBudget, spent: Spent, why: str) -> None:
    """By the bound that is reached."""
    assert (0, True) == (affordable(1, budget, spent), why in no_room(budget, spent))

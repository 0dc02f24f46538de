"""What is asked of a job is refused at the door where it could only fail, before anything is paid for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from placet.gateway.jobs.schemas import JobIn


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"task": " \n\t "}, "must say something"),
        ({"task": ""}, "task"),
        ({"k": 20, "attempts_max": 5}, "attempts_max is 5: no answer can be ahead by k, 20"),
        ({"k": 0}, "greater than or equal to 1"),
        ({"attempts_max": 0}, "greater than or equal to 1"),
        ({"p": 0.6, "epsilon": 0.01, "attempts_max": 5}, "attempts_max is 5: no answer can be ahead by k, 12"),
        (
            {"p": 0.51, "epsilon": 0.01},
            "epsilon cannot be met: ahead by 20 votes, the most there is, leaves a chance of",
        ),
        ({"p": "0.9"}, "p\n  Input should be a valid number"),
        ({"epsilon": True}, "epsilon\n  Input should be a valid number"),
        ({"budget": {"tokens": True}}, "budget.tokens\n  Input should be a valid integer"),
        ({"budget": {"tokens": "9000"}}, "budget.tokens\n  Input should be a valid integer"),
        ({"labels": {"task": "a"}}, "'task' is a label that jobs give to their own conversations"),
        ({"budget": {"tokens": 19_999}}, "tokens is 19999: less than tokens_per_attempt, 20000"),
    ],
    ids=[
        "blank",
        "empty",
        "fewer attempts than k",
        "no lead",
        "no attempts",
        "fewer attempts than the k of p",
        "epsilon out of reach",
        "p in words",
        "epsilon yes",
        "tokens yes",
        "tokens in words",
        "a label of jobs",
        "no attempt can be paid",
    ],
)
def test_a_job_that_could_only_fail_is_refused(wrong: dict[str, Any], why: str) -> None:
    """With what is wrong, in one sentence."""
    with pytest.raises(ValidationError, match=why):
        JobIn(**{"task": "Write a list."} | wrong)


@pytest.mark.parametrize("k", [None, 1, 5])
def test_as_many_attempts_as_the_lead_are_enough(k: int | None) -> None:
    """All of them agree, then."""
    assert (k, 5) == ((made := JobIn(task="Write a list.", k=k, attempts_max=5)).k, made.attempts_max)

"""A commit's subject names its area and says what it does."""

from __future__ import annotations

import pytest

from placet.deploy.commits import problems


@pytest.mark.parametrize(
    "subject",
    ["executor: keep FIFO between envelopes", "dead_letters: name it so", "docs/rulebook: pass by", "a: " + "b" * 69],
)
def test_a_good_subject_passes(subject: str) -> None:
    """An area, an order, 72 characters at most."""
    assert [] == problems([subject])


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("a: " + "b" * 70, "73 characters"),
        ("Let no envelope pass", "write `area: imperative`"),
        ("executor: Keep order", "write `area: imperative`"),
        ("executor: keep order.", "write `area: imperative`"),
        ("executor: fixes order", "'fixes' is no imperative"),
        ("executor: fixing order", "'fixing' is no imperative"),
    ],
)
def test_a_bad_subject_is_told_in_one_line(subject: str, why: str) -> None:
    """It says what is wrong; what no rule of spelling tells is left to people."""
    found = problems([subject])
    assert bool(why) == bool(found)
    assert all(why in line for line in found)

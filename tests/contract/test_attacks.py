"""The tables of `docs/security.md` are true: each attack is tried and each key is changed by tests that exist."""

from __future__ import annotations

import re

import pytest

from tests.contract.test_features import NAMED, ROOT, functions_of

PAGE = (ROOT / "docs" / "security.md").read_text()
ROW = re.compile(r"(?m)^\| ([TH]\d+) \|[^|]+\|(.*)\|$")
KEYS = re.findall(r"(?m)^\| ([^|]+) \|.*\|(.*)\|$", PAGE.partition("## Every key")[2].partition("\n## ")[0])[1:]
#: The project's list of threats.
ATTACKS = [f"T{number}" for number in range(1, 37)]
#: What somebody who attacked the whole system found open.
HOLES = ["H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "H9", "H10", "H11"]


def test_every_attack_is_there_once() -> None:
    """None is left out, none is told twice."""
    assert [*ATTACKS, *HOLES] == [attack for attack, _ in ROW.findall(PAGE)]


@pytest.mark.parametrize(("attack", "tests"), ROW.findall(PAGE))
def test_an_attack_is_tried_by_tests_that_exist(attack: str, tests: str) -> None:
    """Each names one at least, and whoever follows a name finds it."""
    named = NAMED.findall(tests)
    assert (attack, True) == (attack, bool(named))
    assert [] == [(path, name) for path, name in named if name not in functions_of(path)]


@pytest.mark.parametrize(("key", "tests"), KEYS)
def test_a_key_is_changed_by_tests_that_exist(key: str, tests: str) -> None:
    """Each row names one at least, and whoever follows a name finds it."""
    named = NAMED.findall(tests)
    assert (key, True) == (key, bool(named))
    assert [] == [(path, name) for path, name in named if name not in functions_of(path)]

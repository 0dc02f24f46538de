"""The planted bugs can be planted: each stands where its text is, once, and names tests that are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "planted-bugs.md").read_text()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted(mutant: Mutant) -> None:
    """Its text occurs once, it changes something, and its tests exist."""
    text = (ROOT / mutant.path).read_text()
    assert (1, True) == (text.count(mutant.before), mutant.before != mutant.after)
    assert [True] * len(mutant.tests) == [(ROOT / each).exists() for each in mutant.tests]


def test_a_name_that_no_planted_bug_has_is_an_error() -> None:
    """A mistyped name is no green run: nothing would have been tried."""
    command = [sys.executable, "-m", "tests.mutants.run", "no-such-bug"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (2, True) == (ended.returncode, "no planted bug is called no-such-bug" in ended.stderr)


def test_the_docs_name_every_mutant() -> None:
    """The table has each planted bug once, in the order of the catalogue."""
    assert [each.name for each in MUTANTS] == re.findall(r"(?m)^\| `([a-z-]+)` \|", PAGE)

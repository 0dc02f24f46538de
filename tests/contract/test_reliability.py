"""The tables in `docs/reliability.md` are true: every invariant and fault once, every query and test there."""

from __future__ import annotations

import re

import pytest

from placet.cli.invariants import invariants
from placet.runtime.points import POINTS
from tests.contract.test_features import NAMED, ROOT, functions_of
from tests.support.faults import ALONE, name_of
from tests.support.faults import FAULTS as LIBRARY

PAGE = (ROOT / "docs" / "reliability.md").read_text()
ROW = re.compile(r"(?m)^\| (\d+) \|[^|]+\|([^|]+)\|(.*)\|$")
ROWS = [(int(number), re.findall(r"`(\w+)`", queries), proof) for number, queries, proof in ROW.findall(PAGE)]


def test_every_invariant_is_there_once() -> None:
    """None is left out, none is told twice."""
    assert [*range(1, 41)] == [number for number, _, _ in ROWS]


def test_a_query_stands_in_the_rows_that_it_names() -> None:
    """Whoever looks for an invariant finds its queries, and the file says the same."""
    page = {(number, name) for number, queries, _ in ROWS for name in queries}
    assert {(number, each.name) for each in invariants() for number in each.numbers} == page


@pytest.mark.parametrize(("number", "queries", "proof"), ROWS)
def test_an_invariant_has_a_proof_or_says_that_it_has_none(number: int, queries: list[str], proof: str) -> None:
    """What neither a query nor a test holds is not yet there, in words; and a test that is named exists."""
    named = NAMED.findall(proof)
    assert (number, True) == (number, bool(queries or named) != ("not yet" in proof))
    assert [] == [(path, name) for path, name in named if name not in functions_of(path)]


FAULT = re.compile(r"(?m)^\| F(\d+) \|[^|]+\|(.*)\|$")
FAULTS = [(int(number), proof) for number, proof in FAULT.findall(PAGE)]


def test_every_fault_is_there_once() -> None:
    """None of the catalogue is left out, none is told twice."""
    assert [*range(1, 39)] == [number for number, _ in FAULTS]


@pytest.mark.parametrize(("number", "proof"), FAULTS)
def test_a_fault_has_a_test_or_says_why_not(number: int, proof: str) -> None:
    """What no test makes has a reason, and a test that is named exists."""
    named = NAMED.findall(proof)
    assert (number, True) == (number, bool(named) or "not tested:" in proof)
    assert [] == [(path, name) for path, name in named if name not in functions_of(path)]


#: By service: agent, policy, relay, notifier, votes, executor, conversation, sweeper.
KILLS = {"A": 3, "P": 3, "R": 3, "N": 3, "V": 3, "E": 6, "C": 2, "S": 2}
KILL = re.compile(r"(?m)^\| ([APRNVECS]\d) \|[^|]+\|([^|]+)\|(.*)\|$")


def test_every_kill_point_of_the_catalogue_is_there_once() -> None:
    """All 25 by name, each with a point that the code has or none, and a test that exists."""
    found = KILL.findall(PAGE)
    assert [f"{letter}{number + 1}" for letter, most in KILLS.items() for number in range(most)] == [
        name for name, _, _ in found
    ]
    points = {point for _, where, _ in found for point in re.findall(r"`([a-z]+\.[a-z]+)`", where)}
    assert set() == points - POINTS.keys()
    tests = [named for _, _, proof in found for named in NAMED.findall(proof)]
    assert [] == [(path, name) for path, name in tests if name not in functions_of(path)]
    assert [] == [name for name, _, proof in found if not NAMED.findall(proof) and "the same" not in proof]


def test_a_fault_that_is_named_is_one_of_the_library() -> None:
    """What stands in brackets behind a test is what the test is told."""
    known = {name_of(fault) for fault in (*LIBRARY, *ALONE)}
    told = {
        name
        for _, proof in FAULTS
        for group in re.findall(r"\(((?:`[a-z ]+`(?:, )?)+)\)", proof)
        for name in re.findall(r"`([a-z ]+)`", group)
    }
    assert told
    assert told <= known

"""How an id is found: alone and in sentences, as text and as JSON, whatever it has in it and whoever else there is."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.deploy.retention.names import pattern_of

#: Ids that are prefixes of each other, with all that a regular expression reads in its own way.
SIGNS = "ab é\"/[(.@-:\U0001f98a'"


def everybody(signs: str) -> st.SearchStrategy[list[str]]:
    """Return lists of different people whose ids have these signs."""
    ids = st.text(alphabet=signs, min_size=1, max_size=5).map("person:".__add__)
    return st.lists(ids, min_size=1, max_size=8, unique=True)


@given(everybody(SIGNS + "\\"))
def test_of_all_who_are_known_one_has_the_id_that_stands_alone(people: list[str]) -> None:
    """It is found as a whole, and no longer one is found by it."""
    for who in people:
        found = re.compile(pattern_of(who, people))
        assert [who] == [each for each in people if found.search(each)]


@given(everybody(SIGNS), st.booleans())
def test_so_it_is_in_json(people: list[str], escaped: bool) -> None:  # noqa: FBT001
    """However it is written there."""
    for who in people:
        found = re.compile(pattern_of(who, people, in_json=True))
        assert [who] == [each for each in people if found.search(json.dumps([each], ensure_ascii=escaped))]


@given(st.text(alphabet=SIGNS + "\\", min_size=1, max_size=5), st.integers(0, 3))
def test_nothing_hides_an_id_in_strings_of_json(name: str, depth: int) -> None:
    """A service's event may stand in another's, as a text."""
    text = who = f"person:{name}"
    for _ in range(depth):
        text = json.dumps([text])
    assert re.search(pattern_of(who, in_json=True), text)


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("Stopped by person:ada.", True),
        ("person:ada lovelace, person:ada", True),
        ("person:ada lovelace denied it", False),
        ("person:ada lovelaces", True),
        ("person:adá", False),
        ('{"error": "Last:\\nperson:ada denied it"}', True),
        (json.dumps([json.dumps(["„person:ada“"])]), True),
    ],
)
def test_an_id_is_found_in_sentences(text: str, *, is_there: bool) -> None:
    """The longest id that is known wins."""
    found = re.search(pattern_of("person:ada", ["person:ada lovelace"], in_json=True), text)
    assert is_there == (found is not None)

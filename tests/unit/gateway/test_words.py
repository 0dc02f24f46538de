"""Values as people read them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from placet.domain.directory import Person
from placet.gateway.web.words import ago, due, lined, names_in, plain, risk, told, who
from tests.builders import NOON


@pytest.mark.parametrize(
    ("seconds", "before", "after"),
    [
        (0, "just now", "overdue"),
        (59, "59 s ago", "in 59 s"),
        (119, "1 min ago", "in 1 min"),
        (7_200, "2 h ago", "in 2 h"),
        (86_400, "1 day ago", "in 1 day"),
        (7_199, "1 h ago", "in 1 h 59 min"),
        (200_000, "2 days ago", "in 2 days 7 h"),
    ],
)
def test_times_are_told_in_their_largest_units(seconds: int, before: str, after: str) -> None:
    """Rounded down: nobody is promised time that is not there, and a deadline is not an hour off."""
    span = timedelta(seconds=seconds)
    assert (before, after) == (ago(NOON - span, NOON), due(NOON + span, NOON))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("person:ada", "ada"),
        ("group:finance", "finance"),
        ("requester", "the requester"),
        ("operators", "operators"),
        ("visitor:acme_0123456789abcdef", "visitor 89abcdef"),
        ("person:a\u202eb", "a[U+202E]b"),
    ],
)
def test_names_are_told_without_their_kind(name: str, expected: str) -> None:
    """And with nothing hidden in them."""
    assert expected == who(name)


def test_an_unknown_category_is_called_unknown() -> None:
    """Nothing is called harmless by mistake."""
    assert ("runs code", "unknown", "unknown") == (risk("unsafe_exec"), risk("new"), risk(None))


def test_a_text_has_lines_only_where_it_is_alone() -> None:
    """Beside other words a line break is a code point; in a box of its own it is one, and in JSON it stays escaped."""
    assert ("a[U+000A]b", "a\nb[U+000D]", '["a\\nb"]') == (plain("a\nb"), lined("a\nb\r"), lined(["a\nb"]))


def test_a_number_that_not_every_reader_holds_is_told_as_it_is() -> None:
    """A tool may answer with one: the page that shows it is drawn."""
    assert (f"[{2**64}]", f"{2**64}") == (lined([2**64]), plain(2**64))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Stopped by person:ada.", "Stopped by ada."),
        ("Cancelled by person:a.b@x.example.", "Cancelled by a.b@x.example."),
        ("visitor:acme_0123456789abcdef wrote again.", "visitor 89abcdef wrote again."),
        ("Its personal:name stays.", "Its personal:name stays."),
        ("by person:a\u202e", "by a[U+202E]"),
    ],
)
def test_sentences_of_ours_name_people_as_people_do(sentence: str, expected: str) -> None:
    """Reasons and logs are written with ids, and read with names."""
    assert expected == told(sentence)


def test_an_item_comes_with_the_names_of_the_people_in_it() -> None:
    """Who wrote it, and whom its sentence names; nothing is read of arguments and texts, nor told of who has none."""
    people = {"ada": Person("ada", "Ada"), "ben": Person("ben", "Ben"), "cy": Person("cy")}
    item = {
        "author": {"kind": "person", "id": "person:ada"},
        "reason": "Stopped by person:ben.",
        "by": "person:cy",
        "text": "person:ada",
        "arguments": {"by": "person:ada"},
    }
    assert {"person:ada": "Ada", "person:ben": "Ben"} == names_in(item, people)
    assert {} == names_in({"text": "person:ada", "by": None}, people)
    # Frontends name their visitors as they like.
    assert {} == names_in({"author": {"id": "visitor:ada"}, "by": "visitor:ben"}, people)

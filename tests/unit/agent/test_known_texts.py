"""Known texts and pseudonyms that somebody wrote: found as one slow look for each of them finds them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from placet.agent.known_texts import KnownTexts
from placet.agent.personal import CARD, DATA, EMAIL, IBAN, NAME, PHONE
from placet.agent.pseudonym_forms import Written, laid_out, made
from placet.agent.word_boundaries import standing_alone

LETTERS = "ab +-王"
NUMBERS = st.integers(1, 123)


def one_by_one(known: Sequence[str], text: str, start: int) -> list[tuple[int, int]]:
    """Find texts by trying all of them everywhere, the longest first."""
    either = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    return [each.span() for each in re.compile(standing_alone(either)).finditer(text, start)]


@settings(deadline=None, max_examples=400)
@given(
    st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=8),
    st.text(LETTERS, max_size=16),
    st.integers(0, 16),
)
def test_known_texts_are_found_as_one_by_one(known: list[str], text: str, start: int) -> None:
    """The longest of each place that stands by itself, from any place on, in whatever order they were added."""
    texts = KnownTexts()
    for each in known:
        texts.add(each)
    assert one_by_one(known, text, start) == list(texts.find(text, start))


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from([EMAIL, NAME, DATA, "customer", "1"]),
    NUMBERS,
    st.integers(1, 12),
    st.lists(
        st.one_of(
            st.builds(made, st.sampled_from([EMAIL, NAME, DATA, "customer", "1"]), NUMBERS, st.integers(1, 123)),
            st.sampled_from(["person-", "@example.invalid", "Person ", "data-", "0", "1", "v1", "v2", "-", " "]),
        ),
        max_size=6,
    ).map("".join),
)
def test_the_least_variant_is_found_as_one_by_one(kind: str, number: int, most: int, text: str) -> None:
    """Of any kind and number: the first that is a part of the text."""
    found = Written(text).least_variant(kind, number)
    expected = next((each for each in range(1, most + 1) if made(kind, number, each) in text), None)
    assert expected == (None if found is None or found > most else found)


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from([PHONE, CARD, IBAN]),
    st.sampled_from(["+49 171 1234567", "4111-1111-1111-1111", "DE89 3704", "0171/1_45", "1-1", "\u0661\u0662 345678"]),
    NUMBERS,
    NUMBERS,
    st.lists(st.sampled_from(["9990001", "XX00", "0001", "999", "0", " ", "-", "_", "é"]), max_size=9).map("".join),
)
def test_laid_out_numbers_are_found_as_one_by_one(kind: str, value: str, number: int, other: int, text: str) -> None:
    """In whatever layout: what stands in the text to the letter, and nothing else."""
    candidate = laid_out(kind, value, number)
    for each in (text, f"{text}{laid_out(kind, value, other)}{text}", f"{text}{candidate}{text}"):
        assert (candidate in each) == Written(each).has_laid_out(kind, candidate)

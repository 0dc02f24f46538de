"""Words as they are searched: without case and accents, the same where they are kept and where they are asked."""

from __future__ import annotations

import pytest

from placet.domain.words import LETTERS_MAX, WORDS_MAX, searched, words_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Create a payment link over 299 TRY?", "create a payment link over 299 try"),
        ("Zahlung über 1.299,50 € an Groß & Söhne", "zahlung uber 1 299 50 an gross sohne"),
        ("İADE: KIRMIZI çanta, ığüşöç", "iade kirmizi canta igusoc"),
        ("create_pay_link(order-10482)", "create pay link order 10482"),
        ("0192f3c4-9a1b-7c3d", "0192f3c4 9a1b 7c3d"),
        ("10² ½ ﬁne cafe\u0301", "102 1 2 fine cafe"),
        ("Смета № 7", "смета no 7"),
        ("?! --- _", ""),
        ("", ""),
    ],
)
def test_words_are_letters_and_digits_without_case_and_accents(text: str, expected: str) -> None:
    """English, German and Turkish as people type them; amounts and ids fall into their parts."""
    assert tuple(expected.split()) == words_of(text)


def test_upper_and_lower_case_are_the_same_words_in_every_language() -> None:
    """Also where a language has two kinds of i."""
    text = "Iğdır'da İzmir için ödeme: Straße, œuvre"
    assert {words_of(text)} == {words_of(each) for each in (text.upper(), text.lower(), text.title(), text.casefold())}


def test_words_of_words_are_the_words() -> None:
    """What is kept can be cut again and stays what it is."""
    words = words_of("İstanbul'a 12.5 kg ﬁne GROẞ")
    assert words == words_of(" ".join(words))


def test_a_text_without_end_has_few_short_words() -> None:
    """Nobody makes an index large by a long argument."""
    found = words_of("x" * 500 + " y" * 500)
    assert (WORDS_MAX, LETTERS_MAX) == (len(found), len(found[0]))


def test_what_is_searched_has_a_space_around_each_word() -> None:
    """So that a phrase is a part of it, and half a word is none."""
    assert (" pay 299 try ", "") == (searched("Pay 299 TRY!"), searched("…"))

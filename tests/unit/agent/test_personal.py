"""What is found to be personal data, however it is written."""

from __future__ import annotations

import pytest

from services.agent.personal import CARD, EMAIL, IBAN, NAME, PHONE, Personal, why_not_a_pattern

PERSONAL = Personal(["name", "name.*"], {"customer": "K-[0-9]{5}"}, "DE")
RECOGNISE = PERSONAL.recognise_in({"name": "Ada Lovelace", "desk": "Front"})


def wide(text: str) -> str:
    """Return a text in full-width characters; spaces stay."""
    return "".join(char if char == " " else chr(ord(char) + 0xFEE0) for char in text)


def pieces(text: str) -> list[tuple[str, str]]:
    """Return what is found in a text: (kind, text as it was written)."""
    return [(each.kind, text[each.start : each.end]) for each in RECOGNISE(text)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (EMAIL, "ada@example.org"),
        (EMAIL, "Ada.Lovelace+shop@Mail.Example.ORG"),
        (EMAIL, wide("ada@") + "example.org"),
        (EMAIL, "ad\u200ba@example.org"),
        (PHONE, "+49 171 1234567"),
        (PHONE, "+49-171-123-4567"),
        (PHONE, "0171 1234567"),
        (PHONE, wide("0171 1234567")),
        (PHONE, "+49\u00a0171\u20111234567"),
        (CARD, "4111 1111 1111 1111"),
        (CARD, "4111-1111-1111-1111"),
        (CARD, wide("4111111111111111")),
        (CARD, "378282246310005"),
        (IBAN, "DE89 3704 0044 0532 0130 00"),
        (IBAN, "de89370400440532013000"),
        (IBAN, "GB33BUKB20201555555555"),
        (NAME, "Ada Lovelace"),
        (NAME, "ADA  lovelace"),
        (NAME, "Lovelace"),
        ("customer", "K-12345"),
    ],
)
def test_personal_data_is_found_however_it_is_written(kind: str, text: str) -> None:
    """Width, dashes, spaces, case and characters that nobody sees hide nothing, between words and in JSON."""
    assert (kind, text) in pieces(text)
    assert (kind, text) in pieces(f"Bitte: {text}, danke.")
    assert (kind, text) in pieces(f'{{"is": "{text}"}}')


@pytest.mark.parametrize(
    "text",
    ["order 12345678", "1732279000000", "4111 1111 1111 1112", "DE88370400440532013000", "2026-11-22", "Adam", "a@b"],
)
def test_what_only_looks_like_personal_data_is_left_alone(text: str) -> None:
    """Numbers without a right check digit, dates, times and words that begin like a name are nobody's data."""
    assert [] == pieces(text)


def test_spellings_of_one_datum_are_known_to_be_one() -> None:
    """A canonical form joins them."""
    spelled = [("Ada@example.org", "ada@EXAMPLE.org"), ("4111 1111 1111 1111", "4111111111111111"), ("ADA", "Ada")]
    for one, other in spelled:
        assert [each.canonical for each in RECOGNISE(one)] == [each.canonical for each in RECOGNISE(other)]


def test_a_pattern_that_cannot_be_used_is_told() -> None:
    """Neither a mistake, nor what needs more than linear time, nor what matches nothing is a pattern."""
    assert [None, True, True, True] == [
        why_not_a_pattern("K-[0-9]+"),
        *(isinstance(why_not_a_pattern(wrong), str) for wrong in ("(a", r"(a)\1", "x*")),
    ]

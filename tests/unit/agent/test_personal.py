"""What is found to be personal data, however it is written."""

from __future__ import annotations

import pytest

from placet.agent.personal import CARD, EMAIL, IBAN, NAME, PHONE, Personal, why_not_a_pattern

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
        (EMAIL, '"a b"@x.org'),
        (EMAIL, "x@[192.168.0.1]"),
        (EMAIL, "x@[IPv6:2001:db8::1]"),
        (CARD, "4111.1111.1111.1111"),
        (CARD, "4111_1111_1111_1111"),
        (CARD, "4111 1111\n1111 1111"),
        (CARD, "4111 1111 1111 \r\n1111"),
        (CARD, "3782.822463.10005"),
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


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("王小明", "王小明"),
        ("王 小明", "王小明"),
        ("山田・太郎", "山田太郎"),
        ("สมชาย", "สมชาย"),
        ("김민수", "김민수"),
        ("Straße", "STRASSE"),
        ("Strasse", "Straße"),
        ("Ελένη", "ΕΛΕΝΗ"),
        ("Νίκος", "ΝΙΚΟΣ"),
        ("René", "Rene\u0301"),
        ("Rene", "RENÉ"),
        ("Işıl Çağlar", "ISIL CAGLAR"),
        ("İlker", "ilker"),
        ("Müller", "Mueller"),
        ("Anne-Marie O'Neil", "Anne-Marie O\u2019Neil"),
        ("Anne-Marie O'Neil", "anne\u2011marie oneil"),
        ("Anne-Marie O\u2019Neil", "Anne Marie O'Neil"),
        ("Anne-Marie O'Neil", "Anne-Marie"),
        ("Anne-Marie O'Neil", "Marie"),
    ],
)
def test_a_name_is_found_in_its_ordinary_spellings(name: str, written: str) -> None:
    """Case, accents, apostrophes, dashes; and inside of a row of letters where a script has no spaces."""
    recognise = Personal(["name"]).recognise_in({"name": name})
    unspaced = ord(written[0]) > 0xE00
    for text in (written, f"({written}),", f"我是{written}你好" if unspaced else f"I am {written}."):
        assert [(NAME, written)] == [(each.kind, text[each.start : each.end]) for each in recognise(text)]


def test_a_column_of_numbers_is_no_card() -> None:
    """Only groups as cards have them are one number over dots and lines."""
    assert [] == pieces("41111111\n11111111")
    assert [] == pieces("4111.11.11.11.1111.11")


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

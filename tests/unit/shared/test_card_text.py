"""The sentence on a card: filled from arguments, with nothing hidden in it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.card_text import SUMMARY_MAX, VALUE_MAX, is_redaction, placeholders, render, render_call, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("299 TRY", "299 TRY"),
        ("Ödeme bağlantısı 支付 ✅", "Ödeme bağlantısı 支付 ✅"),
        ("a\u202eb", "a[U+202E]b"),
        ("a\u200bb\u2060c\ufeff", "a[U+200B]b[U+2060]c[U+FEFF]"),
        ("a\r\nb\x00\x1b[31m", "a[U+000D][U+000A]b[U+0000][U+001B][31m"),
        ("a\U000e0041b", "a[U+E0041]b"),
        ("a\ufe0eb\u3164c\u2800", "a[U+FE0E]b[U+3164]c[U+2800]"),
        ("src/a\ufe0f.py", "src/a[U+FE0F].py"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f[U+FE0F]"),
        ("7\ufe0f\u20e3 or 7\ufe0f", "7\ufe0f\u20e3 or 7[U+FE0F]"),
        ("\ud800", "[U+D800]"),
    ],
)
def test_hidden_characters_are_shown_as_code_points(text: str, shown: str) -> None:
    """Ordinary writing of any language stays; what prints nothing or turns the text around is made visible."""
    assert shown == visible(text)


@given(st.text(st.characters()))
def test_card_never_contains_a_hidden_character(text: str) -> None:
    """Whatever the model writes, no control, format or surrogate character reaches the card, and it can be sent."""
    card = render("Say {text}?", {"text": text})

    assert set() == {unicodedata.category(char) for char in card} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert len(card) <= SUMMARY_MAX


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (299, "299"),
        (299.0, "299"),
        (299.5, "299.5"),
        (True, "true"),
        (None, "null"),
        (["b", {"z": 1, "a": 2}], '["b",{"a":2,"z":1}]'),
        (2**60, str(2**60)),
        ({"a": "\ud800"}, '{"a":"\\ud800"}'),
        ("{b}", "{b}"),
    ],
)
def test_value_is_shown_as_json_has_it(value: object, shown: str) -> None:
    """Numbers are written one way, and a value that looks like a placeholder stays what it is."""
    assert f"x {shown} y" == render("x {a} y", {"a": value, "b": "filled"})


def test_absent_argument_leaves_a_gap() -> None:
    """An optional argument that was not given is shown as three dots, also inside an absent object."""
    assert "… for … …" == render("{amount} for {customer.name} {note.text}", {"note": "flat"})


def test_placeholder_leads_into_objects() -> None:
    """A dot steps into an object."""
    assert "for Ada" == render("for {customer.name}", {"customer": {"name": "Ada"}})
    assert ["customer.name", "b"] == placeholders("for {customer.name} {} { c } {b}")


def test_long_value_does_not_push_the_rest_away() -> None:
    """Each value is cut by itself, so that what follows it is still read."""
    card = render("{note} over {amount}?", {"note": "x" * 1000, "amount": 299})

    assert f"{'x' * (VALUE_MAX - 1)}… over 299?" == card


def test_card_is_cut() -> None:
    """Many long values still make a short card."""
    card = render("{a}{a}{a}{a}", {"a": "x" * 1000})

    assert (SUMMARY_MAX, "…") == (len(card), card[-1])


def test_call_without_template_shows_its_arguments() -> None:
    """The tool's name and its arguments in a fixed order."""
    assert 'pay(amount: 299, note: hi, to[U+200B]: ["a"])' == render_call(
        "pay", {"to\u200b": ["a"], "note": "hi", "amount": 299}
    )


@pytest.mark.parametrize(
    ("shown", "redaction"),
    [
        ({"amount": 1, "to": ["a", {"b": "secret"}]}, True),
        ({"amount": 1, "to": ["a", {"b": "•••"}]}, True),
        ({"amount": "•••", "to": "•••"}, True),
        ({"amount": 2, "to": ["a", {"b": "•••"}]}, False),
        ({"amount": True, "to": "•••"}, False),
        ({"to": "•••"}, False),
        ({"amount": 1, "to": ["a"]}, False),
        ({"amount": 1, "to": "•••", "more": 1}, False),
        ([], False),
    ],
)
def test_only_masking_makes_a_redaction(shown: object, redaction: bool) -> None:  # noqa: FBT001 - the expected answer
    """What people are shown may hide values and never change, add or leave out one."""
    assert redaction == is_redaction(shown, {"amount": 1, "to": ["a", {"b": "secret"}]})

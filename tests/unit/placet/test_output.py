"""How commands speak: nothing that a model wrote can steer the terminal."""

from __future__ import annotations

import pytest

from placet.cli.output import show_fields, show_table, show_whole, spoken


def test_fields_show_hidden_characters_as_code_points(capsys: pytest.CaptureFixture[str]) -> None:
    """`placet approvals show` prints the call as it is, and nothing of it twice or turned around."""
    show_fields({"summary": "pay", "call": {"arguments": {"to": "a\u202eb\x1b[2Jc"}}})
    printed = capsys.readouterr().out
    assert (True, False, False) == ("a[U+202E]b" in printed, "\u202e" in printed, "\x1b[2J" in printed)


def test_parts_and_lists_of_a_thing_are_printed_under_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields come first, then what the thing has of its parts, a line per field, and of its lists, a line per row."""
    thing = {"id": "c1", "verdict": {"rule": "mails"}, "execution": None, "history": [{"at": "noon", "event": "ran"}]}
    show_whole(thing, ["verdict", "execution"], {"history": ["event"], "cards": ["channel"]})
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert ["id  c1", "", "verdict", "rule  mails", "", "history", "event", "ran"] == printed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("one\n\ttwo", "one\n\ttwo"),
        ("می‌خواهم", "می‌خواهم"),
        ("a\x1b[2Jb\r\x9bc", "a[U+001B][2Jb[U+000D][U+009B]c"),
        ("\ud800", "[U+D800]"),
    ],
)
def test_what_the_model_says_cannot_steer_the_terminal(text: str, printed: str) -> None:
    """Lines and every language stay; control characters are shown and not obeyed."""
    assert printed == spoken(text)


@pytest.mark.parametrize("text", ["ada[/x]", "[bold]ada[link=http://x] [u]", "ada[conceal] and 90000 to eve[/conceal]"])
def test_brackets_of_a_model_are_shown_and_never_obeyed(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Cards and tables show arguments as they are stored: nothing is hidden, and no list dies of them."""
    show_table([{"id": "1", "summary": text}], ("id", "summary"))
    show_fields({"summary": text})
    assert 2 == capsys.readouterr().out.count(text)

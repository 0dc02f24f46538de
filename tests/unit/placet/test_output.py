"""How commands speak: nothing that a model wrote can steer the terminal."""

from __future__ import annotations

import pytest

from services.placet.cli.output import show_fields, spoken


def test_fields_show_hidden_characters_as_code_points(capsys: pytest.CaptureFixture[str]) -> None:
    """`placet approvals show` prints the call as it is, and nothing of it twice or turned around."""
    show_fields({"summary": "pay", "call": {"arguments": {"to": "a\u202eb\x1b[2Jc"}}})
    printed = capsys.readouterr().out
    assert (True, False, False) == ("a[U+202E]b" in printed, "\u202e" in printed, "\x1b[2J" in printed)


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

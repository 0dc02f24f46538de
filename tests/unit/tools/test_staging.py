"""How changes are described, and what every pack that can stage has without writing it."""

from __future__ import annotations

import pytest

from placet.tools.staging import DIFF_BYTES_MAX, DIFF_CHARACTERS_MAX, DIFF_LINES_MAX, Change, Content, describe


def told(before: bytes | None, after: bytes | None, *modes: int | None) -> tuple[str, str]:
    """Return summary and diff of a change of the key `k`."""
    contents = [None if data is None else Content(data) for data in (before, after)]
    if modes:
        contents = [each and Content(each.data, mode) for each, mode in zip(contents, modes, strict=True)]
    found = describe(Change("k", *contents))
    return found.summary, found.diff


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, b"a\nb\n", "Create k (+2 -0)"),
        (b"a\n", None, "Delete k (+0 -1)"),
        (b"a\nb\n", b"a\nc\n", "Change k (+1 -1)"),
        (b"a\n", b"a\r\n", "Change k (+1 -1)"),
        (b"a\n", b"a", "Change k (+1 -1)"),
        (None, b"", "Create k (+0 -0)"),
        (b"\xff", b"a\n", "Change k (1 → 2 bytes)"),
        (None, b"a\x00b", "Create k (3 bytes)"),
    ],
)
def test_a_change_is_told_in_a_line(before: bytes | None, after: bytes | None, expected: str) -> None:
    """Verb, key and size; ends of lines count, and what is no text is told by its bytes."""
    assert expected == told(before, after)[0]


def test_a_change_of_the_mode_is_told() -> None:
    """Text is the same: people see what changes all the same."""
    assert "Change k (+0 -0, mode 644 → 755)" == told(b"a", b"a", 0o644, 0o755)[0]


def test_a_new_file_that_may_be_run_says_so() -> None:
    """Whoever approves a script sees that it is one; a file like any other has no mode in its line."""
    lines = [told(None, b"id", None, mode)[0] for mode in (0o755, 0o644)]
    assert ["Create k (+1 -0, mode 755)", "Create k (+1 -0)"] == lines


def test_a_last_line_without_a_newline_is_said_as_patch_says_it() -> None:
    """So that a diff can be applied, and a newline that goes is seen."""
    diff = describe(Change("k", Content(b"a\nb\n"), Content(b"a\nb"))).diff
    assert ["@@ -1,2 +1,2 @@", " a", "-b", "+b", "\\ No newline at end of file"] == diff.split("\n")[2:]


def test_a_diff_has_its_bounds() -> None:
    """Neither many lines nor long ones make a card that nobody can load."""
    many = describe(Change("k", None, Content(b"a\n" * (DIFF_LINES_MAX * 2))))
    long = describe(Change("k", None, Content(b"a" * (DIFF_CHARACTERS_MAX * 2))))
    large = describe(Change("k", None, Content(b"a" * (DIFF_BYTES_MAX + 1))))
    assert (True, DIFF_LINES_MAX) == (many.cut, len(many.diff.splitlines()))
    assert (True, DIFF_CHARACTERS_MAX) == (long.cut, len(long.diff))
    assert (True, "") == (large.binary, large.diff)

"""How changes are described, and what every pack that can stage has without writing it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.cut_diff import not_shown
from placet.tools.diffs import grouped_opcodes, unified_lines
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


def applied(before: list[str], diff: list[str]) -> list[str]:
    """Return what `patch` makes of these lines; every line that a diff says is there must be."""
    after, at = list[str](), 0
    for line in diff[2:]:
        if found := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
            start = int(found[1]) - (found[2] != "0")
            after += before[at:start]
            at = start
            continue
        if line[0] in " -":
            assert before[at] == line[1:]
            at += 1
        if line[0] in " +":
            after.append(line[1:])
    return after + before[at:]


texts = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


@given(texts, texts, st.sampled_from([0, 20, 10_000]))
def test_a_diff_can_be_applied_however_little_was_compared(before: list[str], after: list[str], steps: int) -> None:
    """It may show more than need be as replaced, never anything that is not so."""
    diff = list(unified_lines(before, after, ("a", "b"), grouped_opcodes(before, after, steps_max=steps)))
    assert after == applied(before, diff)
    assert (before == after) == (not diff)


def test_lines_that_come_again_and_again_are_compared_only_so_far() -> None:
    """Two hundred numbers thousands of times, turned around: one block, where all pairs would take minutes."""
    before = [str(number % 200) for number in range(40_000)]
    lines = list(unified_lines(before, before[::-1], ("a", "b"), grouped_opcodes(before, before[::-1])))
    assert (["@@ -1,40000 +1,40000 @@"], 80_003) == ([line for line in lines if line.startswith("@@")], len(lines))


def test_a_change_in_the_middle_of_many_equal_lines_is_told_alone() -> None:
    """What stands before and behind costs no comparing, so a large file is no reason to show it whole."""
    before = [str(number % 200) for number in range(100_000)]
    after = [*before[:50_000], "new", *before[50_001:]]
    lines = list(unified_lines(before, after, ("a", "b"), grouped_opcodes(before, after, steps_max=10)))
    assert ["@@ -49998,7 +49998,7 @@", " 197", " 198", " 199", "-0", "+new", " 1", " 2", " 3"] == lines[2:]


def test_a_diff_has_its_bounds() -> None:
    """Neither many lines nor long ones make a card that nobody can load."""
    many = describe(Change("k", None, Content(b"a\n" * (DIFF_LINES_MAX * 2))))
    long = describe(Change("k", None, Content(b"a" * (DIFF_CHARACTERS_MAX * 2))))
    large = describe(Change("k", None, Content(b"a" * (DIFF_BYTES_MAX + 1))))
    assert (True, DIFF_LINES_MAX) == (many.cut, len(many.diff.splitlines()))
    assert (True, DIFF_CHARACTERS_MAX) == (long.cut, len(long.diff))
    assert (True, "") == (large.binary, large.diff)


def test_lines_are_counted_also_where_the_diff_is_cut() -> None:
    """Behind thousands of removed lines no added one hides: the counts are of the whole change."""
    before, after = (b"line\n" * 5000, b"".join(b"neu %d\n" % each for each in range(3000)))
    found = describe(Change("k", Content(before), Content(after)))
    assert ("Change k (+3000 -5000)", True, 3000, 5000) == (found.summary, found.cut, found.added, found.removed)
    assert "+3000 -3003" == not_shown({"cut": True, "diff": found.diff, "added": 3000, "removed": 5000})

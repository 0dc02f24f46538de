"""Blocks that tools make for people."""

from __future__ import annotations

from placet.tools.ui_blocks import StagedDiffBlock


def test_a_staged_difference_has_the_changed_lines_and_a_few_around_them() -> None:
    """What is removed stands before what is added, unchanged lines far from a change are a gap."""
    before = "\n".join(f"line {number}" for number in range(1, 20))
    block = StagedDiffBlock.of("etc/app.conf", before, before.replace("line 10\n", "line ten\n"))
    assert ["gap", *["same"] * 3, "removed", "added", *["same"] * 3] == [each.change for each in block.lines]
    assert ("line 10", "line ten") == (block.lines[4].text, block.lines[5].text)
    assert {"change": "removed", "text": "line 10"} == block.model_dump(mode="json")["lines"][4]


def test_equal_texts_have_no_difference() -> None:
    """Nothing is staged, so no line is shown."""
    assert () == StagedDiffBlock.of("a", "x\ny", "x\ny").lines

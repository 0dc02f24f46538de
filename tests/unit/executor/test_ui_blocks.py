"""Blocks that tools make for people."""

from __future__ import annotations

import time

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


def test_a_difference_of_short_lines_that_repeat_takes_no_time() -> None:
    """So many kept a core busy for over half a minute; now more may be shown as changed, and nothing is left out."""
    before, after = ["ab"[each % 2] for each in range(3_000)], ["ba"[each % 3 % 2] for each in range(3_000)]
    begun = time.process_time()
    lines = StagedDiffBlock.of("a", "\n".join(before), "\n".join(after)).lines
    assert time.process_time() - begun < 3.0
    assert (before, after) == (
        [each.text for each in lines if each.change in {"same", "removed"}],
        [each.text for each in lines if each.change in {"same", "added"}],
    )

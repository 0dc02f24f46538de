"""The arithmetic of the benches of lists."""

from __future__ import annotations

from bench.inbox import ratios
from bench.measurement import lines_of

FOUND = {"decision": {1000: 4.0, 100_000: 5.0}, "first_page": {1000: 2.0, 100_000: 2.0}}


def test_a_ratio_compares_many_with_few() -> None:
    """More than one means slower among many."""
    assert {"decision_vs_1000": 1.25, "first_page_vs_1000": 1.0} == ratios(FOUND)


def test_the_table_has_a_line_for_each_act() -> None:
    """With the figures and their ratio."""
    assert ["decision", "4.00", "5.00", "1.25"] == lines_of(FOUND).splitlines()[1].split()

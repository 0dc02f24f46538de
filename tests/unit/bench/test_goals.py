"""Which goals are missed."""

from __future__ import annotations

import json
from pathlib import Path

from bench.goals import figures_in, table


def test_a_missed_goal_has_a_star() -> None:
    """What should be much and is little, and what should be little and is much; what was not measured is left out."""
    lines = table({"gated_64_vs_floor": 0.5, "cpu_64_vs_floor": 0.9}).splitlines()[1:]
    assert [True, False] == [line.endswith("*") for line in lines]


def test_a_short_run_and_a_full_one_are_told_apart(tmp_path: Path) -> None:
    """Each by the names of its files."""
    (tmp_path / "gated.json").write_text(json.dumps({"gated_64_vs_floor": 1.0, "about": {}}))
    (tmp_path / "short-gated.json").write_text(json.dumps({"gated_64_vs_floor": 2.0, "about": {}}))
    assert [{"gated_64_vs_floor": 1.0}, {"gated_64_vs_floor": 2.0}] == [
        figures_in(tmp_path, prefix) for prefix in ("", "short-")
    ]

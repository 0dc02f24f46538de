"""What Placet wants to reach, beside what was seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Goal:
    """One figure with its bounds."""

    text: str
    key: str
    """Of the result files; with a `*` the worst of all keys that begin so."""
    must: float
    aim: float | None = None
    """The record to aim at."""
    more: bool = False
    """Whether more is better."""

    def met(self, seen: float) -> bool:
        """Tell whether a figure is good enough."""
        return seen >= self.must if self.more else seen <= self.must


#: Ratios are to the floor of the same run, unless a unit is named.
GOALS = (
    Goal("gated calls/s at 64", "gated_64_vs_floor", 1, 1.5, more=True),
    Goal("gated calls/s at 64, to the fair floor", "gated_64_vs_fair_floor", 3, more=True),
    Goal("gated calls/s at 256", "gated_256_vs_floor", 1, 2, more=True),
    Goal("CPU of a call at 64", "cpu_64_vs_floor", 1, 0.7),
    Goal("decision to next utterance at 1", "decision_p50_1_vs_floor", 3, 2),
    Goal("decision to recorded at 1", "recorded_p50_1_vs_floor", 2, 1.3),
    Goal("CPU of a call at 1", "cpu_1_vs_floor", 4, 2),
    Goal("embedded: gated calls/s at 64", "embedded_gated_64_vs_floor", 2, more=True),
    Goal("embedded: decision to recorded at 1", "embedded_recorded_p50_1_vs_floor", 1.5),
    Goal("ungated: proposed to result at 1", "ungated_p50_1_vs_floor", 2),
    Goal("ungated: calls/s at 64", "ungated_calls_64_vs_floor", 1.5, more=True),
    Goal("lines of Python in services and shared", "house_lines", 40_000),
    Goal("files on the way of a gated call", "house_files_per_call", 60),
    Goal("WAL of a call at 64, KB", "wal_kb_64", 20, 12),
    Goal("a million pending: decision", "decision_vs_1000", 1.2),
    Goal("a million pending: first page", "first_page_vs_1000", 1.2),
    Goal("a million pending: expiry", "expiry_of_5_vs_1000", 1.2),
    Goal("a million rows: first page of every list, the worst", "list_*", 1.2),
    Goal("a million rows: first page of narrowed calls, the worst", "narrowed_*", 2),
    Goal("a thousand staged files: last entry to first", "stage_last_vs_first", 1.5, 1.2),
    Goal("a thousand staged files: commit, s", "commit_s", 30, 10),
    Goal("a thousand staged files: commit of an entry to few", "commit_per_entry_vs_few", 1.5, 1.2),
    Goal("100 MB staged: memory to commit, MB", "commit_memory_mb", 50, 20),
    Goal("2 executors, share of the time of one", "linear_2", 1.05),
    Goal("10 executors, share of the time of one", "linear_10", 1.05),
    *(
        Goal(f"memory of {name}, MB", f"pss_mb_{name}", 80)
        for name in ("policy", "approval", "executor", "dead_letters")
    ),
    *(Goal(f"memory of {name}, MB", f"pss_mb_{name}", 120) for name in ("gateway", "notifier")),
    Goal("jobs: wrong moves in any run", "wrong_moves", 0),
    Goal("one tenant floods: another's p50 to its own alone", "tenants_p50", 2, 1.2),
    Goal("memory of agent, MB", "pss_mb_agent", 300),
    Goal("memory of all in one, MB", "pss_mb_placet up", 300),
    *(
        Goal(f"start of {name}, s", f"ready_s_{name}", 2)
        for name in ("gateway", "policy", "approval", "executor", "dead_letters", "notifier")
    ),
    Goal("start of agent, s", "ready_s_agent", 6),
    Goal("start of all in one, s", "ready_s_placet up", 4),
    Goal("first text at a client, ms", "first_text_p50_ms", 15, 8),
    Goal("streaming p99 of many chats, ms", "streaming_p99_ms", 100),
)


def figures_in(folder: Path, prefix: str) -> dict[str, float]:
    """Return the named figures of all result files whose name begins with `prefix`; without one, of full runs."""
    found: dict[str, float] = {}
    for path in sorted(folder.glob(f"{prefix}*.json")):
        if prefix or not path.name.startswith("short-"):
            content: Mapping[str, Any] = json.loads(path.read_text())
            found |= {key: value for key, value in content.items() if isinstance(value, int | float)}
    return found


def table(seen: Mapping[str, float]) -> str:
    """Lay goals out beside what was seen; a goal that is missed has a star."""
    rows = [("goal", "seen", "must", "record", "")]
    for goal in GOALS:
        figures = [each for key, each in seen.items() if fnmatchcase(key, goal.key)]
        figure = (min if goal.more else max)(figures, default=None)
        if figure is not None:
            sign = "≥" if goal.more else "≤"
            record = f"{sign} {goal.aim:g}" if goal.aim else ""
            rows.append((goal.text, f"{figure:.2f}", f"{sign} {goal.must:g}", record, "" if goal.met(figure) else "*"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(f"{row[0]:<{widths[0]}}  " + "  ".join(map(str.rjust, row[1:], widths[1:])) for row in rows)

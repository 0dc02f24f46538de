"""`make bench`: measure every system in turns, print the table, write `bench/results/`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from bench import floor, inbox, placet_system
from bench.measurement import System
from bench.report import FLOOR, as_json, in_turns, say, table, write

SYSTEMS = (System(FLOOR, floor.measure), System("placet", placet_system.measure))
"""The floor first; what is compared with it after."""

FULL = {1: 200, 16: 2000, 64: 4000}
"""Calls in flight -> calls of one run: some ten seconds each at the floor's speed."""
SHORT = {1: 20, 16: 160, 64: 320}
ROWS = 100_000
"""Approvals of a short run of `--inbox`."""
RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; fails with a traceback when a call did not run exactly once."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure Placet beside the bare floor.")
    parser.add_argument("--short", action="store_true", help="a quick look: does it run, and roughly how fast")
    parser.add_argument("--rounds", type=int, help="turns of each system (2; 1 with --short)")
    parser.add_argument("--inbox", action="store_true", help="instead: how much very many waiting approvals slow")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"with it: approvals that wait ({ROWS:,})")
    options = parser.parse_args(arguments)
    if options.inbox:
        return measure_inbox(options.rows)
    rounds = options.rounds or (1 if options.short else 2)
    results = uvloop.run(in_turns(SYSTEMS, SHORT if options.short else FULL, rounds))
    about = {**_machine(), "rounds": rounds, "short": options.short}
    path = RESULTS / ("short.json" if options.short else "gated.json")
    write(path, as_json(results, about))
    say(f"\n{table(results)}\n\nWritten to {path.relative_to(Path.cwd())}")
    return 0


def measure_inbox(rows: int) -> int:
    """Measure what people wait for among `rows` approvals, print and write it with the ratios; 2 for too few rows."""
    if rows <= inbox.FEW:
        say(f"--rows must be more than {inbox.FEW}, which it is compared with")
        return 2
    found = uvloop.run(inbox.measure(rows))
    path = RESULTS / "inbox.json"
    write(path, inbox.as_json(found, {**_machine(), "rows": rows}))
    say(f"\n{inbox.table(found)}\n\nWritten to {path.relative_to(Path.cwd())}")
    return 0


def _machine() -> dict[str, Any]:
    return {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

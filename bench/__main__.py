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

from bench import floor, inbox, placet_system, soak
from bench.measurement import System
from bench.report import FLOOR, as_json, in_turns, say, table, write

SYSTEMS = (
    System(FLOOR, floor.measure),
    System("placet", placet_system.measure),
    System("placet_notified", placet_system.measure_notified),
    System("placet_single", placet_system.measure_single),
)
"""The floor first; what is compared with it after."""

FULL = {1: 200, 16: 2000, 64: 4000}
"""Calls in flight -> calls of one run: some ten seconds each at the floor's speed."""
SHORT = {1: 16, 16: 128, 64: 512}
ROWS = 1_000_000
"""Approvals that wait where the inbox is measured."""
SHORT_ROWS = 10_000
ACTS, SHORT_ACTS = 100, 10
"""Times that each act of the inbox is measured."""
RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; fails with a traceback when a call did not run exactly once."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure Placet beside the bare floor.")
    parser.add_argument("--short", action="store_true", help="a quick look: does it run, and roughly how fast")
    parser.add_argument("--rounds", type=int, help="turns of each system (2; 1 with --short)")
    parser.add_argument("--inbox", action="store_true", help="only: how much very many waiting approvals slow")
    parser.add_argument("--rows", type=int, help=f"approvals that wait ({ROWS:,}; {SHORT_ROWS:,} with --short)")
    parser.add_argument("--soak", action="store_true", help="instead: many streaming chats over two gateways")
    parser.add_argument("--conversations", type=int, help="with it: chats at once (200; 20 with --short)")
    options = parser.parse_args(arguments)
    if options.soak:
        return measure_soak(options.conversations, short=options.short)
    rows = options.rows or (SHORT_ROWS if options.short else ROWS)
    if not options.inbox:
        measure_calls(options)
    return measure_inbox(rows, short=options.short)


def measure_calls(options: argparse.Namespace) -> None:
    """Measure gated calls beside the floor, print and write it."""
    rounds = options.rounds or (1 if options.short else 2)
    results = uvloop.run(in_turns(SYSTEMS, SHORT if options.short else FULL, rounds))
    about = {**_machine(), "rounds": rounds, "short": options.short}
    path = RESULTS / ("short.json" if options.short else "gated.json")
    write(path, as_json(results, about))
    say(f"\n{table(results)}\n\nWritten to {path.relative_to(Path.cwd())}")


def measure_soak(conversations: int | None, *, short: bool) -> int:
    """Have many chats stream over two gateways, print and write how late their words are; fails where any is lost."""
    plan = soak.Plan(conversations or (20 if short else 200), turns=1 if short else 3, words=60 if short else 200)
    if plan.conversations < 1:
        say("--conversations must be at least 1")
        return 2
    say(f"soak: {plan.conversations} conversations, {plan.turns} answers each of {plan.words} words")
    # What others do on the machine tells here more than anywhere: every word that is late waited for a processor.
    about = {**_machine(), "turns": plan.turns, "short": short, "load_before": round(os.getloadavg()[0], 1)}
    found = uvloop.run(soak.measure(plan))
    path = RESULTS / ("short-soak.json" if short else "soak.json")
    write(path, soak.as_json(found, about))
    say(f"\n{soak.text_of(found)}\n\nWritten to {path.relative_to(Path.cwd())}")
    return 0


def measure_inbox(rows: int, *, short: bool) -> int:
    """Measure what people wait for among `rows` approvals, print and write it with the ratios; 2 for too few rows."""
    if rows <= inbox.FEW:
        say(f"--rows must be more than {inbox.FEW}, which it is compared with")
        return 2
    found = uvloop.run(inbox.measure(rows, SHORT_ACTS if short else ACTS))
    path = RESULTS / ("short-inbox.json" if short else "inbox.json")
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

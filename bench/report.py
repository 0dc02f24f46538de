"""Runs systems in turns and writes what was seen: a table for people, JSON for comparing over time.

Turns (A B A B), not one after the other (A A B B): a machine that gets slower meanwhile slows both alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.measurement import Measurement, System, middle

RESULTS = Path(__file__).parent / "results"
Results = Mapping[str, Mapping[int, Measurement]]
"""System -> calls in flight -> median of its runs."""

COLUMNS = (
    "system",
    "in flight",
    "calls/s",
    "x floor",
    "p50 ms",
    "x floor",
    "p99 ms",
    "recorded",
    "x floor",
    "CPU ms/call",
    "x floor",
)


async def in_turns(
    systems: Sequence[System], counts: Mapping[int, int], rounds: int
) -> dict[str, dict[int, Measurement]]:
    """Measure each system at each number of calls in flight, `rounds` times in turns.

    `counts` maps calls in flight to the number of calls of one run.
    """
    runs: dict[str, dict[int, list[Measurement]]] = {system.name: {} for system in systems}
    for in_flight, count in counts.items():
        for turn in range(rounds):
            for system in systems:
                say(f"{system.name}: {count} calls, {in_flight} in flight (turn {turn + 1} of {rounds})")
                runs[system.name].setdefault(in_flight, []).append(await system.measure(in_flight, count))
    return {name: {at: middle(seen) for at, seen in by.items()} for name, by in runs.items()}


def ratios(results: Results, names: Mapping[str, str], baselines: Sequence[str]) -> dict[str, float]:
    """Compare each other system with each baseline.

    Keys are `{name}{figure}_{in flight}_vs_{baseline}`, with the name that `names` gives a system, if any; `gated` is
    throughput, where more is better, the others are costs, where less is better: `decision_p50` until the next
    utterance, `recorded_p50` until the result is recorded, `cpu`.
    """
    found = {}
    for baseline in baselines:
        for name in names:
            for at, seen in results[name].items():
                for figure, ratio in _against(seen, results[baseline][at]).items():
                    found[f"{names[name]}{figure}_{at}_vs_{baseline}"] = round(ratio, 3)
    return found


def _against(seen: Measurement, floor: Measurement) -> dict[str, float]:
    return {
        "gated": seen.calls_per_second / floor.calls_per_second,
        "decision_p50": seen.decision_to_result_p50_ms / floor.decision_to_result_p50_ms,
        "recorded_p50": seen.recorded_p50_ms / floor.recorded_p50_ms,
        "cpu": seen.cpu_ms_per_call / floor.cpu_ms_per_call,
    }


def table(results: Results) -> str:
    """Lay the results out for a terminal, ratios to the first system beside the figures they belong to."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    floor = next(iter(results.values()))
    for name, by in results.items():
        rows += [_row(name, seen, floor[at]) for at, seen in by.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _row(name: str, seen: Measurement, floor: Measurement) -> tuple[str, ...]:
    against = _against(seen, floor)
    return (
        name,
        str(seen.in_flight),
        f"{seen.calls_per_second:.0f}",
        f"{against['gated']:.2f}",
        f"{seen.decision_to_result_p50_ms:.1f}",
        f"{against['decision_p50']:.2f}",
        f"{seen.p99_ms:.1f}",
        f"{seen.recorded_p50_ms:.1f}",
        f"{against['recorded_p50']:.2f}",
        f"{seen.cpu_ms_per_call:.1f}",
        f"{against['cpu']:.2f}",
    )


def figures(results: Results) -> dict[str, Any]:
    """Return every figure, by system and calls in flight."""
    return {name: {str(at): asdict(seen) for at, seen in by.items()} for name, by in results.items()}


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a result file; a reader never sees half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(content, indent=2) + "\n")
    draft.replace(path)


def say(line: str) -> None:
    """Print a line at once, also when the output is a pipe."""
    print(line, flush=True)  # noqa: T201  # a command's own output

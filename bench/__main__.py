"""`make bench`: measure every part, print its table, write `bench/results/` and `docs/measured.md`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from bench import costs, fair_floor, floor, footprint, goals, house, inbox, jobs, linear, lists, soak, stage, tenants
from bench.measurement import System, lines_of, ratios_of
from bench.placet_system import EMBEDDED, PLACET, SINGLE, UNGATED
from bench.report import RESULTS, figures, in_turns, ratios, say, table, write

DOCUMENT = Path(__file__).parent.parent / "docs" / "measured.md"

INTRODUCTION = """\
Drawn by `make bench`; `bench/results/` has every figure. Ratios are to the bare floor of the same run: four hops on
RabbitMQ and PostgreSQL by hand, which check, sign and show nothing. The fair floor keeps the promises about messages
that Placet keeps, by hand. A star is a goal that is missed."""

FULL = {1: 200, 16: 2000, 64: 4000, 256: 8000}
"""Calls in flight -> calls of one run: some ten seconds each at the floor's speed."""
SHORT = {1: 16, 64: 512}
FEW = {1: 200, 64: 4000}
"""Where what happens between is of no interest."""


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    short: bool
    rounds: int
    calls: Mapping[int, int]
    few: Mapping[int, int]


Found = tuple[dict[str, float], dict[str, Any], str]
"""The figures that goals speak of by name, all figures, and a table."""


async def gated(extent: Extent) -> Found:
    """Measure gated calls beside both floors, each service a process and all in one."""
    systems = [
        System("floor", floor.measure),
        System("fair_floor", fair_floor.measure),
        System("placet", PLACET.measure),
        System("embedded", EMBEDDED.measure),
    ]
    if not extent.short:
        systems.append(System("placet_single", SINGLE.measure))
    seen = await in_turns(systems, extent.calls, extent.rounds)
    names = {each.name: f"{each.name}_" for each in systems[3:]}
    return ratios(seen, {"placet": "", **names}, ("floor", "fair_floor")), figures(seen), table(seen)


async def ungated(extent: Extent) -> Found:
    """Measure calls that nobody decides, from proposal to result, beside a floor without that hop."""
    systems = [System("floor", floor.measure_ungated), System("ungated", UNGATED.measure)]
    seen = await in_turns(systems, extent.few, extent.rounds)
    keys = {
        key.replace("gated_gated", "gated_calls").replace("decision_p50", "p50"): ratio
        for key, ratio in ratios(seen, {"ungated": "ungated_"}, ("floor",)).items()
        if "recorded" not in key
    }
    return keys, figures(seen), table(seen)


async def cost(extent: Extent) -> Found:
    """Count what a gated call costs each service: CPU, statements, messages, bytes, rows, WAL."""
    keys: dict[str, float] = {}
    everything: dict[str, Any] = {}
    tables: list[str] = []
    for in_flight, count in list(extent.few.items())[-1 if extent.short else 0 :]:
        seen = await costs.measure(in_flight, count)
        keys |= {f"{figure}_{in_flight}": round(number, 3) for figure, number in seen.total().items()}
        everything[str(in_flight)] = seen.costs
        tables.append(f"{in_flight} in flight\n{costs.table(seen)}")
    return keys, everything, "\n\n".join(tables)


async def chats(extent: Extent) -> Found:
    """Have many chats stream over two gateways, and one alone."""
    short = extent.short
    alone = await soak.measure(soak.Plan(1, turns=10 if short else 50, words=3, drops=False))
    plan = soak.Plan(20 if short else 200, turns=1 if short else 3, words=60 if short else 200)
    many = await soak.measure(plan)
    keys = {"first_text_p50_ms": round(alone.first_text_p50_ms, 2), "streaming_p99_ms": round(many.delta_p99_ms, 2)}
    text = f"alone: first text p50 {alone.first_text_p50_ms:.1f} ms\n{soak.text_of(many)}"
    return keys, {"alone": asdict(alone), "many": asdict(many)}, text


async def executors(extent: Extent) -> Found:
    """Run tools that sleep on one, two and ten executors."""
    seen = await linear.measure(*(((1, 2), 80, 250) if extent.short else ((1, 2, 10), 320, 1000)))
    return linear.ratios(seen), {"seconds": {str(number): each for number, each in seen.items()}}, linear.table(seen)


async def memory(_: Extent) -> Found:
    """Weigh each service's memory, and time its start."""
    seen = await footprint.measure()
    keys = {f"pss_mb_{name}": round(each, 1) for name, each in seen.memory_mb.items()}
    keys |= {f"ready_s_{name}": round(each, 2) for name, each in seen.ready_seconds.items()}
    return keys, {}, footprint.table(seen)


async def pending(extent: Extent) -> Found:
    """Time what people wait for where very many approvals wait for them."""
    seen = await inbox.measure(*((10_000, 10) if extent.short else (1_000_000, 100)))
    everything = {f"{name}_ms": {str(size): ms for size, ms in by.items()} for name, by in seen.items()}
    return inbox.ratios(seen), everything, lines_of(seen)


async def pages(extent: Extent) -> Found:
    """Time the first page of each list that administrators have, where it is very long."""
    seen = await lists.measure(*((10_000, 10) if extent.short else (1_000_000, 200)))
    everything = {f"{name}_ms": {str(size): ms for size, ms in by.items()} for name, by in seen.items()}
    found = {name if name in lists.NARROWED else f"list_{name}": ratio for name, ratio in ratios_of(seen).items()}
    return found, everything, lines_of(seen)


async def staged(extent: Extent) -> Found:
    """Stage edits of very many files, and commit them at once."""
    found = await stage.measure(*(((50, 100), 10_000) if extent.short else ((100, 1_000), 100_000)))
    return stage.ratios(found), stage.everything(found), stage.table(found)


async def hanoi(extent: Extent) -> Found:
    """Solve Towers of Hanoi with models that err: no wrong move may be left."""
    seen = await jobs.measure(5 if extent.short else 10)
    keys = {
        "wrong_moves": float(sum(each.wrong for each in seen.runs)),
        "cpu_ms_per_step": round(seen.runs[0].cpu_ms_per_step, 1),
        "attempt_over_bare_call": round(seen.runs[0].cpu_ms_per_attempt / seen.bare_ms, 2),
    }
    return keys, asdict(seen), jobs.table(seen)


async def quiet_tenant(extent: Extent) -> Found:
    """Let one tenant flood, and another send one call at a time."""
    seen = await tenants.measure(*((500, 5) if extent.short else (3_000, 30)))
    return tenants.ratios(seen), {"quiet": tenants.figures(seen)}, tenants.table(seen)


async def rooms(_: Extent) -> Found:
    """Weigh the house: lines, modules, functions, what a gated call walks through, and its words."""
    seen = await house.weigh()
    keys = {"house_lines": float(seen.lines), "house_files_per_call": float(seen.files_per_call)}
    return keys, asdict(seen), house.table(seen)


PARTS: dict[str, Callable[[Extent], Coroutine[Any, Any, Found]]] = {
    "gated": gated,
    "ungated": ungated,
    "costs": cost,
    "chats": chats,
    "linear": executors,
    "memory": memory,
    "inbox": pending,
    "lists": pages,
    "stage": staged,
    "jobs": hanoi,
    "tenants": quiet_tenant,
    "house": rooms,
}


def main(arguments: Sequence[str]) -> int:
    """Measure, print, write; fails with a traceback when a call did not run exactly once."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure Placet beside the bare floor.")
    parser.add_argument("--short", action="store_true", help="a quick look: does it run, and roughly how fast")
    parser.add_argument("--rounds", type=int, help="turns of each system (2; 1 with --short)")
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, with commas between: {', '.join(PARTS)}")
    parser.add_argument("--trace", action="store_true", help="instead: what happens in one call, with times")
    options = parser.parse_args(arguments)
    if options.trace:
        say(uvloop.run(costs.chain_of_one()))
        return 0
    chosen = options.only.split(",")
    if unknown := set(chosen) - PARTS.keys():
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    rounds = options.rounds or (1 if options.short else 2)
    extent = Extent(options.short, rounds, *((SHORT, SHORT) if options.short else (FULL, FEW)))
    for name in chosen:
        say(f"--- {name}: {PARTS[name].__doc__}")
        about = _machine() | {"rounds": rounds}
        keys, everything, text = uvloop.run(PARTS[name](extent))
        write(
            RESULTS / f"{'short-' * options.short}{name}.json",
            {**keys, "about": about, "seen": everything, "table": text},
        )
        say(f"\n{text}\n")
    say(goals.table(goals.figures_in(RESULTS, "short-" * options.short)))
    if not options.short:
        DOCUMENT.write_text(document(RESULTS))
    return 0


def document(results: Path) -> str:
    """Return the page that shows the last full run of each part."""
    texts = [
        "# Measured",
        INTRODUCTION,
        f"```text\n{goals.table(goals.figures_in(results, ''))}\n```",
    ]
    for name, part in PARTS.items():
        path = results / f"{name}.json"
        if path.exists():
            content = json.loads(path.read_text())
            about = ", ".join(f"{what.replace('_', ' ')} {value}" for what, value in content["about"].items())
            texts += [f"## {name}", f"{part.__doc__} ({about})", f"```text\n{content['table']}\n```"]
    return "\n\n".join(texts) + "\n"


def _machine() -> dict[str, Any]:
    return {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        # What others do on the machine tells most where words are late: each waited for a processor.
        "load_before": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What one gated call costs, by service: `python -m bench.costs [IN_FLIGHT] [CALLS] [--statements] [--chain]`.

Two runs: one that nothing slows, for CPU, rows and bytes of WAL; and one by way of the wire, for statements, messages
and bytes. Rows and WAL are read from the WAL itself (pg_walinspect, which every PostgreSQL since 15 brings along), so
that they are exact and by table; PostgreSQL's own counters lag by seconds. `--statements` lists every statement and
message; `--chain` prints what happens in one call, with times.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
import psycopg
import uvloop

from bench.placet_system import PLACET, Run, Variant, pids_of, run_calls
from bench.processor import seconds, servers
from bench.report import say
from bench.wire import Tally, Wire, a_wire
from tests.support.system import System

#: Columns of the table: figure, what is printed over it.
COLUMNS = {
    "cpu_ms": "CPU ms",
    "database_cpu_ms": "its PG ms",
    "statements": "statements",
    "round_trips": "round trips",
    "published": "published",
    "delivered": "delivered",
    "events_published": "events out",
    "database_kb": "PG KB",
    "broker_kb": "AMQP KB",
    "inserted": "inserted",
    "updated": "updated",
    "hot": "(HOT)",
    "deleted": "deleted",
    "wal_kb": "WAL KB",
    "full_page_kb": "(pages)",
}
_ROWS = {
    "Heap INSERT": "inserted",
    "Heap UPDATE": "updated",
    "Heap HOT_UPDATE": "updated",
    "Heap DELETE": "deleted",
}
#: Each record belongs to the table or index whose page it changes first; one of a TOAST table to its owner.
_WAL = """
    WITH files AS (
        SELECT c.relfilenode AS file, coalesce(o.relnamespace, c.relnamespace)::regnamespace::text AS schema,
            coalesce(o.relname, c.relname) AS name, c.relkind::text AS kind
        FROM pg_class AS c LEFT JOIN pg_index AS i ON i.indexrelid = c.oid
        LEFT JOIN pg_class AS o ON o.reltoastrelid IN (c.oid, i.indrelid)
        WHERE c.relfilenode <> 0
    ), records AS (
        SELECT resource_manager || ' ' || split_part(record_type, '+', 1) AS record, record_length, fpi_length,
            (regexp_match(block_ref, 'rel [0-9]+/([0-9]+)/([0-9]+)'))::oid[] AS place
        FROM pg_get_wal_records_info(%s, %s)
    )
    SELECT coalesce(schema, ''), coalesce(name, ''), coalesce(kind, ''), record,
        count(*), sum(record_length), sum(fpi_length)
    FROM records LEFT JOIN files ON file = place[2]
    WHERE place IS NULL OR place[1] = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY 1, 2, 3, 4
"""

Costs = dict[str, dict[str, float]]
"""Service -> figure -> how much per call."""


@dataclass
class Found:
    """What was seen of one run."""

    calls: int = 0
    costs: Costs = field(default_factory=dict)
    wal: Counter[str] = field(default_factory=Counter)
    """Bytes of WAL by table or index and kind of record."""
    tallies: dict[str, Tally] = field(default_factory=dict)
    calls_per_second: float = 0.0

    def add(self, service: str, figure: str, number: float) -> None:
        """Add to a figure."""
        of = self.costs.setdefault(service, dict.fromkeys(COLUMNS, 0.0))
        of[figure] += number / self.calls

    def total(self) -> dict[str, float]:
        """Return each figure of all services together."""
        return {figure: sum(each[figure] for each in self.costs.values()) for figure in COLUMNS}


async def measure(in_flight: int, count: int, variant: Variant = PLACET) -> Found:
    """Run about `count` gated calls twice, `in_flight` at a time; returns what one costs each service."""
    found = Found()
    spent: list[tuple[str, str, float]] = []
    wal: list[tuple[Any, ...]] = []

    @contextmanager
    def watch(system: System) -> Iterator[None]:
        with psycopg.connect(system.database_url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
            # Keeps the WAL from being removed before it is read; goes with the connection.
            connection.execute("SELECT pg_create_physical_replication_slot('placet_bench', true, true)")
            before, start = _used(system, connection), _position(connection)
            yield
            after, end = _used(system, connection), _position(connection)
            spent.extend((*who, used - before.get(pid, (who, 0.0))[1]) for pid, (who, used) in after.items())
            # Waits until the WAL has reached the disk, where it is read from.
            connection.execute("SELECT pg_logical_emit_message(true, 'bench', '')")
            wal.extend(connection.execute(_WAL, (start, end)).fetchall())

    run = await run_calls(variant, in_flight, count, watch)
    found.calls, found.calls_per_second = run.calls, run.calls / run.seconds
    for service, figure, used in spent:
        found.add(service, figure, used * 1000)
    for schema, name, kind, record, records, size, full_pages in wal:
        service = schema or "(commits)"
        found.add(service, "wal_kb", int(size) / 1000)
        found.add(service, "full_page_kb", int(full_pages) / 1000)
        found.wal[f"{schema}.{name} {record}"] += int(size)
        action = _ROWS.get(record)
        if kind == "r" and action:
            found.add(service, action, records)
            found.add(service, "hot", records if record == "Heap HOT_UPDATE" else 0)
    _, found.tallies = await crossing(in_flight, count, variant)
    for service, tally in found.tallies.items():
        for figure, number in tally.numbers.items():
            if figure.endswith("_bytes"):
                found.add(service, figure.replace("_bytes", "_kb"), number / 1000)
            elif figure in COLUMNS:
                found.add(service, figure, number)
    return found


async def crossing(
    in_flight: int, count: int, variant: Variant = PLACET, *, chain: bool = False
) -> tuple[Run, dict[str, Tally]]:
    """Run as many calls by way of the wire; returns what crossed of each service."""
    tallies: dict[str, Tally] = {}
    with ExitStack() as stack:
        wires: list[Wire] = []

        def prepare(system: System) -> None:
            labels = list(system.processes)
            wire = stack.enter_context(a_wire(labels, system.database_url, system.rabbitmq_url, chain=chain))
            for label, process in system.processes.items():
                process.environment["PLACET_DATABASE_URL"] = wire.database_url(label, system.database_url)
                process.environment["PLACET_RABBITMQ_URL"] = wire.broker_url(label, system.rabbitmq_url)
            wires.append(wire)

        @contextmanager
        def watch(_: System) -> Iterator[None]:
            wires[0].take()
            yield
            tallies.update({_service(label): tally for label, tally in wires[0].take().items()})

        run = await run_calls(variant, in_flight, count, watch, prepare)
    return run, tallies


async def chain_of_one() -> str:
    """Tell what happens in one call, from its decision to the next utterance, in milliseconds: the median of some."""
    run, tallies = await crossing(1, 64, chain=True)
    uttered = dict(zip(run.waits.began, run.waits.uttered, strict=True))
    call = sorted(uttered, key=uttered.__getitem__)[len(uttered) // 2]
    began = run.waits.began[call]
    events = [(at, service, what) for service, tally in tallies.items() for at, what in tally.chain]
    events += [
        (began, "people", "decide"),
        (run.waits.recorded[call], "agent", "asks the model, with the result in hand"),
        (began + uttered[call], "people", "hear the next utterance"),
    ]
    return "\n".join(
        f"{(at - began) * 1000:9.2f}  {service:<9} {what}"
        for at, service, what in sorted(events)
        if began <= at <= began + uttered[call]
    )


def _service(label: str) -> str:
    return label.rpartition("-")[0]


def _used(system: System, connection: psycopg.Connection) -> dict[int, tuple[tuple[str, str], float]]:
    """Return of each process whose work it does, the figure that its time goes to, and its CPU seconds so far."""
    whose = {os.getpid(): ("load", "cpu_ms")}
    whose |= {pid: (service, "cpu_ms") for service, pids in pids_of(system).items() for pid in pids}
    whose |= {process.pid: (name, "cpu_ms") for name, group in servers().items() for process in group}
    for pid, application in connection.execute("SELECT pid, application_name FROM pg_stat_activity").fetchall():
        if application.startswith("placet-"):
            whose[pid] = (application.removeprefix("placet-"), "database_cpu_ms")
    used = {}
    for pid, who in whose.items():
        # A connection may end between being listed and being looked at.
        with suppress(psutil.NoSuchProcess):
            used[pid] = (who, seconds(psutil.Process(pid)))
    return used


def _position(connection: psycopg.Connection) -> str:
    row = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
    return str(row[0]) if row else ""


def table(found: Found) -> str:
    """Lay the costs out for a terminal, the sum at the end."""
    total = found.total()
    # What PostgreSQL's backends did for a service stands there; the row of PostgreSQL is all the rest of it.
    rows = [("per call", *COLUMNS.values())]
    for name, costs in [*sorted(found.costs.items()), ("all", total)]:
        rows.append((name, *(f"{costs[figure]:.2f}" if costs[figure] else "" for figure in COLUMNS)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    processors = total["cpu_ms"] + total["database_cpu_ms"]
    return "\n".join([*lines, f"CPU of all: {processors:.2f} ms a call; {found.calls_per_second:.0f} calls/s"])


def details(found: Found) -> str:
    """List what each service asks of PostgreSQL and sends and gets, and the WAL by table, each per call."""
    lines = []
    for service, tally in sorted(found.tallies.items()):
        for title, counted in (("statements", tally.statements), ("messages", tally.messages)):
            lines.append(f"\n{service}: {title} per call")
            lines += [f"  {number / found.calls:7.2f}  {what[:160]}" for what, number in counted.most_common(40)]
    lines.append("\nbytes of WAL per call")
    lines += [f"  {size / found.calls:7.0f}  {what}" for what, size in found.wal.most_common(60)]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.costs", description="What one gated call costs, by service.")
    parser.add_argument("in_flight", type=int, nargs="?", default=64)
    parser.add_argument("calls", type=int, nargs="?", default=1024)
    parser.add_argument("--statements", action="store_true", help="list statements, messages and WAL too")
    parser.add_argument("--chain", action="store_true", help="instead: what happens in one call, with times")
    options = parser.parse_args(arguments)
    if options.chain:
        say(uvloop.run(chain_of_one()))
        return
    found = uvloop.run(measure(options.in_flight, options.calls))
    say(table(found) + (details(found) if options.statements else ""))


if __name__ == "__main__":
    main(sys.argv[1:])

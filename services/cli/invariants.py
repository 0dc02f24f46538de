"""The invariants of docs/reliability.md that rows can break, as queries. They change nothing, and need no standstill.

All of them see one snapshot of all services' tables. What one service does after another has a while to come true.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import psycopg

from placet.contracts.topology import SERVICES
from placet.contracts.transitions import Machine

#: How long services have for what follows of what another did, in seconds: more than a lease, a sweep and a resend.
SETTLED_AFTER_SECONDS = 120.0
#: Longest time that one query may take, in seconds.
QUERY_SECONDS = 300.0
#: Violations of one invariant that are told; more are the same fault.
FOUND_MAX = 20
#: What a query ends with at a row that says something else than it may: text that is no JSON, or too deep for one.
_UNREADABLE = (psycopg.DataError, psycopg.errors.StatementTooComplex, psycopg.errors.ProgramLimitExceeded)
_PART = re.compile(r"^-- name: (\w+)\n-- ([\d, ]+): (.+)\n((?:.*\n?)*?)(?=^-- name: |\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Invariant:
    """One thing that is always true of the rows."""

    name: str
    #: Its numbers in docs/reliability.md.
    numbers: tuple[int, ...]
    sentence: str
    sql: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A row that breaks an invariant. An empty tenant: it is no tenant's."""

    tenant: str
    subject: str
    found: str


@cache
def invariants() -> tuple[Invariant, ...]:
    """Return all of them, in the order of the file."""
    text = Path(__file__).with_suffix(".sql").read_text()
    return tuple(
        Invariant(name, tuple(map(int, numbers.split(","))), sentence, sql.strip())
        for name, numbers, sentence, sql in _PART.findall(text)
    )


#: For each invariant what breaks it; None where the answer took too long.
Found = Mapping[Invariant, Sequence[Violation] | None]


def check(url: str, *, settled_after_seconds: float = SETTLED_AFTER_SECONDS) -> Found:
    """Return what breaks the invariants; raise psycopg.Error where the database cannot be asked."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return ask(connection, settled_after_seconds=settled_after_seconds)


def ask(connection: psycopg.Connection, *, settled_after_seconds: float, query_seconds: float = QUERY_SECONDS) -> Found:
    """Return what breaks the invariants as the transaction sees it, at most FOUND_MAX violations each.

    No service writes a row that a query cannot read: such a row breaks what it keeps from being looked at, and no more.
    """
    connection.execute(
        "SELECT set_config('statement_timeout', %s, true), set_config('placet.moves', %s, true),"
        " set_config('placet.settled', (clock_timestamp() - make_interval(secs => %s))::text, true)",
        (f"{round(query_seconds * 1000)}ms", json.dumps(sorted(_moves(), key=str)), settled_after_seconds),
    )
    return {each: _violations(connection, each) for each in invariants()}


def _violations(connection: psycopg.Connection, invariant: Invariant) -> list[Violation] | None:
    try:
        with connection.transaction():
            return [Violation(*row) for row in connection.execute(invariant.sql.encode()).fetchmany(FOUND_MAX)]
    except psycopg.errors.QueryCanceled:
        return None
    except _UNREADABLE as error:
        return [Violation("", "its query", f"stops at a row that cannot be read: {error.diag.message_primary}")]


def _moves() -> Iterator[tuple[str, str | None, str]]:
    """Yield every move that a machine has: its name, from where (None: it begins there), to where."""
    for service in SERVICES:
        for machine in vars(import_module(f"placet.{service}.states")).values():
            if isinstance(machine, Machine):
                yield machine.name, None, machine.initial
                for (before, _), after in machine.transitions.items():
                    yield machine.name, before, after
                    # Some states are never stored: what begins with the first event is written as it leaves it.
                    if before == machine.initial:
                        yield machine.name, None, after

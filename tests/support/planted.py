"""Rows as nobody should have written them, for what looks for such rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from placet.cli import invariants

#: What a column holds for which a violation does not care, by its type.
_ANYTHING: Mapping[str, str] = {
    "jsonb": "{}",
    "boolean": "false",
    "ARRAY": "{}",
    "timestamp with time zone": "2026-01-01 00:00Z",
}
LONG_AGO, LATER = "2026-01-01 00:00Z", "2026-01-01 01:00Z"


@dataclass(frozen=True)
class Row:
    """One row as nobody should have written it; what it does not say is empty."""

    table: str
    said: Mapping[str, Any] = field(default_factory=dict)


def row(table: str, **said: Any) -> Row:
    """Return a row of a table."""
    return Row(table, said)


def turn(**said: Any) -> Row:
    """Return a turn that has ended."""
    return row("agent.turns", **{"turn_id": "t", "conversation_id": "c", "state": "finished"} | said)


def call(**said: Any) -> Row:
    """Return a call that waits for its answer."""
    return row("agent.tool_calls", **{"call_id": "x", "conversation_id": "c", "turn_id": "t", "state": "open"} | said)


def approval(**said: Any) -> Row:
    """Return an approval that was given."""
    values = {"approval_id": "a", "call_id": "x", "state": "approved", "arguments_revision": 1, "expires_at": LATER}
    return row("approval.approvals", **values | said)


def execution(**said: Any) -> Row:
    """Return a call that an executor has."""
    values = {"call_id": "x", "state": "running", "call": '{"digest": "d1"}', "permit_expires_at": LATER}
    return row("executor.executions", **values | said)


def moved(service: str, machine: str, before: str | None, after: str, event: str = "", **said: Any) -> Row:
    """Return a row of a history."""
    values = {"machine": machine, "subject_id": "x", "from_state": before, "to_state": after, "event": event}
    return row(f"{service}.history", **values | {"at": LONG_AGO} | said)


def plant(database: psycopg.Connection, planted: Row) -> None:
    """Write a row against all constraints of its table."""
    schema, table = planted.table.split(".")
    where = sql.Identifier(schema, table)
    for (name,) in database.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND conname NOT IN ("
        "SELECT conname FROM pg_constraint WHERE contype = 'n') ORDER BY contype = 'p'",
        (planted.table,),
    ).fetchall():
        database.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT {} CASCADE").format(where, sql.Identifier(name)))
    columns = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'",
        (schema, table),
    ).fetchall()
    numbers = ("integer", "bigint", "smallint", "numeric")
    empty = {name: "0" if kind in numbers else _ANYTHING.get(kind, "") for name, kind in columns}
    values = {**empty, **({"tenant": "acme"} if "tenant" in empty else {}), **planted.said}
    database.execute(
        sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            where,
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join([sql.Placeholder()] * len(values)),
        ),
        list(values.values()),
    )


def broken_in(database: psycopg.Connection) -> set[str]:
    """Return the names of the invariants that are broken."""
    found = invariants.ask(database, settled_after_seconds=60)
    return {each.name for each, violations in found.items() if violations != []}

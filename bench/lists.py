"""How long the first page of each list takes among very many rows: ratios against few.

The gateway's own statements on one migrated database each, in this process. The rows are made by SQL, newest first as
they come; what is filtered for fits enough of them for a full page among the few, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from bench.measurement import medians_ms
from bench.processor import POSTGRES_URL
from bench.report import say
from placet.deploy.migrations import migrate
from placet.gateway.admin import store as admin
from placet.gateway.audit.history import load_page
from placet.gateway.jobs import store as jobs
from placet.gateway.operators import store as operators
from placet.runtime.database import Database
from placet.runtime.sql import Connection
from tests.support.postgres import Databases

#: What everything is compared with.
FEW = 1_000
PAGE = 51
_TENANT = "acme"
#: What a column without a default is filled with where nothing else is said, by its type.
_PLAIN: Mapping[str, str] = {
    "text": "'-'",
    "character varying": "'-'",
    "integer": "0",
    "bigint": "0",
    "double precision": "0",
    "boolean": "false",
    "jsonb": "'{}'",
    "ARRAY": "'{}'",
    "timestamp with time zone": "now()",
}
_COLUMNS = """
    SELECT column_name, data_type FROM information_schema.columns
    WHERE table_schema = %s AND table_name = %s AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'
"""
_AGO = "now() - n * interval '1 second'"
#: Behind the name of a thing: ids of ours are in the order of time, the newest last.
_ID = "lpad((1000000000 - n)::text, 10, '0')"


@dataclass(frozen=True)
class Filled:
    """One table that is filled; `columns` has SQL over `n`, from 1 on."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)


_OVER = "CASE WHEN n % 3 = 0 THEN NULL ELSE now() END"
FILLED: Sequence[Filled] = (
    Filled(
        "dead_letters.dead_letters",
        {
            "dead_letter_id": "'letter-' || n",
            "state": "(ARRAY['open', 'replayed', 'discarded'])[1 + n % 3]",
            "received_at": _AGO,
            "resolved_at": _OVER,
        },
    ),
    Filled(
        "notifier.deliveries",
        {
            "delivery_id": "'delivery-' || n",
            "approval_id": "'approval-' || n",
            "call_id": "'call-' || n",
            "state": "(ARRAY['sent', 'sent', 'given_up', 'asleep'])[1 + n % 4]",
            "updated_at": _AGO,
        },
    ),
    Filled(
        "notifier.webhook_events",
        {"event_id": "'event-' || n", "state": "(ARRAY['sent', 'given_up'])[1 + n % 2]", "created_at": _AGO},
    ),
    Filled(
        "policy.grants",
        {
            "grant_id": "'grant-' || n",
            "approval_id": "'approval-' || n",
            "scope": "'tenant'",
            "uses": "5",
            "uses_left": "n % 5",
            "given_at": _AGO,
            "expires_at": "now() + interval '1 day'",
        },
    ),
    Filled("policy.counters", {"counter_id": "'counter-' || n", "per": "'tenant'", "touched_at": _AGO}),
    Filled(
        "agent.tool_calls",
        {
            "call_id": f"'call-' || {_ID}",
            "conversation_id": f"'conversation-' || {_ID}",
            "turn_id": f"'turn-' || {_ID}",
            "tool": "'tool-' || n % 10",
            "digest": "'-'",
            "state": "'answered'",
            "result_kind": "'succeeded'",
            "answered_at": "now()",
            "proposed_at": _AGO,
        },
    ),
    Filled(
        "agent.turns",
        {
            "turn_id": f"'turn-' || {_ID}",
            "conversation_id": f"'conversation-' || {_ID}",
            "author": """jsonb_build_object('id', 'person:' || n % 10)""",
            "state": "'finished'",
            "ended_at": "now()",
        },
    ),
    Filled("agent.conversations", {"conversation_id": f"'conversation-' || {_ID}", "agent": "'agent-' || n % 10"}),
    Filled(
        "agent.history",
        {"machine": "'tool_call'", "event": "'proposed'", "to_state": "'open'", "call_id": f"'call-' || {_ID}"},
    ),
    Filled("approval.history", {"machine": "'approval'", "event": "'opened'", "to_state": "'pending'"}),
    Filled(
        "executor.executions",
        {
            "call_id": f"'call-' || {_ID}",
            "permit_id": "'permit-' || n",
            # Few of all, however many calls there were: people resolve them.
            "state": "CASE WHEN n <= 60 THEN 'unknown' ELSE 'succeeded' END",
            "fence": "1",
            "begun_at": "now()",
            "finished_at": "now()",
        },
    ),
    Filled(
        "jobs.jobs",
        {
            "job_id": "'job-' || n",
            "changes": "''",
            "author": "CASE WHEN n % 10 = 0 THEN 'person:ada' ELSE 'person:bob' END",
            "state": "CASE WHEN n % 10 = 1 THEN 'failed' ELSE 'done' END",
            "created_at": _AGO,
            "ended_at": "now()",
        },
    ),
    Filled(
        "gateway.conversations",
        {
            "conversation_id": "'conversation-' || n",
            "holder": "'waiting'",
            "operator": "''",
            "held_since": _AGO,
        },
    ),
)

Act = Callable[[Connection], Awaitable[object]]


def _listed(listed: admin.Listed, state: str | None = None) -> Act:
    async def page(connection: Connection) -> object:
        return await admin.list_page(connection, listed, _TENANT, after=None, limit=PAGE, state=state)

    return page


def _jobs(whose: str | None = None, state: str | None = None) -> Act:
    async def page(connection: Connection) -> object:
        return await jobs.list_jobs(connection, _TENANT, whose=whose, state=state, after=None, limit=PAGE)

    return page


def _calls(**filters: Any) -> Act:
    return partial(admin.newest_calls, tenant=_TENANT, after=None, limit=PAGE, **filters)


async def _history(connection: Connection) -> object:
    return await load_page(connection, {"tenant": _TENANT}, None, PAGE)


async def _held(connection: Connection) -> object:
    return await operators.list_held(connection, _TENANT, None, limit=PAGE)


LISTS: Mapping[str, Act] = {
    "dead_letters_open": _listed(admin.DEAD_LETTERS, "open"),
    "dead_letters_discarded": _listed(admin.DEAD_LETTERS, "discarded"),
    "dead_letters": _listed(admin.DEAD_LETTERS),
    "deliveries_given_up": _listed(admin.DELIVERIES, "given_up"),
    "deliveries_sent": _listed(admin.DELIVERIES, "sent"),
    "deliveries": _listed(admin.DELIVERIES),
    "webhook_events_given_up": _listed(admin.WEBHOOK_EVENTS, "given_up"),
    "webhook_events": _listed(admin.WEBHOOK_EVENTS),
    "grants_active": _listed(admin.GRANTS, "active"),
    "grants_used_up": _listed(admin.GRANTS, "used_up"),
    "grants": _listed(admin.GRANTS),
    "limits": _listed(admin.COUNTERS),
    "calls": _calls(),
    "narrowed_calls_by_state": _calls(state="succeeded"),
    "narrowed_calls_by_tool": _calls(tool="tool-7"),
    "narrowed_calls_by_agent": _calls(agent="agent-7"),
    "narrowed_calls_by_requester": _calls(requester="person:7"),
    "narrowed_calls_by_day": _calls(since=datetime(2000, 1, 1, tzinfo=UTC)),
    "calls_unknown": partial(admin.unknown_calls, tenant=_TENANT, after=None, limit=PAGE),
    "history": _history,
    "jobs": _jobs(),
    "jobs_of_one": _jobs("person:ada"),
    "jobs_failed": _jobs(state="failed"),
    "conversations_held": _held,
}

#: Lists that look through many rows for a page, though never more however many there are.
NARROWED = frozenset(name for name in LISTS if name.startswith("narrowed_"))


async def measure(rows: int, times: int) -> dict[str, dict[int, float]]:
    """Return the median milliseconds of each list's first page among few rows and among so many, taken in turns."""
    databases = Databases(POSTGRES_URL)
    async with AsyncExitStack() as stack:
        stack.callback(databases.close)
        connections: dict[int, Connection] = {}
        for size in (FEW, rows):
            say(f"{size} rows of each")
            url = stack.enter_context(databases.fresh(_migrate))
            fill(url, size)
            database = Database(url, service="gateway")
            stack.push_async_callback(database.close)
            connections[size] = await stack.enter_async_context(database.single())
        found: dict[str, dict[int, float]] = {}
        for name, act in LISTS.items():
            acts = {size: partial(act, connection) for size, connection in connections.items()}
            found[name] = await medians_ms(acts, times)
        return found


def fill(url: str, rows: int) -> None:
    """Fill every table with so many rows of one tenant."""
    with psycopg.connect(url, autocommit=True) as connection:
        # Whether rows of other tables stand behind them is of no interest here.
        connection.execute("SET session_replication_role = replica")
        for each in FILLED:
            schema, _, table = each.name.partition(".")
            wanted = {name: _PLAIN[kind] for name, kind in connection.execute(_COLUMNS, (schema, table)).fetchall()}
            columns = {**wanted, "tenant": f"'{_TENANT}'", **each.columns}
            statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM generate_series({}, 1, -1) n").format(
                sql.Identifier(schema, table),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(sql.SQL(each) for each in columns.values()),
                rows,
            )
            connection.execute(statement)
        connection.execute("VACUUM ANALYZE")


def _migrate(url: str) -> None:
    migrate(url)

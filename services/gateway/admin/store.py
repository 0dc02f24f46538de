"""SQL of what administrators look after: pages of the views that other services show, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any

from placet.gateway.audit.history import LOOKED_AT, NEWEST, stretch
from placet.gateway.store.paging import ROWS_MAX, Cursor
from placet.runtime.queries import Query, query
from placet.runtime.sql import Connection

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """One view that is paged through: its columns, what a row is found by, and what orders the pages."""

    view: str
    id: str
    at: str
    columns: str
    #: Whether its rows belong to tenants; the house's own do not.
    of_tenant: bool = True
    #: Where a state is computed: what it means of the columns, which have statistics.
    states: Mapping[str, str] = field(default_factory=dict, hash=False)


DEAD_LETTERS = Listed(
    "dead_letters",
    "dead_letter_id",
    "received_at",
    "dead_letter_id, queue, service, reason, message_id, message_type, body, state, received_at, resolved_at,"
    " resolved_by",
)
DELIVERIES = Listed(
    "deliveries",
    "delivery_id",
    "updated_at",
    "delivery_id, approval_id, channel, recipient, person, state, pending, revision, sent_revision, attempt, error,"
    " due_at, updated_at",
)
WEBHOOK_EVENTS = Listed(
    "webhook_events", "event_id", "created_at", "event_id, webhook, type, state, attempt, error, due_at, created_at"
)
_STANDS = "revoked_at IS NULL AND void_at IS NULL"
GRANTS = Listed(
    "grants",
    "grant_id",
    "given_at",
    "grant_id, approval_id, owner, rule, tool, scope, subject, arguments, bounds, uses, uses_left, given_at,"
    " expires_at, revoked_at, revoked_by, void_at, void_reason, state",
    states={
        "revoked": "revoked_at IS NOT NULL",
        "void": "revoked_at IS NULL AND void_at IS NOT NULL",
        "expired": f"{_STANDS} AND expires_at <= statement_timestamp()",
        "used_up": f"{_STANDS} AND expires_at > statement_timestamp() AND uses_left = 0",
        "active": f"{_STANDS} AND expires_at > statement_timestamp() AND uses_left > 0",
    },
)
COUNTERS = Listed("limit_counters", "counter_id", "touched_at", "counter_id, rule, measure, per, subject, touched_at")
ACTIVATIONS = Listed(
    "activations",
    "activation_id",
    "activated_at",
    "activation_id, kind, digest, activated_by, activated_at, diff",
    of_tenant=False,
)


@lru_cache
def _page(listed: Listed, names: tuple[str, ...], state: str | None, *, after: bool) -> Query:
    wanted = [f"{name} = :{name}" for name in names] + ([state] if state else [])
    wanted += [f"({listed.at}, {listed.id}) < (:after_at, :after_id)"] if after else []
    where = f"WHERE {' AND '.join(wanted)}" if wanted else ""
    order = f"ORDER BY {listed.at} DESC, {listed.id} DESC LIMIT {ROWS_MAX}"
    rows = f"SELECT {listed.columns} FROM read.{listed.view} {where} {order}"  # noqa: S608 - ours
    sorted_again = f"ORDER BY {listed.at} DESC, {listed.id} DESC LIMIT :most"
    return query(listed.view, f"SELECT * FROM ({rows}) AS newest {sorted_again}")  # noqa: S608 - ours


async def list_page(
    connection: Connection, listed: Listed, tenant: str, *, after: Cursor | None, limit: int, **filters: str | None
) -> list[Row]:
    """Return rows of a tenant, newest first, from after a cursor on; a filter that is None asks for nothing."""
    given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    given |= {"tenant": tenant} if listed.of_tenant else {}
    state = listed.states[given.pop("state")] if listed.states and "state" in given else None
    statement = _page(listed, tuple(given), state, after=after is not None)
    given |= {"after_at": after.at, "after_id": after.id} if after else {}
    return [dict(row) for row in await connection.run(statement, **given, most=limit)]


async def find(connection: Connection, listed: Listed, tenant: str, row_id: str) -> Row | None:
    """Return one row of a tenant."""
    rows = await list_page(connection, listed, tenant, after=None, limit=1, **{listed.id: row_id})
    return rows[0] if rows else None


# Of a staged call its end, once there is one.
_KIND = (
    "CASE c.result_kind WHEN 'staged' THEN coalesce((SELECT e.state FROM read.workspace_entries AS e WHERE"
    " e.call_id = c.call_id AND e.tenant = c.tenant AND e.state NOT IN ('waiting', 'kept')), 'staged')"
    " ELSE c.result_kind END"
)
#: What a list of calls can be narrowed by.
_CALL_CONDITIONS = {
    "state": f"coalesce({_KIND}, c.state) = :state",
    "tool": "c.tool = :tool",
    "agent": "v.agent = :agent",
    "requester": "t.requester = :requester",
    # Nobody knows beforehand how many rows of a time there are; a planner that guesses plans anew for each page.
    "since": "coalesce(c.proposed_at >= :since, false)",
    "until": "coalesce(c.proposed_at < :until, false)",
}
_CALL = (
    " AS place, c.call_id, c.tool, c.state, c.conversation_id, c.proposed_at, c.answered_at, v.agent, t.requester,"
    f" {_KIND} AS result_kind"
)
# Each by its key: a planner that expects many rows would read whole tables to join them.
_OF_CALL = (
    " CROSS JOIN LATERAL (SELECT * FROM read.tool_calls"
    " WHERE call_id = listed.call_id AND tenant = :tenant LIMIT 1) AS c"
    " LEFT JOIN LATERAL (SELECT requester FROM read.turns WHERE turn_id = c.turn_id LIMIT 1) AS t ON true"
    " LEFT JOIN LATERAL (SELECT agent FROM read.conversations"
    " WHERE conversation_id = c.conversation_id AND tenant = :tenant LIMIT 1) AS v ON true WHERE true"
)


@lru_cache
def _calls(names: tuple[str, ...], most: int, *, unknown: bool) -> Query:
    # How many rows are wanted stands in the statement: a plan for any number is dear, so each page had one of its own.
    wanted = "".join(f" AND {_CALL_CONDITIONS[name]}" for name in names)
    if unknown:
        after = " AND (:at::timestamptz IS NULL OR (c.proposed_at, c.call_id) < (:at::timestamptz, :after::text))"
        # Of a commit nothing is unknown but what its staged calls did, which are listed themselves.
        return query(
            "unknown_calls",
            f"SELECT c.call_id{_CALL} FROM (SELECT call_id FROM read.executions WHERE state = 'unknown'"  # noqa: S608 - ours
            f" AND mode IS DISTINCT FROM 'commit' AND tenant = :tenant) AS listed{_OF_CALL}{wanted}{after}"
            f" ORDER BY c.proposed_at DESC, c.call_id DESC LIMIT {most}",
        )
    # A call's id says nothing of its time; its first row of the history does, and is found by the order of its ids.
    return query(
        "newest_calls",
        f"SELECT listed.id::text{_CALL} FROM (SELECT id, call_id FROM read.history WHERE service = 'agent'"  # noqa: S608 - ours
        " AND tenant = :tenant AND machine = 'tool_call' AND event = 'proposed' AND id >= :floor AND id <= :last"
        f" ORDER BY id DESC LIMIT {LOOKED_AT if names else ROWS_MAX}) AS listed{_OF_CALL}{wanted}"
        f" ORDER BY listed.id DESC LIMIT {most}",
    )


async def newest_calls(
    connection: Connection, tenant: str, *, after: int | None, limit: int, **filters: Any
) -> tuple[list[Row], int | None]:
    """Return calls of a tenant with their `place` among all, newest first, from before the place `after` on.

    Where they are narrowed, a page looks through LOOKED_AT rows of the history at most, so that it costs the same
    however rare is what fits; the second value is then the place where the next page goes on, None at the end of all.
    """
    before, lowest, floor = NEWEST if after is None else after, 0, 0
    if filters:
        lowest, before = await stretch(connection, "agent", filters.get("since"), filters.get("until"), before)
        floor = max(lowest, before - LOOKED_AT)
    if floor >= before:
        return [], None
    asked = {**filters, "floor": floor, "last": before - 1}
    rows = await connection.run(_calls(tuple(filters), limit, unknown=False), tenant=tenant, **asked)
    return list(rows), floor if floor > lowest else None


async def unknown_calls(
    connection: Connection, tenant: str, *, after: Cursor | None, limit: int, **filters: Any
) -> list[Row]:
    """Return the calls of a tenant whose outcome nobody knows, newest first, each its own `place`."""
    asked = {**filters, "at": after.at if after else None, "after": after.id if after else None}
    statement = _calls(tuple(filters), limit, unknown=True)
    return [dict(row) for row in await connection.run(statement, tenant=tenant, **asked)]


_USED = query(
    "used",
    "SELECT d.place, coalesce(sum(r.amount), 0) AS used FROM unnest(:counter_ids::text[], :windows::int[])"
    " WITH ORDINALITY AS d (counter_id, seconds, place) LEFT JOIN read.limit_reservations AS r"
    " ON r.counter_id = d.counter_id AND r.reserved_at > clock_timestamp() - make_interval(secs => d.seconds)"
    " GROUP BY d.place ORDER BY d.place",
)


async def used_of(connection: Connection, asked: Sequence[tuple[str, int]]) -> list[Decimal]:
    """Return what was taken of each counter within so many seconds, in the order given."""
    ids, windows = [each for each, _ in asked], [seconds for _, seconds in asked]
    return [row["used"] for row in await connection.run(_USED, counter_ids=ids, windows=windows)]


_ASK_ERASURE = query(
    "ask_erasure",
    "INSERT INTO gateway.erasures (erasure_id, who, asked_by) VALUES (:erasure_id, :who, :by)"
    " RETURNING erasure_id, who, asked_by, asked_at, done_at, waits_for",
)
_LIST_ERASURES = query(
    "list_erasures",
    "SELECT erasure_id, who, asked_by, asked_at, done_at, waits_for FROM gateway.erasures"
    " ORDER BY asked_at DESC LIMIT 200",
)


async def ask_erasure(connection: Connection, erasure_id: str, who: str, *, by: str) -> Row:
    """Keep that an administrator wants a person erased."""
    row: Row = (await connection.run(_ASK_ERASURE, erasure_id=erasure_id, who=who, by=by))[0]
    return row


async def list_erasures(connection: Connection) -> list[Row]:
    """Return the newest erasures, newest first."""
    return list(await connection.run(_LIST_ERASURES))

"""What a restore does to a restored database before any service sees it: nothing goes on that may have gone on before.

`read.restores` then says when it was: services handle no message from before it, executors honour no permit, the agent
asks no model on behalf of a turn that began before or answers what is from before, and jobs end. Here is only what rows
alone must say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString, cast

import psycopg
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import Jsonb

from placet.contracts.ids import new_id, new_traceparent
from placet.contracts.messages import (
    AbandonCall,
    Event,
    Message,
    Staged,
    ToolCall,
    ToolCallFinished,
    ToolCallRefused,
)
from placet.contracts.permit import MAY_HAVE_RUN, permit_id
from placet.deploy.migrations import RESTORING
from placet.runtime.outbox import outgoing
from placet.runtime.queries import load_queries

#: Who did it, in histories and answers.
ACTOR = "restore"
RESTORED = "The database was restored from a backup before it had its answer."
LOST = "The call has ended, and its answer was lost when the system was restored from a backup."
_RESULTS = "agent.tool-results"
_QUERIES = load_queries(__file__, "settling.sql")
#: Of a call whose pool no row tells, and that no executor looks after.
_NO_POOL = "default"


@dataclass(frozen=True)
class Settled:
    """What was done."""

    restored_at: datetime
    backup_at: datetime
    #: Unfinished calls, by what became of them.
    calls: Mapping[str, int]


def begin(connection: psycopg.Connection) -> None:
    """Say, in the transaction that empties the database, that it is being restored: nothing migrates it as it is then.

    So what a restore left in the middle is no new house, and only another restore goes on with it.
    """
    _be_of(connection.cursor(row_factory=dict_row), RESTORING)


def _be_of(cursor: psycopg.Cursor[DictRow], revision: str) -> None:
    for name in ("of_a_revision", "no_revision", "revision"):
        cursor.execute(statement(name), {"revision": revision})


def settle(connection: psycopg.Connection, revision: str) -> Settled:
    """Note the restore and end what it leaves open, in the transaction of `connection`; then it is of a `revision`."""
    with connection.cursor(row_factory=dict_row) as cursor:
        _be_of(cursor, revision)
        (now,) = cursor.execute("SELECT clock_timestamp() AS at").fetchall()
        (newest,) = cursor.execute(statement("newest_moment")).fetchall()
        at = max(now["at"], newest["greatest"])
        moments = {"restored_at": at, "backup_at": newest["greatest"]}
        cursor.execute(statement("restored"), moments)
        for change in ("tell_cards", "show_cards", "ask_anew"):
            cursor.execute(statement(change), moments)
        counted: Counter[str] = Counter()
        counted["staged"] = cursor.execute(statement("doubt_staged"), moments).rowcount
        counted["lost"] = cursor.execute(statement("lose"), moments).rowcount - counted["staged"]
        for row in cursor.execute(statement("unfinished")).fetchall():
            counted[_end(cursor, row, at)] += 1
    return Settled(at, moments["backup_at"], {kind: count for kind, count in counted.items() if count})


def _end(cursor: psycopg.Cursor[DictRow], row: DictRow, at: datetime) -> str:
    """See to it that an unfinished call gets its answer; return what becomes of it."""
    ids = _ids(row)
    if row["execution"] in {"succeeded", "failed", "unknown", "resolved"}:
        kind = "unknown" if row["execution"] == "resolved" else row["execution"]
        said = {"data": LOST} if kind == "succeeded" else {"error": row["error"] or LOST}
        _emit(cursor, "executor", ToolCallFinished(**ids, kind=kind, **said, **_times(row)), at)
        return "told"
    if row["execution"] == "staged":
        staged = Staged(**{name: row["entry"][name] for name in Staged.model_fields if name in row["entry"]})
        said = {"summary": staged.summary, "workspace": {"workspace_id": staged.workspace_id}}
        _emit(cursor, "executor", ToolCallFinished(**ids, kind="staged", data=said, staged=staged, **_times(row)), at)
        return "told"
    if row["execution"] in {"refused", "expired"}:
        _emit(cursor, "executor", ToolCallRefused(**ids, kind=row["execution"], reason=row["error"] or LOST), at)
        return "told"
    never = row["effect"] == "deny" or row["approval"] not in {None, "approved"}
    if row["effect"] and row["has_executions"] and not never:
        _doubt(cursor, row, at)
        return "unknown"
    # Nobody has it any more, so that nobody else will answer.
    _emit(cursor, "dead_letters", AbandonCall(**ids, queue=_RESULTS, may_have_run=not never, by=ACTOR), at)
    return "failed" if never else "untold"


def _doubt(cursor: psycopg.Cursor[DictRow], row: DictRow, at: datetime) -> None:
    """Have a call that no executor had taken, and that may have run since the backup, be one whose attempt was lost.

    Of one that was let through, executors of its pool say what became of it, by its probe if it has one. Where nobody
    knows its pool, and of a call that people were to be asked about, or that was to be staged, no executor could: it is
    unknown at once, for a person to resolve.
    """
    call = ToolCall(**{name: row[name] for name in ToolCall.model_fields if row.get(name) is not None})
    is_asked = bool(row["pool"]) and (row["approval"] == "approved" or row["effect"] == "allow")
    values = {
        **row,
        "pool": row["pool"] or _NO_POOL,
        "mode": "stage" if row["effect"] == "stage" else None,
        "state": "verifying" if is_asked else "unknown",
        "fence": 2 if is_asked else 1,
        "lease_until": at if is_asked else None,
        "finished_at": None if is_asked else at,
        "error": "" if is_asked else f"{RESTORED} {MAY_HAVE_RUN}",
        "restored_at": at,
        "permit_id": permit_id(row["call_id"]),
        "issuer": "approval" if row["approval"] or row["effect"] == "require_approval" else "policy",
        "call": call.model_dump_json(exclude_defaults=True),
        "cause": Jsonb(row["cause"]),
        "begun_at": row["closed_at"] or row["judged_at"],
    }
    cursor.execute(statement("doubt"), values)
    cursor.execute(statement("note"), values | {"event": "probed" if is_asked else "gave_up"})
    if not is_asked:
        finished = ToolCallFinished(**_ids(row), kind="unknown", error=values["error"], **_times(values))
        _emit(cursor, "executor", finished, at)


def _ids(row: DictRow) -> dict[str, Any]:
    return {name: row[name] for name in ("tenant", "call_id", "conversation_id", "tool")}


def _times(row: DictRow) -> dict[str, Any]:
    return {"attempt": row["fence"], "started_at": row["begun_at"], "finished_at": row["finished_at"]}


def _emit(cursor: psycopg.Cursor[DictRow], service: LiteralString, message: Message, at: datetime) -> None:
    """Have a service send a message, as if it had handed it over just after the restore."""
    key = new_id()
    moment = at + timedelta(microseconds=1)
    event = Event(key, service, moment, key, "", new_traceparent(), message)
    way, text = outgoing(event)
    cursor.execute(
        f"INSERT INTO {service}.outbox (id, exchange, key, batch, mandatory, events, due_at)"  # noqa: S608 - ours
        " VALUES (%s, %s, %s, %s, %s, %s, now())",
        (key, way.destination.exchange, way.destination.key, way.batch, way.mandatory, [text]),
    )


def statement(name: str) -> LiteralString:
    """Return one of the statements of `settling.sql` by its name."""
    # Of a file of our own.
    return cast("LiteralString", getattr(_QUERIES, name).source)

"""An erasure of a visitor whom their frontend named: the name has no kind, and is found wherever it says who."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import ARRAY
from sqlalchemy.dialects.postgresql import JSONB

from placet.contracts.topology import SERVICES
from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.erasing import Erased, erase
from placet.deploy.retention.forgetting import NAMING, within
from placet.runtime.database import Database
from tests.integration.deploy.test_erasing import BESIDE, NOW, insert

NAME = "v80"
#: How a field of an event, a card, a call or a change of state names them.
TOLD = {
    "tenant": "acme",
    "data": {"tenant": "acme"},
    "requester": NAME,
    "opened_by": f"person:ada ~{NAME}",
    "voters": {NAME: None},
    "by": {"person": NAME, "roles": ["requester"]},
    "author": {"kind": "visitor", "id": NAME},
    "deciders": ["person:ada", NAME],
    "reason": f"The call did not run: {NAME} cancelled it.",
    "line": f"asked by {NAME}: a report",
}
#: Columns that say who.
WHO = {
    *("approval.approvals.requester", "approval.approvals.decided_by", "approval.approvals.claimed_by"),
    *("approval.approvals.cancel_asked_by", "approval.decisions.person", "approval.edits.person"),
    *("gateway.comments.person", "gateway.conversations.ended_by", "gateway.link_uses.person", "jobs.jobs.author"),
    *("notifier.links.person", "policy.counters.subject", "policy.verdicts.requester"),
    *("policy.watched_calls.requester", "policy.watched_calls.denied_by", "executor.workspaces.ended_by"),
}
MORE: dict[str, dict[str, Any]] = BESIDE | {
    "agent.attempts": {"state": "voted", "ended_at": NOW},
    "agent.messages": {"turn_id": "t"},
    "agent.tool_calls": {"state": "open", "digest": "0" * 64},
    "agent.turns": {"state": "finished", "open_calls": 0, "ended_at": NOW},
    "agent.facts": {"call_id": "k"},
    "approval.calls": {"withdrawn_kind": "cancelled"},
    "gateway.comments": {"text": "Which one?"},
    "approval.approvals": BESIDE["approval.approvals"] | {"claimed_until": NOW, "arguments_revision": 2, "revision": 2},
    "approval.decisions": {"verb": "claim"},
    "dead_letters.dead_letters": {"state": "open"},
    "executor.workspace_entries": {"state": "waiting", "decide": "turn", "on_failure": "stop", "kind": "call"},
    "gateway.conversations": {"holder": "agent", "conversation_id": "unknown", "ended_at": NOW, "operator": ""},
    "jobs.attempts": {"state": "voted", "ended_at": NOW},
    "jobs.jobs": {"state": "done", "ended_at": NOW},
    "jobs.tasks": {"state": "decided"},
    "notifier.deliveries": {"state": "sent", "sent_revision": 1, "revision": 1},
    "notifier.webhook_events": {"state": "sent"},
    "policy.counters": {"per": "requester"},
    "policy.verdicts": {"effect": "deny"},
    **{f"{service}.outbox": {"batch": 0} for service in SERVICES},
}
#: In which no visitor is named: keys, sessions and links are people's, and words are those of arguments.
OTHERS = {"approval.words", "gateway.api_keys", "gateway.saved_views", "gateway.sessions", "gateway.stops"}
OTHERS |= {"gateway.link_uses", "notifier.links", "policy.grants"}
#: Rows that are found by the tenant of what they belong to.
OWNERS: list[tuple[str, dict[str, Any]]] = [
    ("agent.conversations", {"conversation_id": "c", "queued": 0}),
    (
        "agent.tool_calls",
        {"call_id": "k", "conversation_id": "c", "state": "answered", "digest": "0" * 64}
        | {"answered_at": NOW, "result_kind": "failed"},
    ),
    ("jobs.jobs", {"job_id": "j", "state": "done", "ended_at": NOW}),
    ("executor.workspaces", BESIDE["executor.workspaces"] | {"workspace_id": "w"}),
]
PLACE = {"conversation_id": "c", "job_id": "j", "workspace_id": "w"}


def row_of(table: str, columns: list[str]) -> dict[str, Any]:
    """Return a row that names them in each of these columns, as that has people."""
    row: dict[str, Any] = {name: value for name, value in PLACE.items() if name in metadata.tables[table].columns}
    for name in columns:
        kind = metadata.tables[table].columns[name].type
        if f"{table}.{name}" in WHO:
            row[name] = NAME
        elif isinstance(kind, ARRAY):
            row[name] = [NAME] if name == "deciders" else [json.dumps(TOLD)]
        elif name in {"closed_to", "voters"}:
            row[name] = {NAME: None}
        elif isinstance(kind, JSONB):
            row[name] = TOLD
        else:
            row[name] = json.dumps(TOLD)
    return row | MORE.get(table, {})


def naming(connection: psycopg.Connection, name: str) -> list[str]:
    """Return each column of any table that has a name anywhere, with what it has."""
    return [
        f"{table}.{column.name}: {found}"
        for table, held in metadata.tables.items()
        for column in held.columns
        for (found,) in connection.execute(
            sql.SQL("SELECT CAST({c} AS text) FROM {t} WHERE CAST({c} AS text) ~ {n}").format(
                c=sql.Identifier(column.name), t=sql.Identifier(*table.split(".")), n=sql.Literal(name)
            )
        )
    ]


async def erased(database_url: str, name: str = f"acme/visitor:{NAME}") -> Erased:
    """Erase a visitor, and return what came of it."""
    database = Database(database_url, service="gateway", pool_size=1)
    done = await erase(database, name)
    await database.close()
    return done


#: A key that is offered to a person of the same name.
OFFERED = {"data": {"tenant": "acme", "key_id": "k", "person": NAME, "by": "person:bea", "code": "1"}}
#: Tables of which a row says in some way what tenant it is of.
TABLES = {
    table: columns.split() for table, columns in NAMING.items() if "false" not in within(table) and table not in OTHERS
}


@pytest.mark.parametrize("table", TABLES)
async def test_a_name_without_kind_goes_from_every_column(database_url: str, table: str) -> None:
    """Whatever has it: a column, an event, a call, a list, or a sentence of Placet's own."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number, (owner, given) in enumerate(OWNERS):
            if owner != table:
                insert(connection, number, owner, given)
        insert(connection, 9, table, row_of(table, TABLES[table]))
        assert naming(connection, NAME)
        done = await erased(database_url)
        left = naming(connection, NAME)
    assert ([], [], True) == (done.left, left, bool(done.pseudonym))


CHANGE = {"machine": "approval", "event": "claim", "to_state": "pending", "salt": str(uuid4())}
#: What has their name, and whether it names them.
ROWS: list[tuple[str, dict[str, Any], bool]] = [
    ("approval.history", CHANGE | {"actor": "person:bea", "detail": {"opened_by": f"person:ada ~{NAME}"}}, True),
    ("approval.history", CHANGE | {"actor": NAME}, True),
    ("approval.history", CHANGE | {"actor": NAME, "tenant": "rival"}, False),
    ("approval.history", CHANGE | {"actor": "person:bea", "detail": {"opened_by": f"person:{NAME}"}}, False),
    ("approval.history", CHANGE | {"actor": "person:bea", "detail": {"reason": f"{NAME} is a road."}}, False),
    ("policy.counters", {"per": "requester", "subject": NAME}, True),
    ("policy.counters", {"per": "requester", "subject": NAME, "tenant": "rival"}, False),
    ("policy.counters", {"per": "agent", "subject": NAME}, False),
    ("policy.counters", {"per": "requester", "subject": f"{NAME}.b"}, False),
    ("agent.log", {"data": {"verb": NAME, "arguments": {"requester": NAME}, "text": f"{NAME} is a road."}}, False),
    ("agent.log", {"data": {"author": {"kind": "person", "id": NAME}}}, False),
    ("gateway.outbox", {"batch": 0, "events": [json.dumps(OFFERED)]}, False),
    ("gateway.api_keys", {"person": NAME, "secret_hash": "0" * 64, "scopes": ["chat"]}, False),
]


async def test_what_reads_like_a_visitor_s_name_and_is_not_theirs_stays(database_url: str) -> None:
    """A person, an agent, a longer name, another tenant's visitor, and what somebody said."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number, (table, given, _) in enumerate(ROWS):
            insert(connection, number, table, {"tenant": "acme", "seq": number, **given})
        before = naming(connection, NAME)
        done = await erased(database_url)
        left = naming(connection, NAME)
    gone = [given for _, given, theirs in ROWS if theirs]
    assert (2, len(gone)) == (done.history, len(before) - len(left))


async def test_a_person_of_the_same_name_keeps_their_cards(database_url: str) -> None:
    """The directory's ids have no kind either: who is told is no visitor."""
    card = {"summary": "Pay.", "state": "pending", "conversation_id": "c"}
    with psycopg.connect(database_url, autocommit=True) as connection:
        told = {"state": "due", "tenant": "acme", "person": NAME, "sent_revision": 0, "revision": 1, "card": card}
        insert(connection, 1, "notifier.deliveries", told)
        await erased(database_url)
        left = connection.execute("SELECT person, card FROM notifier.deliveries").fetchall()
    assert [(NAME, card)] == left


@pytest.mark.parametrize("name", ["policy", "restore"])
async def test_a_visitor_who_is_called_what_placet_is_called_takes_nothing_from_it(
    database_url: str, name: str
) -> None:
    """What policy or a restore did it did, whoever has its name; what they asked for was theirs."""
    rows = [
        ("approval.history", CHANGE | {"actor": name}),
        ("policy.verdicts", {"requester": name, "effect": "deny"}),
        ("executor.workspaces", BESIDE["executor.workspaces"] | {"ended_by": name}),
    ]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number, (table, given) in enumerate(rows):
            insert(connection, number, table, given)
        await erased(database_url, f"acme/visitor:{name}")
        left = naming(connection, name)
    assert [f"approval.history.actor: {name}", f"executor.workspaces.ended_by: {name}"] == sorted(left)

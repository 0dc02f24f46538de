"""An erasure of somebody whose id begins another's, or has any character: it is found as a whole, and that alone."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from placet.deploy.retention.erasing import Erased, erase
from placet.deploy.retention.names import spelled
from placet.runtime.database import Database
from tests.integration.deploy.test_erasing import EXPIRED, WAITS, put

#: Who is erased, and somebody whose id begins with theirs.
PAIRS = [
    ("ada", "ada lovelace"),
    ("jos", "josé"),
    ("ada", "ada's aunt"),
    ("ada", "ada(2)"),
    ("ada", "ada/ops"),
    ("ada", "ada: \\boss"),
    ("ada", 'ada"x'),
    ("ada", 'ada"'),
    ("ada", "ada. b"),
    ("ada", "ada@example.com"),
    ("ada", "ada lovelace lovelace"),
    ("ada lovelace", "ada lovelace-king"),
    ('o"b\\c', 'o"b\\c d'),
    ("ümit yılmaz", "ümit yılmaz 🦊"),
    ("[ada]", "[ada] {x}"),
    ("a:b", "a:b c"),
]


async def erased(database_url: str, name: str) -> Erased:
    """Erase somebody, and return what came of it."""
    database = Database(database_url, service="gateway", pool_size=1)
    done = await erase(database, name)
    await database.close()
    return done


def rows_of(name: str, tenant: str) -> list[tuple[str, dict[str, Any]]]:
    """Return rows that name somebody in each way: alone, in lists, as keys, in sentences, and in strings of JSON."""
    who = f"person:{name}"
    rule = {"approvers": [who, "person:bea"], "approvals": 1}
    told = {"to": who, "voters": {who: None}, "error": f"Last:\n{who} denied it."}
    asked = {"machine": "approval", "event": "asked", "to_state": "pending", "salt": str(uuid4())}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("approval.approvals", EXPIRED | {"requester": who}),
        ("approval.approvals", WAITS | {"approval_id": tenant, "deciders": [who], "approval_rule": rule}),
        ("agent.log", {"data": told | {"body": json.dumps({"by": who, "inner": json.dumps([who])})}}),
        ("agent.log", {"seq": 2, "data": {"text": f"{who} ended it, another did not. It was {who}."}}),
        ("gateway.conversations", {"relayed_by": f"person:bea ~{who}", "holder": "agent"}),
        ("approval.history", asked | {"actor": "policy", "detail": {"approvers": [who], "reason": f"By {who}."}}),
        (
            "dead_letters.dead_letters",
            {"state": "open", "body": json.dumps({"deciders": [who]}), "reason": f"{who} left"},
        ),
    ]
    return [(table, {"tenant": tenant, "conversation_id": tenant, **row}) for table, row in rows]


#: Each row as JSON, of one tenant.
ROWS = " UNION ALL ".join(
    f"SELECT to_jsonb(t) FROM {table} AS t WHERE tenant = %(tenant)s"  # noqa: S608
    for table in dict.fromkeys(table for table, _ in rows_of("x", "x"))
)


def rows_left(connection: psycopg.Connection, tenant: str) -> list[str]:
    """Return what the rows of a tenant say, sorted, without the digests that a row of the history says anew."""
    rows = [row for (row,) in connection.execute(ROWS.encode(), {"tenant": tenant})]
    return sorted(json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows)


@pytest.mark.parametrize(("name", "namesake"), PAIRS)
async def test_an_id_is_found_as_a_whole(database_url: str, name: str, namesake: str) -> None:
    """In every place where it stands, whatever it has in it; another's that begins with it loses nothing."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, [*rows_of(namesake, "theirs"), *rows_of(name, "acme")])
        before = rows_left(connection, "theirs")
        done = await erased(database_url, name)
        after = rows_left(connection, "acme")
        assert (before, True) == (rows_left(connection, "theirs"), bool(done.pseudonym))
    assert [] == [row for row in after if re.search(rf"person:{spelled(name)}", row)]
    assert 1 == done.history


async def test_nobody_is_erased_by_another_s_name(database_url: str) -> None:
    """Where nothing has a name but the beginning of another's, whoever misspelt it is told so."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, rows_of("ada lovelace", "theirs"))
    assert "" == (await erased(database_url, "ada")).pseudonym


@pytest.mark.parametrize("field", ["line", "task", "reason"])
async def test_a_sentence_that_begins_with_an_id_is_nobody(database_url: str, field: str) -> None:
    """As the first line of a job's log does: who it is about is erased in it too."""
    rows = [("agent.log", {"seq": seq, "data": {field: f"person:ada: {said}"}}) for seq, said in enumerate("ab")]
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, rows)
        new = (await erased(database_url, "ada")).pseudonym
        left = connection.execute("SELECT data ->> %s FROM agent.log ORDER BY seq", [field]).fetchall()
    assert [(f"person:{new}: a",), (f"person:{new}: b",)] == left


async def test_whom_only_the_directory_knows_keeps_their_name(database_url: str) -> None:
    """A sentence may name somebody who stands nowhere else."""
    outline = "person ada: active, known by 0\nperson ada lovelace: not active, known by 1\n"
    said = [f"person:{name} came" for name in ("ada", "ada lovelace")]
    rows = [("agent.log", {"seq": seq, "data": {"text": text}}) for seq, text in enumerate(said)]
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, [*rows, ("policy.activations", {"kind": "directory", "source": outline})])
        new = (await erased(database_url, "ada")).pseudonym
        left = connection.execute("SELECT data ->> 'text' FROM agent.log ORDER BY seq").fetchall()
    assert [(f"person:{new} came",), (said[1],)] == left


async def test_who_relayed_what_waits_is_found_with_a_space_in_their_id(database_url: str) -> None:
    """Under another name they could approve what they may have asked."""
    relayed = {"conversation_id": "c", "relayed_by": "person:bea person:ada lovelace", "holder": "agent"}
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, [("gateway.conversations", relayed), ("approval.approvals", WAITS)])
    assert ["c"] == (await erased(database_url, "ada lovelace")).left

"""What an erasure finds in a whole database: where somebody is named or quoted, of whose call and of which tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb
from typer.testing import CliRunner

from placet.cli.main import app
from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.erasing import BEING_WRITTEN, Erased, NoTenant, erase
from placet.runtime.database import Database
from tests.contract.test_retention import OWN_WORDS
from tests.support.agents import wait_for_a_blocked_statement

NOW = datetime.now(UTC)
#: Of columns that a test says nothing of.
ANY = {"JSONB": Jsonb({}), "ARRAY": [], "Integer": 1, "BigInteger": 1, "Float": 1.0, "Boolean": False}
ANY |= dict.fromkeys(("String", "Text"), "")
#: What ada wrote, which reads like somebody else.
SAID = "person:bea"
DENIED = 'Asked again: person:ada denied it at noon: "person:bea".'
LOST = "No answer can win: person:bea"
THROWN = 'Not run: person:ada threw away what was staged: "wrong \\"one\\", sorry".'
EXPIRED = {"state": "expired", "closed_at": NOW, "result_kind": "expired"}
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("gateway.conversations", {"conversation_id": "c", "relayed_by": "person:bea ~person:ada", "holder": "agent"}),
    (
        "approval.approvals",
        {"approval_id": "a", "conversation_id": "try", "requester": "person:bea", **EXPIRED},
    ),
    ("approval.decisions", {"approval_id": "a", "person": "person:ada", "reason": SAID, "verb": "abstain"}),
    ("approval.decisions", {"approval_id": "a", "person": "person:bea", "reason": "Ask person:ada.", "verb": "claim"}),
    (
        "executor.workspaces",
        {"state": "open", "bytes": 0, "ended_by": "person:ada", "reason": "stale", "conversation_id": "w"},
    ),
    (
        "approval.approvals",
        {"conversation_id": "asks", "state": "withdrawn", "decision_reason": THROWN, "closed_at": NOW}
        | {"result_kind": "cancelled", "requester": "person:bea"},
    ),
    ("agent.log", {"conversation_id": "asks", "seq": 2, "data": {"error": 'It was: wrong "one", sorry'}}),
    ("agent.attempts", {"conversation_id": "try", "data": {"job_id": "j", "caller": {"conversation_id": "asks"}}}),
    *(("jobs.log", {"job_id": job, "data": {"reason": LOST}}) for job in ("j", "other")),
    *(("agent.log", {"conversation_id": place, "data": {"error": LOST}}) for place in ("asks", "try", "other")),
    *(
        ("policy.verdicts", {"tenant": tenant, "requester": SAID, "reason": DENIED, "effect": "deny"})
        for tenant in ("acme", "rival")
    ),
]


def insert(connection: psycopg.Connection, number: int, table: str, given: dict[str, Any]) -> None:
    """Insert a row of acme; what it does not say is a number of its own where it is an id, and empty elsewhere."""
    row = {"tenant": "acme", "category": "unsafe_api", "outcome": "accepted"} | given
    columns = [each for each in metadata.tables[table].columns if each.name in given or not each.nullable]
    values = {}
    for each in columns:
        if each.name in row:
            value = row[each.name]
            values[each.name] = Jsonb(value) if isinstance(value, dict) else value
        elif each.name.endswith("_id"):
            values[each.name] = f"id-{number}"
        elif each.server_default is None:
            values[each.name] = ANY.get(type(each.type).__name__, datetime.now(UTC))
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(*table.split(".")),
        sql.SQL(", ").join(map(sql.Identifier, values)),
        sql.SQL(", ").join(map(sql.Placeholder, values)),
    )
    connection.execute(statement, values)


async def ada_erased(database_url: str) -> Erased:
    """Erase her, and return what came of it."""
    database = Database(database_url, service="gateway", pool_size=1)
    erased = await erase(database, "ada")
    await database.close()
    return erased


def put(connection: psycopg.Connection, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Put rows into their tables."""
    for number, (table, given) in enumerate(rows):
        insert(connection, number, table, given)


#: What a table says beside, so that a row is as its constraints want it.
BESIDE: dict[str, dict[str, Any]] = {
    "approval.approvals": {"state": "approved", "closed_at": NOW, "expires_at": NOW + timedelta(days=1)},
    "approval.edits": {"state": "asked"},
    "executor.executions": {
        "state": "resolved",
        "resolution": "ran",
        **dict.fromkeys(("begun_at", "finished_at", "resolved_at"), NOW),
    },
    "executor.workspaces": {"state": "open", "bytes": 0},
    "gateway.stops": {"by_house": True, "resumed_at": NOW, "resumed_by": "person:carl", "resume_signature": "signed"},
    "policy.watched_calls": {"veto_on": "tool", "veto_within": "tenant"},
}


@pytest.mark.parametrize("column", OWN_WORDS)
async def test_what_somebody_wrote_goes_with_them(database_url: str, column: str) -> None:
    """Whatever they wrote, of each column that has words of one person; another's stay."""
    table, _, name = column.rpartition(".")
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number, who in enumerate(("person:ada", "person:bea")):
            row = {**BESIDE.get(table, {}), OWN_WORDS[column]: who, name: f"{who[7:]} wrote it", "verb": "abstain"}
            insert(connection, number, table, row)
        await ada_erased(database_url)
        statement = sql.SQL("SELECT CAST(t AS text) FROM {} AS t").format(sql.Identifier(*table.split(".")))
        left = " ".join(row for (row,) in connection.execute(statement))
    assert (False, True) == ("ada" in left, "bea wrote it" in left)


async def test_lists_that_others_keep_name_them_no_more(database_url: str) -> None:
    """However an address spells their id; one that names somebody else stays as it was typed."""
    kept = ["/inbox?requester=person:bea&q=a+b%20c", "/inbox?q=100%", "/inbox/ada?older_than=0"]
    named = ["/inbox?requester=person%3Aada&q=", "/inbox?decided_by=person:ada", "/inbox?requester=%70erson%3aada"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number, address in enumerate((*kept, *named)):
            row = {"person": "person:bea", "name": str(number), "address": address}
            insert(connection, number, "gateway.saved_views", row)
        insert(connection, 9, "gateway.saved_views", {"person": "person:ada"})
        new = f"person%3A{(await ada_erased(database_url)).pseudonym}"
        left = {row for (row,) in connection.execute("SELECT address FROM gateway.saved_views")}
    assert {*kept, f"/inbox?requester={new}&q=", f"/inbox?decided_by={new}", f"/inbox?requester={new}"} == left


@pytest.fixture
def found(database_url: str) -> Any:
    """Return what a column has, in the order of its texts, of a database with the rows above."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for number, (table, given) in enumerate(ROWS):
            insert(connection, number, table, given)
        yield lambda column, table: [
            row[0] for row in connection.execute(b"SELECT %s FROM %s ORDER BY 1" % (column.encode(), table.encode()))
        ]


async def test_words_go_with_their_call_and_names_where_they_are_names(database_url: str, found: Any) -> None:
    """Of an attempt also in its job, and for who asked; of a veto wherever it is told; another tenant's words stay."""
    new = f"person:{(await ada_erased(database_url)).pseudonym}"
    gone = LOST.replace(SAID, "[erased]")
    told = DENIED.replace("person:ada", new)
    assert [""] == found("reason", "executor.workspaces")
    assert [f"person:bea ~{new}"] == found("relayed_by", "gateway.conversations")
    assert ["person:bea", "person:bea"] == found("requester", "approval.approvals")
    assert ["person:bea", new] == found("person", "approval.decisions")
    assert ["", "Ask person:ada."] == found("reason", "approval.decisions")
    assert [gone, LOST] == found("data ->> 'reason'", "jobs.log")
    assert ["It was: [erased]", gone, gone, LOST] == found("data ->> 'error'", "agent.log")
    assert ["person:bea", "person:bea"] == found("requester", "policy.verdicts")
    assert [told.replace(SAID, "[erased]"), told] == found("reason", "policy.verdicts")


@pytest.mark.parametrize("purged", [False, True], ids=["workspace", "purged"])
@pytest.mark.parametrize(("state", "left", "permit"), [("succeeded", [], ""), ("running", ["c"], "signed")])
async def test_a_permit_that_names_them_goes_when_its_call_is_over(
    database_url: str, state: str, left: list[str], permit: str, *, purged: bool
) -> None:
    """Of a staged call it is the commit's approvers whom it names; while the call runs, nothing is erased.

    Its workspace goes long before it does: its history says by which commit it ran.
    """
    now = datetime.now(UTC)
    ended: dict[str, Any] = {"finished_at": now} if state == "succeeded" else {"lease_until": now}
    begun = {"call_id": "staged", "state": state, "permit": "signed", "begun_at": now, **ended}
    entry = {
        "call_id": "staged",
        "workspace_id": "w",
        "commit_call_id": "commit",
        "kind": "call",
        "state": "waiting",
        "decide": "turn",
        "on_failure": "stop",
    }
    rows: list[tuple[str, dict[str, Any]]] = [
        ("approval.approvals", {"approval_id": "a", "call_id": "commit", **EXPIRED}),
        ("approval.decisions", {"approval_id": "a", "person": "person:ada", "verb": "abstain"}),
        ("agent.tool_calls", {"call_id": "staged", "conversation_id": "c", "state": "open", "digest": "0" * 64}),
        ("executor.executions", begun),
        ("executor.workspaces", {"workspace_id": "w", "state": "open", "bytes": 0}),
        ("executor.workspace_entries", entry),
    ]
    released: dict[str, Any] = {
        "machine": "execution",
        "event": "released",
        "subject_id": "staged",
        "call_id": "staged",
    }
    released |= {"from_state": "staged", "to_state": "running", "detail": {"reference": "a"}}
    rows[4:] = [("executor.history", released)] if purged else rows[4:]
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, rows)
        erased = await ada_erased(database_url)
        (found,) = connection.execute("SELECT permit FROM executor.executions").fetchall()
    assert (left, (permit,)) == (erased.left, found)


async def test_a_short_word_goes_where_it_is_quoted_and_where_it_stands_alone(database_url: str) -> None:
    """In quotes, and as the reason beside their name; where it is a part of what others said it stays."""
    said = {"by": "person:ada", "reason": "No"}
    told = ['They denied it and said: "No".', "No", "Nobody came.", "No"]
    rows: list[tuple[str, dict[str, Any]]] = [
        ("approval.approvals", {"approval_id": "a", "conversation_id": "c", "requester": "person:bea", **EXPIRED}),
        ("approval.decisions", {"approval_id": "a", "person": "person:ada", "reason": "No", "verb": "abstain"}),
        *(
            ("agent.log", {"conversation_id": "c", "seq": seq, "data": {"reason": text} | (said if seq == 1 else {})})
            for seq, text in enumerate(told)
        ),
    ]
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, rows)
        await ada_erased(database_url)
        left = connection.execute("SELECT data ->> 'reason' FROM agent.log ORDER BY seq").fetchall()
    assert ['They denied it and said: "[erased]".', "[erased]", "Nobody came.", "No"] == [text for (text,) in left]


WAITS = {"approval_id": "a", "conversation_id": "c", "state": "pending"}
STOP = {"stop_id": "s", "by_another": True, "stopped_by": "person:ada", "tenant": "acme"}


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ([("approval.approvals", WAITS | {"requester": "person:ada"})], ["c"]),
        ([("approval.approvals", WAITS | {"closed_to": {"person:ada": None}})], ["c"]),
        (
            [
                ("approval.approvals", WAITS),
                ("approval.decisions", {"approval_id": "a", "person": "person:ada", "verb": "approve"}),
            ],
            ["c"],
        ),
        ([("approval.approvals", WAITS | {"deciders": ["person:ada"]})], []),
        ([("gateway.stops", STOP)], ["stop s"]),
        ([("gateway.stops", STOP | {"by_another": False})], []),
    ],
)
async def test_who_is_one_of_many_stays_themselves_while_it_matters(
    database_url: str, rows: list[tuple[str, dict[str, Any]]], left: list[str]
) -> None:
    """Erased meanwhile they could vote twice, decide what they asked for, and lift what somebody else must lift."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, rows)
    erased = await ada_erased(database_url)
    assert (left, not left) == (erased.left, bool(erased.pseudonym))


HERE = {"conversation_id": "c"}
LONG_AGO = NOW - timedelta(days=40)
#: The visitor's, in which the agent works or people hold it.
ROOM = ("agent.conversations", HERE | {"turn_id": "t", "queued": 0})
HELD = ("agent.conversations", HERE | {"queued": 1, "held": True})
TURN = {"conversation_id": "c", "turn_id": "t", "state": "waiting", "open_calls": 1}
ENTRY = HERE | {"call_id": "x", "workspace_id": "w", "decide": "on_request", "keys": []}
ADA, VISITOR = {"kind": "person", "id": "person:ada"}, {"kind": "visitor", "id": "visitor:v80"}
OPENED = ("gateway.conversations", HERE | {"created_by": "person:ada", "visitor": "v80", "holder": "agent"})
RELAYED = ("gateway.conversations", HERE | {"relayed_by": "person:carl person:ada", "holder": "agent"})
ANSWERED = ("gateway.conversations", HERE | {"relayed_by": "person:carl ~person:ada", "holder": "agent"})
OTHERS = ("gateway.conversations", HERE | {"relayed_by": "person:carl ~person:ada.b", "holder": "agent"})
ASKED = ("approval.approvals", WAITS | {"requester": "visitor:v80"})
BY_BEA = ("approval.approvals", WAITS | {"requester": "person:bea"})
KEY = {"person": "bea", "created_by": "person:ada", "secret_hash": "0" * 64, "scopes": ["chat"], "created_at": LONG_AGO}
OWN = {"taken_over_at": NOW - timedelta(days=1), "taken_over_by": "code"}
STAGED = [
    ROOM,
    ("agent.turns", TURN | {"author": ADA, "state": "finished", "open_calls": 0, "ended_at": NOW}),
    ("agent.tool_calls", HERE | {"call_id": "x", "turn_id": "t", "state": "open", "digest": "0" * 64}),
]
JOB = {"job_id": "j", "state": "running"}
ATTEMPT = HERE | {"attempt_id": "of-j", "job_id": "j", "state": "voted", "ended_at": NOW}
TRY = {"conversation_id": "try"}
CALLED = {"caller": HERE}


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        pytest.param([OPENED, ASKED], ["c"], id="opened"),
        pytest.param([RELAYED, ASKED], ["c"], id="relayed"),
        pytest.param([ANSWERED, ASKED], ["c"], id="wrote"),
        pytest.param([RELAYED, ("approval.approvals", WAITS | EXPIRED)], [], id="relayed-and-over"),
        pytest.param([RELAYED, ("approval.approvals", WAITS | {"tenant": "rival"})], [], id="another-tenant"),
        pytest.param([OTHERS, ASKED, ("gateway.api_keys", KEY)], [], id="another-name"),
        pytest.param(
            [RELAYED, ("approval.approvals", WAITS | TRY), ("agent.attempts", TRY | {"data": CALLED})],
            ["try"],
            id="relayed-to-an-attempt",
        ),
        pytest.param([RELAYED, ROOM, ("agent.turns", TURN | {"author": VISITOR})], ["c"], id="relayed-to-a-turn"),
        pytest.param([ROOM, ("agent.turns", TURN | {"author": ADA})], ["c"], id="turn"),
        pytest.param([ROOM, ("agent.messages", HERE | {"author": ADA})], ["c"], id="queued"),
        pytest.param([*STAGED, ("agent.staged_entries", ENTRY)], ["c"], id="staged"),
        pytest.param(STAGED, [], id="no-more-staged"),
        pytest.param([ROOM, ("agent.messages", HERE | {"author": ADA, "turn_id": "t"})], [], id="read"),
        pytest.param([HELD, ("agent.messages", HERE | {"author": ADA})], ["c"], id="held"),
        pytest.param(
            [(HELD[0], HELD[1] | {"ended_at": NOW}), ("agent.messages", HERE | {"author": ADA})], [], id="ended"
        ),
        pytest.param([("jobs.jobs", JOB | {"author": "person:ada"})], ["job j"], id="job"),
        pytest.param([RELAYED, ("jobs.jobs", JOB | {"spec": CALLED})], ["job j"], id="relayed-to-a-job"),
        pytest.param([RELAYED, ("jobs.jobs", JOB), ("jobs.attempts", ATTEMPT)], ["job j"], id="told-to-an-attempt"),
        pytest.param([BY_BEA, ("gateway.api_keys", KEY)], ["c"], id="key"),
        pytest.param(
            [BY_BEA, ("gateway.api_keys", KEY | {"created_at": NOW + timedelta(hours=1)})], [], id="later-key"
        ),
        pytest.param([BY_BEA, ("gateway.api_keys", KEY | OWN)], [], id="taken-over"),
        pytest.param([BY_BEA, ("gateway.api_keys", KEY | {"revoked_at": NOW, "revoked_by": "x"})], ["c"], id="revoked"),
        pytest.param(
            [BY_BEA, ("gateway.api_keys", KEY | {"revoked_at": LONG_AGO, "revoked_by": "x"})], [], id="long-revoked"
        ),
    ],
)
async def test_who_may_have_asked_stays_themselves_while_it_is_asked(
    database_url: str, rows: list[tuple[str, dict[str, Any]]], left: list[str]
) -> None:
    """Under another name they could approve what they asked as a visitor, or with a key that they made for another."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, [*rows, ("agent.log", {"data": {"error": "It was person:ada."}})])
    erased = await ada_erased(database_url)
    assert (left, not left) == (erased.left, bool(erased.pseudonym))


@pytest.mark.parametrize(("rows", "told"), [([], True), ([RELAYED, ASKED], False)])
async def test_the_command_says_who_they_are_now_only_where_they_are(
    database_url: str, rows: list[tuple[str, dict[str, Any]]], *, told: bool
) -> None:
    """What was put off changed nothing, and no pseudonym is told that nobody has."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, [*rows, ("agent.log", {"data": {"error": "It was person:ada."}})])
    words = ["person", "erase", "ada", "--yes", "--database", database_url]
    done = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert (told, not told) == ("elsewhere they are" in done.output, "waits there: c" in done.output)


VOTE = {"approval_id": "a", "person": "person:ada", "verb": "approve", "reason": "Fine.", "signed": "by ada"}
#: What ada does at that moment, what tells that it is as it was, and where it is.
MEANWHILE = [
    (("approval.decisions", VOTE), "SELECT person, reason FROM approval.decisions", ("person:ada", "Fine."), "c"),
    (("gateway.stops", STOP), "SELECT stopped_by, stop_id FROM gateway.stops", ("person:ada", "s"), "stop s"),
]


@pytest.mark.parametrize(("done", "said", "as_it_was", "place"), MEANWHILE, ids=["vote", "stop"])
@pytest.mark.parametrize("state", ["pending", "approved"])
async def test_what_somebody_does_while_they_are_erased_keeps_their_name(
    database_url: str, state: str, done: tuple[str, dict[str, Any]], said: str, as_it_was: tuple[str, str], place: str
) -> None:
    """After the first look, and committed before votes are changed: under another name they could vote once more."""
    rows: list[tuple[str, dict[str, Any]]] = [
        ("approval.approvals", WAITS | ({} if state == "pending" else EXPIRED)),
        ("agent.log", {"data": {"error": "It was person:ada."}}),
    ]
    with psycopg.connect(database_url) as connection:
        put(connection, rows)
        connection.commit()
        # It reads what names her, and waits here with its changes.
        connection.execute("SELECT FROM agent.log FOR UPDATE")
        erasing = asyncio.create_task(ada_erased(database_url))
        await asyncio.to_thread(wait_for_a_blocked_statement, database_url)
        with psycopg.connect(database_url, autocommit=True) as other:
            insert(other, 9, *done)
        connection.rollback()
        erased = await erasing
        assert ([as_it_was], [place]) == (connection.execute(said.encode()).fetchall(), erased.left)


@pytest.mark.parametrize(("done", "said", "as_it_was", "place"), MEANWHILE, ids=["vote", "stop"])
async def test_an_erasure_waits_for_what_is_being_written(
    database_url: str, done: tuple[str, dict[str, Any]], said: str, as_it_was: tuple[str, str], place: str
) -> None:
    """Nobody sees it before it is committed, and whoever asked for the erasure is not told that nothing is left."""
    rows: list[tuple[str, dict[str, Any]]] = [
        ("approval.approvals", WAITS),
        ("agent.log", {"data": {"error": "It was person:ada."}}),
    ]
    with psycopg.connect(database_url) as connection:
        put(connection, rows)
        connection.commit()
        insert(connection, 9, *done)
        erasing = asyncio.create_task(ada_erased(database_url))
        await asyncio.to_thread(wait_for_a_blocked_statement, database_url)
        connection.commit()
        erased = await erasing
        assert ([as_it_was], [place]) == (connection.execute(said.encode()).fetchall(), erased.left)


async def test_an_erasure_keeps_no_vote_waiting(database_url: str) -> None:
    """One vote that hangs is not waited for, or all others would be: the erasure comes again."""
    with psycopg.connect(database_url) as connection:
        put(connection, [("approval.approvals", WAITS), ("agent.log", {"data": {"error": "It was person:ada."}})])
        connection.commit()
        insert(connection, 9, "approval.decisions", VOTE)
        erased = await ada_erased(database_url)
        connection.rollback()
    assert [BEING_WRITTEN] == erased.left


COUNTED = "SELECT tenant, CAST(t AS text) ~ 'v80', count(*) FROM TABLE AS t GROUP BY 1, 2 ORDER BY 1"
NAMED = {"requester": "visitor:v80"}
#: What names a visitor in a tenant, and the ids of each row.
OF_A_VISITOR: list[tuple[str, dict[str, Any], list[str]]] = [
    ("approval.approvals", EXPIRED | NAMED, ["approval_id", "call_id", "conversation_id"]),
    ("policy.verdicts", NAMED | {"effect": "deny"}, ["verdict_id", "call_id", "conversation_id"]),
    ("agent.log", {"data": {"text": "visitor:v80 left."}}, ["conversation_id"]),
    ("gateway.conversations", {"visitor": "v80", "holder": "agent"}, ["conversation_id"]),
]


async def test_a_visitor_is_erased_in_their_own_tenant_alone(database_url: str) -> None:
    """Another tenant's visitor of the same name is somebody else: what waits for them holds nothing up, and stays."""
    rows = [
        (table, {**given, "tenant": tenant, **dict.fromkeys(ids, f"{tenant}-{number}")})
        for tenant in ("acme", "rival")
        for number, (table, given, ids) in enumerate(OF_A_VISITOR)
    ]
    waits = ("approval.approvals", WAITS | NAMED | {"tenant": "rival", "approval_id": "w", "call_id": "w"})
    with psycopg.connect(database_url, autocommit=True) as connection:
        put(connection, [*rows, waits])
        database = Database(database_url, service="gateway", pool_size=1)
        erased = await erase(database, "acme/visitor:v80")
        await database.close()
        left = [
            (table, *row)
            for table, _, _ in OF_A_VISITOR
            for row in connection.execute(COUNTED.replace("TABLE", table).encode())
        ]
    assert ([], True) == (erased.left, bool(erased.pseudonym))
    assert [
        ("approval.approvals", "acme", False, 1),
        ("approval.approvals", "rival", True, 2),
        ("policy.verdicts", "acme", False, 1),
        ("policy.verdicts", "rival", True, 1),
        ("agent.log", "acme", False, 1),
        ("agent.log", "rival", True, 1),
        ("gateway.conversations", "rival", True, 1),
    ] == left


@pytest.mark.parametrize("name", ["visitor:v80", "/visitor:v80"])
async def test_a_visitor_without_a_tenant_is_nobody(database_url: str, name: str) -> None:
    """The name alone would be anybody's."""
    database = Database(database_url, service="gateway", pool_size=1)
    with pytest.raises(NoTenant, match=r"^a visitor is named with its tenant, such as acme/visitor:v77$"):
        await erase(database, name)
    await database.close()

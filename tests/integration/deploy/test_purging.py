"""The purge that is done by itself: what is too old goes, one process at a time does it, and the metrics say so."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from pydantic import ValidationError
from structlog.testing import capture_logs

from placet.contracts.chain import Checkpoint, leaf, seal
from placet.contracts.signing import Signer, create_keys, load_signer, load_verifier
from placet.contracts.topology import SERVICES
from placet.deploy.retention.duty import LAST, PURGED, PurgeGoesOnError, keep_of, purge_again_and_again, purge_now
from placet.deploy.retention.purging import BLOCKS, Keep, purge
from placet.deploy.retention.settings import RetentionSettings
from placet.runtime.database import Database
from tests.integration.deploy.test_erasing import put
from tests.support.ports import free_port
from tests.support.system import ROOT, until

LETTER = """
    INSERT INTO dead_letters.dead_letters VALUES
        (%s, 'acme', 'q', 's', 'r', 'm', 't', '[]', '[]', 'discarded', now(), now() - %s * interval '1 day', 'ada')
"""
LEFT = "SELECT dead_letter_id FROM dead_letters.dead_letters ORDER BY 1"

#: Written so many days ago.
ROW = """
    INSERT INTO {}.history (tenant, machine, subject_id, event, to_state, actor, at)
    VALUES (%s, 't', 's', 'e', 'x', 'a', now() - %s * interval '1 day')
"""
CHECKPOINT = "INSERT INTO gateway.checkpoints VALUES (%s, %s, %s, now() - %s * interval '1 day')"
#: What is kept of the history, in days, and older and younger ages.
KEEP, OLD, YOUNG = Keep(history=timedelta(days=100)), 200, 50


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A whole database with letters that were discarded 400, 364 and 10 days ago."""
    with psycopg.connect(database_url) as connection:
        for days in (400, 364, 10):
            connection.execute(LETTER, (f"letter-{days}", days))
    made = Database(database_url, service="gateway", pool_size=2)
    yield made
    await made.close()


def left(database: Database) -> list[str]:
    """Return the letters that are there."""
    with psycopg.connect(database.url) as connection:
        return [row[0] for row in connection.execute(LEFT)]


async def test_what_is_older_than_the_settings_say_goes_by_itself(database: Database, tmp_path: Path) -> None:
    """One round with the defaults deletes the letter of more than a year ago; the metrics say when, and how many."""
    create_keys(tmp_path)
    began, settings = time.time(), RetentionSettings(keys=tmp_path)
    purging = asyncio.create_task(purge_again_and_again(database, settings))

    async def ended() -> bool:
        return bool(next(iter(LAST.collect())).samples[0].value >= began)

    await until(ended, "a purge has ended")
    purging.cancel()
    await asyncio.wait({purging})
    assert ["letter-10", "letter-364"] == left(database)
    (letters,) = [
        each.value
        for each in next(iter(PURGED.collect())).samples
        if each.labels == {"kind": "dead_letters"} and each.name.endswith("_total")
    ]
    assert 1 == letters


async def test_two_never_purge_at_once(database: Database) -> None:
    """Who comes while another one purges is told so, and deletes nothing."""
    async with database.transaction() as other:
        await other.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('placet_purge'))"))
        with pytest.raises(PurgeGoesOnError):
            await purge_now(database, keep_of(RetentionSettings()), None)
    assert 3 == len(left(database))


def test_what_is_kept_for_ever_is_not_named() -> None:
    """A period of 0 days deletes nothing of its kind."""
    keep = keep_of(RetentionSettings(retention_jobs_days=0, retention_history_days=0))
    assert (None, None) == (keep.jobs, keep.history)


@pytest.mark.parametrize(("conversations", "history"), [(365, 364), (0, 365)])
def test_a_history_that_is_shorter_than_conversations_is_refused(conversations: int, history: int) -> None:
    """Receipts of what is kept need it."""
    with pytest.raises(ValidationError, match="PLACET_RETENTION_HISTORY_DAYS"):
        RetentionSettings(retention_conversations_days=conversations, retention_history_days=history)


def test_a_time_that_no_clock_reaches_is_refused() -> None:
    """At the start, in a line: a purge that cannot tell what is older deletes nothing, and says nothing."""
    with pytest.raises(ValidationError, match="less than or equal to 36500"):
        RetentionSettings(retention_history_days=99_999_999_999)


class House:
    """The histories of a database, a block of the chain each, and who seals them."""

    def __init__(self, database: Database, keys: Path) -> None:
        """Make its keys."""
        create_keys(keys)
        self.database, self.signer, self.verifier = database, load_signer(keys, "gateway"), load_verifier(keys)
        self.head: Checkpoint | None = None

    def write(self, days: int, tenant: str = "acme") -> None:
        """Write a row of each history so many days ago."""
        with psycopg.connect(self.database.url) as connection:
            for service in SERVICES:
                connection.execute(sql.SQL(ROW).format(sql.Identifier(service)), (tenant, days))

    def seal(self, upto: Mapping[str, int], days: int, signer: Signer | None = None) -> None:
        """Add a block up to these ids, sealed so many days ago."""
        at = datetime.now(UTC) - timedelta(days=days)
        self.head = seal(signer or self.signer, "acme", self.head, [leaf("x")], upto, at=at)
        self.put(self.head.token, self.head.number, days)

    def put(self, token: str, number: int, days: int) -> None:
        """Add a checkpoint as it is."""
        with psycopg.connect(self.database.url) as connection:
            connection.execute(CHECKPOINT, ("acme", number, token, days))

    def left(self, tenant: str = "acme") -> list[int]:
        """Return how many rows the history of each service has."""
        found = []
        with psycopg.connect(self.database.url) as connection:
            for service in SERVICES:
                count = sql.SQL("SELECT count(*) FROM {}.history WHERE tenant = %s").format(sql.Identifier(service))
                found += [row[0] for row in connection.execute(count, (tenant,))]
        return found

    def blocks(self) -> list[int]:
        """Return the numbers of the checkpoints that are there."""
        with psycopg.connect(self.database.url) as connection:
            return [row[0] for row in connection.execute("SELECT number FROM gateway.checkpoints ORDER BY number")]


@pytest.fixture
def house(database: Database, tmp_path: Path) -> House:
    """An empty history."""
    return House(database, tmp_path / "keys")


NEWEST = dict.fromkeys(SERVICES, 2**62)
ONE, TWO = dict.fromkeys(SERVICES, 1), dict.fromkeys(SERVICES, 2)


async def test_a_checkpoint_that_nobody_signed_purges_nothing(house: House, tmp_path: Path) -> None:
    """Whoever has the gateway's login can write one: no row goes by it, and the log says which block stays."""
    create_keys(tmp_path / "other")
    house.write(OLD)
    house.seal(NEWEST, OLD, load_signer(tmp_path / "other", "gateway"))
    house.put("a.b.c", 2, OLD)
    with capture_logs() as lines:
        gone = await purge(house.database, KEEP, house.verifier)
    assert ({"history": 0}, [1] * len(SERVICES), [1, 2]) == (gone, house.left(), house.blocks())
    assert [("retention.kept", "acme", 1, 2)] == [(e["event"], e["tenant"], e["first"], e["last"]) for e in lines]


async def test_what_a_checkpoint_names_is_no_part_of_a_statement(house: House) -> None:
    """A service that nobody knows is passed over, even in a block that the house has signed."""
    house.write(OLD)
    house.write(OLD, "third")
    known = f"{SERVICES[0]}.history WHERE tenant = 'third' AND :tenant <> '' AND 0 < :upto RETURNING id --"
    house.seal({known: 5}, OLD)
    assert {"history": 0} == await purge(house.database, KEEP, house.verifier)
    assert [1] * len(SERVICES) == house.left("third")


async def test_what_is_young_stays_whatever_its_block_says(house: House) -> None:
    """Rows that are younger do not go with an old block."""
    house.write(OLD)
    house.write(YOUNG)
    house.seal(ONE, OLD)
    house.seal(NEWEST, OLD)
    assert {"history": len(SERVICES)} == await purge(house.database, KEEP, house.verifier)
    assert ([1] * len(SERVICES), [2]) == (house.left(), house.blocks())


async def test_blocks_of_a_key_that_was_taken_back_go_with_a_later_one(house: House, tmp_path: Path) -> None:
    """The later one signs that they were before it; until it is old they stay."""
    create_keys(tmp_path / "before")
    house.write(OLD)
    house.write(OLD)
    house.seal(ONE, OLD, load_signer(tmp_path / "before", "gateway"))
    first = await purge(house.database, KEEP, house.verifier)
    house.seal(TWO, OLD)
    with capture_logs() as lines:
        second = await purge(house.database, KEEP, house.verifier)
    assert ({"history": 0}, {"history": 2 * len(SERVICES)}, []) == (first, second, lines)
    assert ([0] * len(SERVICES), [2]) == (house.left(), house.blocks())


async def test_many_blocks_go_in_several_transactions(house: House) -> None:
    """More than one of them takes, in whatever order, and among blocks that nobody verifies."""
    house.write(OLD)
    for number in range(1, 2 * BLOCKS + 1):
        house.put("a.b.c", number, OLD)
    house.head = seal(house.signer, "acme", None, [leaf("x")], ONE, at=datetime.now(UTC) - timedelta(days=OLD))
    house.head = replace(house.head, number=2 * BLOCKS)
    house.seal(ONE, OLD)
    assert {"history": len(SERVICES)} == await purge(house.database, KEEP, house.verifier)
    assert [2 * BLOCKS + 1] == house.blocks()


async def test_without_public_keys_the_history_stays(house: House) -> None:
    """Nobody knows then who has sealed it; it is said."""
    house.write(OLD)
    house.seal(ONE, OLD)
    with capture_logs() as lines:
        gone = await purge(house.database, KEEP)
    assert ({"history": 0}, ["retention.kept"]) == (gone, [each["event"] for each in lines])


def test_the_command_says_that_the_history_stays(database_url: str) -> None:
    """Where it was to go and no keys verify it, the exit code is 1."""
    command = [sys.executable, "-m", "placet.cli", "purge", "--conversations", "100", "--history", "100"]
    command += ["--database", database_url, "--keys", "nowhere"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (1, True) == (told.returncode, "the history stays" in told.stderr)


@pytest.mark.parametrize("hours", ["24", "0"])
async def test_the_purge_that_stays_tells_of_its_health_as_services_do(
    database_url: str, tmp_path: Path, hours: str
) -> None:
    """On the same port, with the same bounds: a request that announces a body is refused at once. SIGTERM ends it.

    Also where nothing is to be purged: what ended would be begun again and again.
    """
    port = free_port()
    create_keys(tmp_path)
    where = {"PLACET_HEALTH_HOST": "127.0.0.1", "PLACET_HEALTH_PORT": str(port), "PLACET_RETENTION_EVERY_HOURS": hours}
    command = ["-m", "placet.cli", "purge", "--stay", "--database", database_url, "--keys", str(tmp_path)]
    running = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=ROOT, env=os.environ | where)

    async def ready() -> bool:
        return await answer(port, b"GET /readyz HTTP/1.1\r\nhost: here\r\n\r\n") == b"HTTP/1.1 200"

    try:
        await until(ready, "the purge to be ready")
        refused = await answer(port, b"POST /metrics HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\n")
    finally:
        running.terminate()
        await running.wait()
    assert (b"HTTP/1.1 400", 0) == (refused, running.returncode)


async def answer(port: int, request: bytes) -> bytes:
    """Return how the answer to a request begins; nothing where nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        begin = await reader.readexactly(12)
        writer.close()
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""
    return begin


#: What became of a staged call, or of a commit: its execution, as what it ran, and the workspace it is in.
WAITING = [
    ("staged", "stage", "open", True),
    ("staged", "stage", "committing", True),
    ("staged", "stage", "committed", False),
    ("unknown", "staged_call", "committed", True),
    ("unknown", "commit", "committed", False),
    ("succeeded", "commit", "committed", False),
]


@pytest.mark.parametrize(("state", "mode", "workspace", "waits"), WAITING)
async def test_a_conversation_stays_while_something_of_it_waits(
    database: Database, state: str, mode: str, workspace: str, *, waits: bool
) -> None:
    """A staged change stays staged once its workspace has ended, and of a commit people resolve the calls."""
    long_ago, here = datetime.now(UTC) - timedelta(days=9), {"conversation_id": "c", "call_id": "k"}
    began = {"begun_at": long_ago, "finished_at": long_ago, "fence": 1}
    # In a workspace of another conversation, as what an attempt at a job has left.
    ended = None if workspace in {"open", "committing"} else long_ago
    place = {"conversation_id": "job", "workspace_id": "w", "state": workspace, "ended_at": ended, "entries": 1}
    told = {"decide": "turn", "kind": "call", "on_failure": "stop"}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("agent.conversations", {"conversation_id": "c", "created_at": long_ago, "queued": 0, "log_seq": 0}),
        (
            "agent.turns",
            {"conversation_id": "c", "turn_id": "t", "state": "finished", "ended_at": long_ago, "open_calls": 0},
        ),
        (
            "agent.tool_calls",
            here | {"turn_id": "t", "state": "answered", "result_kind": state, "answered_at": long_ago, "digest": "d"},
        ),
        ("executor.executions", here | {"state": state, "mode": mode} | began),
        ("executor.workspaces", place | {"commit_call_id": "other", "bytes": 0, "journal": "none"}),
        ("executor.workspace_entries", {"call_id": "k", "workspace_id": "w", "state": "waiting"} | told),
    ]
    with psycopg.connect(database.url, autocommit=True) as connection:
        put(connection, rows)
        await purge(database, Keep(conversations=timedelta()), None)
        left = connection.execute("SELECT count(*) FROM agent.conversations").fetchone()
    assert (int(waits),) == left

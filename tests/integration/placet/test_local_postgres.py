"""The PostgreSQL of the embedded footing: started again when it ends, stopped for good when it is told to."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import pq
from structlog.testing import capture_logs

from placet.contracts.errors import PlacetError
from placet.embedded import local_postgres
from placet.embedded.local_postgres import LocalPostgres, running_url
from tests.support.system import until


class Server:
    """A server, its folder and its URL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.postgres = LocalPostgres(folder)
        self.url = self.postgres.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """End it at once; return when it has ended."""
        process = psutil.Process(self.pid)
        process.kill()
        process.wait(30)

    def answer(self) -> int:
        """Ask it something."""
        with psycopg.connect(self.url) as connection:
            row = connection.execute("SELECT 42").fetchone()
        assert row
        return int(row[0])

    async def runs(self) -> bool:
        """Tell whether it runs."""
        return self.postgres.runs


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that runs."""
    made = Server(tmp_path / "postgres")
    yield made
    made.postgres.stop()


async def test_it_is_started_again_at_its_address_and_stopped_all_the_same(server: Server) -> None:
    """After a start of its own accord a stop leaves nothing behind."""
    async with server.postgres.kept_running():
        server.kill()
        assert server.postgres.runs is False
        await until(server.runs, "the server runs again", 60)
        assert 42 == server.answer()
    server.postgres.stop()
    assert (False, False) == (server.postgres.runs, (server.folder / "postmaster.pid").exists())


def test_a_copy_of_a_folder_has_a_server_of_its_own(server: Server, tmp_path: Path) -> None:
    """It was copied while its server ran, and names that one: what is done to the copy is nothing to the original."""
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
    copy = shutil.copytree(
        server.folder, tmp_path / "copy" / "postgres", ignore=shutil.ignore_patterns(".s.PGSQL.*[0-9]")
    )
    owner = server.folder.stat()
    for each in (copy, *copy.rglob("*")):
        os.chown(each, owner.st_uid, owner.st_gid)
    other = LocalPostgres(copy)
    before = running_url(copy)
    try:
        with psycopg.connect(other.start()) as connection:
            connection.execute("DROP TABLE IF EXISTS kept")
    finally:
        other.stop()
    with psycopg.connect(server.url) as connection:
        kept = connection.execute("SELECT number FROM kept").fetchall()
    assert (None, [(1,)], True) == (before, kept, server.postgres.runs)


async def test_a_start_that_fails_is_tried_until_it_works(server: Server) -> None:
    """That it ended is told once, each try that failed with its reason, and that it runs again."""
    settings = server.folder / "postgresql.conf"
    good = settings.read_text()
    with capture_logs() as logs:

        async def was_refused() -> bool:
            return any(line["event"] == "postgres.not_started" for line in logs)

        async def was_started() -> bool:
            return any(line["event"] == "postgres.started_again" for line in logs)

        async with server.postgres.kept_running():
            settings.write_text("this is no setting")
            server.kill()
            await until(was_refused, "a start fails", 60)
            settings.write_text(good)
            await until(was_started, "a start works", 60)
    events = [line["event"] for line in logs]
    refused = [event for event in events if event == "postgres.not_started"]
    assert ["postgres.ended", *refused, "postgres.started_again"] == events
    assert 42 == server.answer()


async def test_a_server_that_recovers_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its processes has crashed, another takes its time to end: until then it takes no connections."""
    monkeypatch.setattr(local_postgres, "START_PAUSES_SECONDS", ())
    children = {each.cmdline()[0]: each for each in psutil.Process(server.pid).children()}
    (slow,) = [each for name, each in children.items() if "walwriter" in name]
    (crashed,) = [each for name, each in children.items() if "checkpointer" in name]

    async def rejects() -> bool:
        return pq.PGconn.ping(server.url.encode()) == pq.Ping.REJECT

    slow.suspend()
    crashed.kill()
    await until(rejects, "the server takes no connections", 60)
    starting = asyncio.create_task(asyncio.to_thread(server.postgres.start))
    ended, _ = await asyncio.wait({starting}, timeout=0.5)
    slow.resume()
    assert (server.url, set()) == (await starting, ended)
    assert 42 == server.answer()


def test_what_was_told_to_stop_is_not_started_behind_our_back(server: Server) -> None:
    """A start that was on its way when the stop came finds that it is not wanted any more."""
    server.postgres.stop()
    with pytest.raises(PlacetError, match="told to stop"):
        server.postgres.start()
    assert server.postgres.runs is False


@pytest.mark.parametrize("left", [["PG_VERSION", "base"], []])
def test_a_folder_whose_making_was_killed_is_made_anew(tmp_path: Path, left: list[str]) -> None:
    """What initdb had written by then is thrown away; what was made whole is not."""
    folder = tmp_path / "postgres"
    folder.mkdir()
    (tmp_path / "postgres.making").touch()
    for name in left:
        (folder / name).write_text("16")
    made = Server(folder)
    with psycopg.connect(made.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept ()")
    made.postgres.stop()
    again = Server(folder)
    with psycopg.connect(again.url) as connection:
        found = connection.execute("SELECT to_regclass('kept')::text").fetchone()
    again.postgres.stop()
    assert (("kept",), ["postgres"]) == (found, [each.name for each in tmp_path.iterdir()])

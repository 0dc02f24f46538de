"""Back up, let things happen, restore: what ran after the backup does not run again unless a person asks for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from placet.cli.backup.programs import ProgramFailed, dump
from placet.contracts.receipts import load_keys, verify
from placet.contracts.signing import create_keys, key_id
from placet.deploy import keys
from tests.conftest import migrate
from tests.e2e.conftest import Stage
from tests.e2e.scenes import agents, rulebook
from tests.e2e.test_embedded import Embedded
from tests.e2e.test_receipts import receipt_of
from tests.support.people import Caller, Visitor, a_visitor, is_result, is_turn_end
from tests.support.ports import free_port
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import ROOT, System, until

pytestmark = pytest.mark.timeout(300)

SERVICES = ("gateway", "agent", "policy", "approval", "executor", "dead_letters")
DEPLOY = "deploy the shop"
#: What is in no broker yet.
SENT = """
    SELECT (SELECT count(*) FROM gateway.outbox) + (SELECT count(*) FROM approval.outbox)
        + (SELECT count(*) FROM policy.outbox)
"""


@pytest.fixture
def house(stage: Stage, databases: Databases, virtual_hosts: VirtualHosts, tmp_path: Path) -> Iterator[System]:
    """One of each service that a held call goes through."""
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        named = agents(tmp_path, f"http://127.0.0.1:{stage.model_port}")
        environment = stage.environment | {"PLACET_AGENTS": str(named), "CLERK_MODEL_KEY": "scripted-key"}
        made = System(tmp_path, database_url, rabbitmq_url, rulebook(tmp_path), environment)
        made.prepare()
        for name in SERVICES:
            made.add(name)
        yield made
        made.stop()


def placet(database_url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line on a database."""
    environment = os.environ | {"PLACET_DATABASE_URL": database_url}
    command = [sys.executable, "-m", "placet.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)


def restored(database_url: str, *arguments: str) -> dict[str, Any]:
    """Return what a restore says that it did."""
    done = placet(database_url, "restore", *arguments, "--json")
    assert 0 == done.returncode, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def call_of(system: System, visitor: Visitor) -> dict[str, Any]:
    """Return what the agent and the executor know of the one call of a conversation."""
    query = (
        "SELECT c.call_id, c.result_kind, e.state FROM agent.tool_calls AS c LEFT JOIN executor.executions AS e"
        " USING (call_id) WHERE c.conversation_id = %s"
    )
    with psycopg.connect(system.database_url) as connection:
        row = connection.execute(query, [visitor.conversation]).fetchone()
    return dict(zip(("call", "result", "execution"), row or (None, None, None), strict=True))


class Drill:
    """The conversations of a drill, each with its call at another place when the backup is made."""

    def __init__(self, system: System, stage: Stage) -> None:
        self.system, self.stage = system, stage
        self.frontend = Caller(system.url, system.key("chat", person="shop-frontend"))
        self.operator = Caller(system.url, system.key("decide", "admin", person="grace"))

    async def held(self) -> tuple[Visitor, dict[str, Any]]:
        """Return somebody whose call waits, and its card."""
        visitor = await a_visitor(self.frontend)
        await visitor.say(DEPLOY)
        return visitor, await visitor.see_card()

    def begun(self, visitor: Visitor) -> int:
        """Return how often the tool began."""
        return len(self.stage.begun("deploy", visitor.conversation))

    async def runs(self, visitor: Visitor, times: int) -> None:
        """Wait until the tool has begun so often."""

        async def has() -> bool:
            return self.begun(visitor) == times

        await until(has, f"it began {times} times")

    async def queued(self, queue: str, visitor: Visitor, card: dict[str, Any]) -> None:
        """Approve while the reader of `queue` is away, so that what follows stays in the broker."""
        name = {"executor.default": "executor-1", "approval.decisions": "approval-1"}[queue]
        self.system.processes[name].stop()
        await self.operator.decide(card, "approve")

        await self.system.counts(SENT, 0, "all is sent")
        assert visitor.conversation


async def test_what_ran_after_a_backup_is_asked_for_and_never_run_again(
    house: System, stage: Stage, tmp_path: Path
) -> None:
    """Approved before or after the backup, in the database or in the broker: nothing runs again by itself."""
    system = house
    await system.start()
    drill = Drill(system, stage)
    waiting, asked = await drill.held()
    decided, decision = await drill.held()
    permitted, permit = await drill.held()
    await drill.queued("executor.default", permitted, permit)
    folder = tmp_path / "backup"
    done = placet(system.database_url, "backup", str(folder))
    assert 0 == done.returncode, done.stderr
    # What follows is in no backup: two calls run, a permit and a decision stay in the broker.
    await system.start_again("executor-1")
    await drill.runs(permitted, 1)
    await drill.operator.decide(asked, "approve")
    await drill.runs(waiting, 1)
    await waiting.see_answer()
    later, card = await drill.held()
    await drill.queued("executor.default", later, card)
    await drill.queued("approval.decisions", decided, decision)
    refused = placet(system.database_url, "restore", str(folder), "--replace")
    assert (1, True) == (refused.returncode, "stop every service first" in refused.stderr)
    system.halt()
    assert "--replace" in placet(system.database_url, "restore", str(folder)).stderr
    told = restored(system.database_url, str(folder), "--replace")
    assert {"unknown": 1} == told["calls"]
    await system.start()

    async def is_unknown() -> bool:
        found = call_of(system, permitted)
        return (found["result"], found["execution"]) == ("unknown", "unknown")

    await until(is_unknown, "the call that was permitted is unknown")

    async def letters_came() -> bool:
        return system.count("SELECT count(*) FROM dead_letters.dead_letters WHERE reason LIKE '%the restore of%'") >= 2

    await until(letters_came, "what the broker kept is held for a person")
    assert [1, 1, 0, 0] == [drill.begun(each) for each in (waiting, permitted, decided, later)]
    keys = load_keys((system.folder / "keys" / "public.json").read_text())
    receipt = await receipt_of(drill.operator, call_of(system, permitted)["call"])
    assert [] == [each for each in verify(receipt, keys) if not each.holds]
    assert ("ran", 202) == await resolved(drill, call_of(system, permitted)["call"])
    seen = (await drill.operator.get(f"/v1/approvals/{asked['approval_id']}"))["restored_at"]
    # What was sent before, sent again, runs nothing: whoever says yes has seen that it may have run.
    assert 409 == (await drill.operator.decide(asked, "approve")).status_code
    assert 200 == (await drill.operator.decide(asked, "approve", restored_at=seen)).status_code
    await drill.runs(waiting, 2)
    assert [1, 0, 0] == [drill.begun(each) for each in (permitted, decided, later)]
    assert 200 == (await drill.operator.decide(decision, "deny")).status_code
    # The turn began before the restore: its model is not asked again. A new one goes on.
    assert "restored from a backup" in (await decided.see(is_turn_end))["data"]["reason"]
    await decided.say("was it deployed?")
    assert "Let me see." == await decided.see_answer()


async def test_all_who_must_agree_are_asked_again(house: System, stage: Stage, tmp_path: Path) -> None:
    """Who said yes before the backup did not know that the call may have run since."""
    await house.start()
    drill, other = Drill(house, stage), Caller(house.url, house.key("decide", person="hopper"))
    visitor = await a_visitor(drill.frontend)
    await visitor.say("deploy reviewed")
    card = await visitor.see_card()
    assert "pending" == (await other.decide(card, "approve")).json()["state"]
    assert 0 == placet(house.database_url, "backup", str(tmp_path / "backup")).returncode
    await drill.operator.decide(card, "approve")
    await drill.runs(visitor, 1)
    house.halt()
    assert {} == restored(house.database_url, str(tmp_path / "backup"), "--replace")["calls"]
    await house.start()
    shown = await other.get(f"/v1/approvals/{card['approval_id']}")
    waits = (await other.get("/v1/approvals?mine=true"))["items"]
    seen = {"restored_at": shown["restored_at"]}
    states = [(await each.decide(card, "approve", **seen)).json()["state"] for each in (drill.operator, other)]
    assert ([card["approval_id"]], ["pending", "approved"]) == ([each["id"] for each in waits], states)
    await drill.runs(visitor, 2)

    async def ended() -> bool:
        return bool(call_of(house, visitor)["result"] == "succeeded")

    await until(ended, "it ended")
    keys = load_keys((house.folder / "keys" / "public.json").read_text())
    receipt = await receipt_of(drill.operator, call_of(house, visitor)["call"])
    assert [] == [each for each in verify(receipt, keys) if not each.holds]
    house.assert_invariants()


async def test_a_call_that_nobody_was_asked_about_yet_is_resolved_by_a_person(
    house: System, stage: Stage, tmp_path: Path
) -> None:
    """The backup knows no approval: since then it may have had one, and run. Of a call without verdict nobody knows."""
    await house.start()
    drill = Drill(house, stage)
    for away, sent in (("approval-1", "policy.verdicts"), ("policy-1", "agent.tool_calls")):
        house.processes[away].stop()
        await (await a_visitor(drill.frontend)).say(DEPLOY)
        count = f"SELECT count(*) FROM {sent}"  # noqa: S608 - ours
        await house.counts(count, 1 + (away == "policy-1"), "the call is on its way")
    await house.counts(SENT, 0, "all is sent")
    assert 0 == placet(house.database_url, "backup", str(tmp_path / "backup")).returncode
    house.halt()
    told = restored(house.database_url, str(tmp_path / "backup"), "--replace")
    await house.start()
    answered = "SELECT count(*) FROM agent.tool_calls WHERE state = 'answered' AND result_kind = 'unknown'"
    await house.counts(answered, 2, "the conversations are told")
    unknown = [each["id"] for each in (await drill.operator.get("/v1/tool-calls?state=unknown"))["items"]]
    assert ({"unknown": 1, "untold": 1}, 1) == (told["calls"], len(unknown))
    assert ("ran", 202) == await resolved(drill, unknown[0])
    resolutions = "SELECT count(*) FROM executor.executions WHERE state = 'resolved'"
    await house.counts(resolutions, 1, "it is resolved")
    keys = load_keys((house.folder / "keys" / "public.json").read_text())
    receipt = await receipt_of(drill.operator, unknown[0])
    assert [] == [each for each in verify(receipt, keys) if not each.holds]
    house.assert_invariants()


async def resolved(drill: Drill, call: str) -> tuple[str, int]:
    """Say that a call ran, as somebody who has looked."""
    answer = await drill.operator.request("POST", f"/v1/tool-calls/{call}/resolution", json={"outcome": "ran"})
    return "ran", answer.status_code


def test_a_restore_says_that_the_erased_are_there_again(databases: Databases, tmp_path: Path) -> None:
    """What was erased after the backup is in it, and only people know whom that is about."""
    with databases.fresh(migrate) as database_url:
        assert 0 == placet(database_url, "backup", str(tmp_path / "b")).returncode
        told = placet(database_url, "restore", str(tmp_path / "b"), "--replace")
    assert 0 == told.returncode, told.stderr
    assert "whoever was erased since is there again: erase them anew (placet person erase ID)" in told.stdout


def test_a_backup_is_of_the_moment_in_which_it_looked(databases: Databases, tmp_path: Path) -> None:
    """What a restore empties after that is no backup: it fails, where it would have been one of nothing."""
    with databases.fresh(migrate) as url, psycopg.connect(url) as looking, psycopg.connect(url) as restoring:
        looking.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        (seen,) = looking.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        restoring.execute("DROP SCHEMA agent, executor CASCADE")
        restoring.commit()
        with pytest.raises(ProgramFailed):
            dump(url, tmp_path / "nothing", seen, own=False)


def test_two_backups_into_one_folder_are_one(databases: Databases, tmp_path: Path) -> None:
    """Made at once, one of them says that the folder is there, and the other one stays whole."""
    with databases.fresh(migrate) as database_url:
        with ThreadPoolExecutor() as both:
            made = list(both.map(lambda _: placet(database_url, "backup", str(tmp_path / "b")), range(2)))
        told = placet(database_url, "restore", str(tmp_path / "b"), "--replace")
    assert ([0, 1], 0) == (sorted(bool(each.returncode) for each in made), told.returncode), told.stderr
    assert ["b"] == [each.name for each in tmp_path.iterdir()]


def test_a_backup_without_keys_is_refused_before_anything_goes(databases: Databases, tmp_path: Path) -> None:
    """It is of a database alone: an embedded Placet would go on with other keys."""
    with databases.fresh(migrate) as database_url:
        assert 0 == placet(database_url, "backup", str(tmp_path / "b")).returncode
    told = placet("", "restore", str(tmp_path / "b"), "--data", str(tmp_path / "data"))
    assert (1, True, False) == (told.returncode, "no signing keys" in told.stderr, (tmp_path / "data").exists())


def test_keys_that_cannot_be_read_are_refused_before_anything_goes(databases: Databases, tmp_path: Path) -> None:
    """The data folder's or the backup's: found out afterwards, the database would be another's than the keys."""
    with databases.fresh(migrate) as database_url:
        assert 0 == placet(database_url, "backup", str(tmp_path / "b")).returncode
    create_keys(tmp_path / "b" / "keys")
    (tmp_path / "data" / "keys").mkdir(parents=True)
    (tmp_path / "data" / "keys" / "public.json").write_text("{")
    told = placet("", "restore", str(tmp_path / "b"), "--data", str(tmp_path / "data"))
    assert (1, True) == (told.returncode, "holds no signing keys" in told.stderr), told.stderr
    assert not (tmp_path / "data" / "postgres").exists()


NO_INDEX = """
    CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$;
    CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION public.refuse()
"""


def test_a_backup_that_was_cut_off_is_refused_before_anything_goes(databases: Databases, tmp_path: Path) -> None:
    """The file is read to its end first: what is there stays, and can be backed up."""
    with databases.fresh(migrate) as database_url:
        assert 0 == placet(database_url, "backup", str(tmp_path / "b")).returncode
        with (tmp_path / "b" / "database.dump").open("r+b") as file:
            file.truncate(file.seek(0, os.SEEK_END) - 1_000)
        refused = placet(database_url, "restore", str(tmp_path / "b"), "--replace")
        kept = placet(database_url, "backup", str(tmp_path / "again"))
    assert (1, 0) == (refused.returncode, kept.returncode), refused.stderr + kept.stderr


def test_what_a_restore_left_in_the_middle_becomes_no_new_house(databases: Databases, tmp_path: Path) -> None:
    """The database had no room in the middle: nothing migrates it then, and another restore brings all of it back."""
    folder = str(tmp_path / "b")
    with databases.fresh(migrate) as database_url:
        assert 0 == placet(database_url, "backup", folder).returncode
        with psycopg.connect(database_url) as connection:
            connection.execute(NO_INDEX)
        failed, migrated = placet(database_url, "restore", folder, "--replace"), placet(database_url, "migrate")
        with psycopg.connect(database_url) as connection:
            connection.execute("DROP EVENT TRIGGER refuse")
        again = placet(database_url, "restore", folder, "--replace")
        whole = placet(database_url, "migrate")
    assert [1, 1, 0, 0] == [each.returncode for each in (failed, migrated, again, whole)]
    assert ("no room" in failed.stderr, "has not come to its end" in migrated.stderr) == (True, True)


async def test_an_embedded_placet_is_backed_up_while_it_runs_and_restored(tmp_path: Path) -> None:
    """The call that waited waits again, what was approved since is not run again, and a stolen key stays taken back."""
    embedded = Embedded(tmp_path / "data", free_port(), {})
    embedded.data.mkdir()
    embedded.start()
    try:
        visitor = await a_visitor(embedded.caller())
        await visitor.say("create a payment link over 299 TRY")
        card = await visitor.see_card()
        folder = tmp_path / "backup"
        assert 0 == placet("", "backup", str(folder), "--data", str(embedded.data)).returncode
        await embedded.caller().decide(card, "approve")
        await visitor.see(is_result("create_pay_link"))
        assert "another process runs" in placet("", "restore", str(folder), "--data", str(embedded.data)).stderr
        embedded.stop()
        stolen = key_id(embedded.data / "keys" / "policy.private.json")
        for restarted in (False, True):
            keys.rotate(embedded.data / "keys", "policy", restarted=restarted)
        keys.forget(embedded.data / "keys", stolen)
        told = restored("", str(folder), "--data", str(embedded.data), "--replace")
        assert ({}, [stolen]) == (told["calls"], told["keys_taken_back"])
        embedded.start()
        again = await embedded.caller().get("/v1/approvals?state=pending")
        assert [card["approval_id"]] == [each["id"] for each in again["items"]]
        seen = {"restored_at": again["items"][0]["restored_at"]}
        assert 200 == (await embedded.caller().decide(card, "approve", **seen)).status_code
    finally:
        embedded.stop()

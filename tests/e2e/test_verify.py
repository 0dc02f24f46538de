"""`placet verify` on running installations: what it says where all holds, and where one thing does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from placet.gateway.identity.bootstrap import create_key
from tests.e2e.test_embedded import Embedded, placet, running
from tests.support.system import ROOT, SHOP_RULEBOOK

pytestmark = pytest.mark.timeout(240)

UNSEATED = "a decision by the conversation's token and by the requester, whom the rule does not seat"
SAY = ("--say", "a payment link over 20 EUR please")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet."""
    with running(tmp_path_factory.mktemp("verified")) as made:
        yield made


def _verify(house: Embedded, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report of the command."""
    ended = placet(house, "verify", "--json", *arguments)
    assert "" == ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def test_everything_is_tried_and_holds(house: Embedded) -> None:
    """With a call that waits and the database, no attack is left out and none succeeds."""
    code, report = _verify(house, *SAY, "--database", house.database_url)
    assert (0, 0, []) == (code, report["broken"], [row for row in report["rows"] if row["outcome"] != "held"])
    kinds = {row["kind"] for row in report["rows"]}
    assert {"arguments", "double", "expire", "forge", "race", "reach", "replay", "rows", "rules", "tenant"} == kinds


@pytest.mark.parametrize(("denials", "double"), [(1, "1 of 10 counted"), (2, "one of the 2 that decide")])
def test_four_eyes_are_tried(tmp_path: Path, denials: int, double: str) -> None:
    """Where the requester may not decide, a colleague's key tries the digests, and the requester's vote is refused."""
    book = yaml.safe_load(SHOP_RULEBOOK.read_text())
    terms = {"approvers": ["operators"], "approvals": 2, "exclude": ["requester"], "denials": denials}
    next(rule for rule in book["rules"] if rule["name"] == "payment-links")["approval"] = terms
    (tmp_path / "rulebook.yaml").write_text(yaml.safe_dump(book))
    with running(tmp_path, "--rulebook", str(tmp_path / "rulebook.yaml")) as house:
        seen = _verify(house, *SAY, "--database", house.database_url)
        alone = _verify(house, *SAY)
    assert (0, []) == (seen[0], [row for row in seen[1]["rows"] if row["outcome"] != "held"])
    found = {row["attack"]: row["found"] for row in seen[1]["rows"]}
    assert (double, "2 times 403") == (found["one decision 10 times at once"], found[UNSEATED])
    without = {row["attack"]: row["outcome"] for row in alone[1]["rows"]}
    assert ("not tried", "held") == (without["a decision about something else than was shown"], without[UNSEATED])


def test_a_kill_of_ones_own_is_survived(house: Embedded) -> None:
    """Everything ends in the middle of an answer and comes back: one message, one turn, and a call that waits once."""
    assert house.running is not None
    command = f"kill -9 {house.running.pid}"
    with ThreadPoolExecutor(1) as threads:
        told = threads.submit(_verify, house, *SAY, "--kill", command, "--kill", "exit 3")
        house.running.wait(timeout=60)
        assert house.running.stdout is not None
        house.running.stdout.close()
        house.start()
        code, report = told.result()
    killed = [(row["outcome"], row["attack"], row["found"]) for row in report["rows"] if row["kind"] == "kill"]
    assert [
        ("held", command, "1 message, 1 turn, at rest"),
        ("held", f"what waits after: {command}", "denied twice: 200, 409"),
        ("not tried", "exit 3", "it ended with 3: "),
    ] == killed
    # What was asked for and could not be tried is no success.
    assert (3, 0) == (code, report["broken"])


def test_it_leaves_nothing_that_waits_or_works(house: Embedded) -> None:
    """Its conversations have ended, no key of its making works, and no call of its ran."""
    _verify(house, *SAY, "--database", house.database_url)
    with psycopg.connect(house.database_url) as database:
        row = database.execute(
            "SELECT (SELECT count(*) FROM gateway.conversations WHERE tenant LIKE 'verify-%' AND ended_at IS NULL),"
            " (SELECT count(*) FROM gateway.api_keys WHERE person LIKE 'verify%' AND revoked_at IS NULL),"
            " (SELECT count(*) FROM executor.executions WHERE tenant LIKE 'verify-%')"
        ).fetchone()
    assert (0, 0, 0) == row


def _alive(house: Embedded) -> list[str]:
    """Return the tenants of keys of the command's making that still work."""
    with psycopg.connect(house.database_url) as database:
        keys = "SELECT tenant FROM gateway.api_keys WHERE tenant LIKE 'verify-%' AND revoked_at IS NULL ORDER BY 1"
        return [row[0] for row in database.execute(keys)]


def test_no_key_outlives_a_gateway_that_is_not_there(house: Embedded) -> None:
    """Keys are made before the first request, and taken back where they are kept."""
    command = [sys.executable, "-m", "placet.cli", "verify", "--database", house.database_url]
    nowhere = {**os.environ, "PLACET_URL": "http://127.0.0.1:1", "PLACET_KEY": "placet_0_x"}
    ended = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, timeout=60, check=False)
    assert (1, []) == (ended.returncode, _alive(house))


#: Runs Python in its place, with the signal that tests may have been told to ignore.
NOT_UNDER_NOHUP = """import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_command_whose_terminal_is_closed_leaves_no_key(house: Embedded, number: int) -> None:
    """Whatever ends it before its end, its conversation is ended and its keys are revoked."""
    command = [sys.executable, "-c", NOT_UNDER_NOHUP, "-m", "placet.cli", "verify", *SAY]
    command += ["--database", house.database_url, "--kill", f"kill -{int(number)} $PPID; sleep 1"]
    key = (house.data / "admin.key").read_text().strip()
    environment = {**os.environ, "PLACET_URL": f"http://127.0.0.1:{house.port}", "PLACET_KEY": key}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    with psycopg.connect(house.database_url) as database:
        open_ones = "SELECT count(*) FROM gateway.conversations WHERE tenant LIKE 'verify-%' AND ended_at IS NULL"
        row = database.execute(open_ones).fetchone()
    assert (128 + number, [], (0,)) == (ended.returncode, _alive(house), row)


def test_keys_that_an_earlier_run_left_are_taken_back(house: Embedded) -> None:
    """Those of a day ago; a run that goes on, and a customer whose tenant has such a name, keep theirs."""
    with psycopg.connect(house.database_url) as database:
        for tenant, person in (("verify-00000000", "verify"), ("verify-1", "verify"), ("verify-11111111", "verify")):
            create_key(database, tenant=tenant, person=person, scopes=["chat"])
        database.execute(
            "UPDATE gateway.api_keys SET created_at = now() - interval '2 days'"
            " WHERE tenant IN ('verify-00000000', 'verify-1')"
        )
    _verify(house, "--database", house.database_url)
    left = _alive(house)
    with psycopg.connect(house.database_url) as database:
        database.execute("DELETE FROM gateway.api_keys WHERE tenant IN ('verify-1', 'verify-11111111')")
    assert ["verify-1", "verify-11111111"] == left


def test_it_needs_no_database(house: Embedded) -> None:
    """By the API alone all holds that can be tried so, in a conversation of the key's own tenant."""
    code, report = _verify(house, *SAY)
    others = [row["attack"] for row in report["rows"] if row["outcome"] != "held"]
    assert (0, ["a conversation's id with the key of another tenant"]) == (code, others)


def test_a_key_that_only_chats_tries_what_it_can(house: Embedded) -> None:
    """Whoever may not decide breaks nothing either: what waits is withdrawn with its conversation."""
    made = placet(house, "keys", "create", "--person", "bob", "--scope", "chat", "--json")
    ended = placet(house, "verify", "--json", *SAY, key=json.loads(made.stdout)["key"])
    rows = json.loads(ended.stdout)["rows"]
    assert (0, "0 wait") == (ended.returncode, rows[-1]["found"])
    assert {"expire", "forge", "double", "rules", "tenant"} == {
        row["kind"] for row in rows if row["outcome"] == "not tried"
    }


def test_what_was_not_tried_is_said(house: Embedded) -> None:
    """Where the agent asks for no call, nobody claims that decisions hold; for people it is a table."""
    ended = placet(house, "verify")
    assert (0, True) == (ended.returncode, "0 broken, 4 not tried" in ended.stdout)
    assert "no call waits in the conversation" in ended.stdout


def test_a_planted_violation_is_a_row_and_an_exit_code(house: Embedded) -> None:
    """A message that was committed and never sent is told with the row, and the command fails."""
    with psycopg.connect(house.database_url) as database:
        database.execute(
            "INSERT INTO agent.outbox (id, exchange, key, batch, mandatory, events, created_at, due_at)"
            " VALUES ('planted', 'x', 'y', 1, true, '{}', now() - interval '1 day', 'infinity')"
        )
    try:
        code, report = _verify(house, "--database", house.database_url)
    finally:
        with psycopg.connect(house.database_url) as database:
            database.execute("DELETE FROM agent.outbox WHERE id = 'planted'")
    broken = [(row["attack"], row["found"][:7]) for row in report["rows"] if row["outcome"] == "broken"]
    assert (1, [("outboxes_are_drained", "planted")]) == (code, broken)


def test_a_database_that_is_not_there_is_one_line(house: Embedded) -> None:
    """A wrong URL is a mistake of who typed it, and no row."""
    ended = placet(house, "verify", "--database", "postgresql://nobody@127.0.0.1:1/x")
    assert (2, 1) == (ended.returncode, ended.stderr.count("\n"))


def test_a_message_that_is_not_taken_is_no_hole(house: Embedded) -> None:
    """An empty --say is a mistake of who typed it: nothing is said to be broken."""
    ended = placet(house, "verify", "--say", "")
    assert (2, True) == (ended.returncode, "the message of --say is not taken" in ended.stderr)


@pytest.mark.parametrize(("scope", "code"), [("", 401), ("decide", 403)])
def test_a_key_that_opens_nothing_is_no_hole(house: Embedded, scope: str, code: int) -> None:
    """A wrong key, or one that may not chat, is said in one line: what it cannot see shows nothing of tenants."""
    key = "placet_abc_def"
    if scope:
        made = placet(house, "keys", "create", "--person", "cleo", "--scope", scope, "--json")
        key = json.loads(made.stdout)["key"]
    ended = placet(house, "verify", *SAY, "--database", house.database_url, key=key)
    told = f"no conversation can be opened: {code}" in ended.stderr
    assert (1, 1, True, "") == (ended.returncode, ended.stderr.count("\n"), told, ended.stdout)
    with psycopg.connect(house.database_url) as database:
        left = "SELECT FROM gateway.api_keys WHERE tenant LIKE 'verify-%' AND revoked_at IS NULL"
        assert [] == database.execute(left).fetchall()


def test_the_database_is_named_once(house: Embedded) -> None:
    """Beside --data another one would not be asked: that is said."""
    ended = placet(house, "verify", "--data", str(house.data), "--database", house.database_url)
    assert (2, True) == (ended.returncode, "one of --data and --database" in ended.stderr)


def test_who_may_only_read_asks_the_rows_alone(house: Embedded) -> None:
    """A replica, or a role without rights to write, tells of the invariants; the rest is in the key's own tenant."""
    code, report = _verify(
        house, *SAY, "--database", f"{house.database_url}&options=-cdefault_transaction_read_only%3Don"
    )
    others = [row["attack"] for row in report["rows"] if row["outcome"] != "held"]
    assert (0, ["a throw-away tenant", "a conversation's id with the key of another tenant"]) == (code, others)


def test_the_folder_alone_is_enough(house: Embedded) -> None:
    """Its address and its administrator's key are read there, wherever the command is called and whatever is set."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    command = [sys.executable, "-m", "placet.cli", "verify", "--json", *SAY, "--data", str(house.data)]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ("", 0) == (ended.stderr, json.loads(ended.stdout)["broken"])

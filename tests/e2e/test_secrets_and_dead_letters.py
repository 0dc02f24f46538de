"""What nobody may see is seen nowhere, and a call whose event was buried still gets its one answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from placet.deploy.migrations.views import views
from tests.e2e.conftest import Stage
from tests.e2e.scenes import OTHER_SECRET, SECRET
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.system import ROOT, System, until

#: Tables of what people are shown, beside the views.
_SHOWN = ("agent.log", "notifier.deliveries")


def placet(system: System, key: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as somebody with a key."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    environment = kept | {"PLACET_URL": system.url, "PLACET_KEY": key}
    command = [sys.executable, "-m", "placet.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def stored_for_people(system: System) -> str:
    """Return everything that the gateway may read and that services keep to be shown."""
    tables = [sql.Identifier("read", name) for name in views()]
    tables += [sql.Identifier(*name.split(".")) for name in _SHOWN]
    with psycopg.connect(system.database_url) as connection:
        found = [connection.execute(sql.SQL("SELECT * FROM {}").format(table)).fetchall() for table in tables]
    return str(found)


async def told_about(visitor: Visitor, operator: Caller, card: dict[str, Any]) -> str:
    """Return what the API and the page tell about a conversation and its calls."""
    approval = f"/v1/approvals/{card['approval_id']}"
    calls = {item["data"]["call_id"] for item in visitor.items if item["type"] == "tool_call"}
    paths = ["/v1/approvals", approval, visitor.path, *(f"/v1/tool-calls/{call_id}" for call_id in calls)]
    answers = [await operator.request("GET", path) for path in paths]
    pages = [await operator.request("GET", path) for path in (f"/ui/approvals/{card['approval_id']}", "/ui/approvals")]
    assert {200} == {answer.status_code for answer in (*answers[:2], *answers[3:], *pages)}
    told = [item for item in visitor.items if item["data"].get("role") != "user"]
    return json.dumps(told) + "".join(answer.text for answer in (*answers, *pages))


async def test_a_redacted_value_is_shown_nowhere(
    frontend: Caller, operator: Caller, stage: Stage, system: System
) -> None:
    """The tools get it; streams, API, page, command line, views, cards and logs show the rest of the call without."""
    visitor = await a_visitor(frontend)
    await visitor.say("charge my card")
    card = await visitor.see_card()
    shown = placet(system, operator.token, "approvals", "show", card["approval_id"])
    assert {"amount": 299, "card": {"holder": "ada", "number": "•••"}} == card["arguments"]
    assert (0, True) == (shown.returncode, "•••" in shown.stdout)
    assert (await operator.decide(card, "approve")).status_code == 200
    assert await visitor.see_answer() == "That was that."
    told = await told_about(visitor, operator, card)
    seen = {"told": told, "cli": shown.stdout, "stored": stored_for_people(system), "logs": system.logs()}
    assert [] == [where for where, text in seen.items() if SECRET in text]
    lines = [*stage.begun("check_pin", visitor.conversation), *stage.begun("charge_card", visitor.conversation)]
    assert [SECRET, SECRET] == [line.get("pin") or line["number"] for line in lines]


@pytest.mark.parametrize(
    ("number", "runs_with"), [("•••", SECRET), (OTHER_SECRET, OTHER_SECRET)], ids=["left", "replaced"]
)
async def test_a_redacted_value_stays_unseen_when_a_call_is_edited(
    frontend: Caller, operator: Caller, stage: Stage, system: System, number: str, runs_with: str
) -> None:
    """An approver changes what they see, and leaves the hidden value or writes another: the tool alone gets it."""
    visitor = await a_visitor(frontend)
    await visitor.say("charge my card")
    card = await visitor.see_card()
    arguments = {"amount": 199, "card": {"holder": "ada", "number": number}}
    body = {"decision": "edit", "digest": card["digest"], "arguments": arguments, "reason": "a discount"}
    path = f"/v1/approvals/{card['approval_id']}"
    answer = await operator.request("POST", f"{path}/decisions", json=body)
    assert (200, "approved") == (answer.status_code, answer.json()["state"])
    await visitor.see_answer()
    shown = placet(system, operator.token, "approvals", "show", card["approval_id"])
    seen = {
        "told": await told_about(visitor, operator, card),
        "cli": shown.stdout,
        "stored": stored_for_people(system),
        "logs": system.logs(),
        "answer": answer.text,
    }
    assert [] == [(where, each) for where, text in seen.items() for each in (SECRET, OTHER_SECRET) if each in text]
    assert OTHER_SECRET not in json.dumps(stage.model_log()["requests"])
    whole = await operator.get(path)
    assert {"amount": 199, "card": {"holder": "ada", "number": "•••"}} == whole["records"]["executed"]["arguments"]
    (edit,) = whole["edits"]
    changed = {"/amount"} | ({"/card/number"} if number != "•••" else set())
    assert changed == {each["at"] for each in edit["differences"]}
    (line,) = stage.begun("charge_card", visitor.conversation)
    assert runs_with == line["number"]


@pytest.fixture
def broken_approval(system: System) -> Iterator[None]:
    """Make the approval service fail on one tool's calls."""
    with psycopg.connect(system.database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE approval.approvals ADD CONSTRAINT broken CHECK (tool <> 'open_vault')")
        yield
        connection.execute("ALTER TABLE approval.approvals DROP CONSTRAINT broken")


@pytest.mark.usefixtures("broken_approval")
async def test_a_discarded_dead_letter_ends_its_call(frontend: Caller, stage: Stage, system: System) -> None:
    """A call whose event nobody could handle waits until its dead letter is given up; then its turn goes on."""
    key = system.key("admin", "decide", person="grace")
    visitor = await a_visitor(frontend)
    await visitor.say("open the vault")
    letters: list[dict[str, Any]] = []

    async def buried() -> bool:
        found = json.loads(placet(system, key, "dead-letters", "list", "--json").stdout)["items"]
        letters[:] = [letter for letter in found if letter["queue"] == "approval.requests"]
        return bool(letters)

    await until(buried, "the request is buried")
    (letter,) = letters
    shown = placet(system, key, "dead-letters", "show", letter["id"]).stdout
    discarded = placet(system, key, "dead-letters", "discard", letter["id"])
    assert (0, True, False) == (discarded.returncode, visitor.conversation in shown, SECRET in shown)
    result = (await visitor.see(is_result("open_vault")))["data"]
    assert ("error", "failed") == (result["status"], result["kind"])
    assert "The call did not run" in result["error"]
    assert await visitor.see_answer() == "The vault stays closed."
    call = await Caller(system.url, key).get(f"/v1/tool-calls/{result['call_id']}")
    history = [(change["machine"], change["event"], change["actor"]) for change in call["history"]]
    assert ("failed", True) == (call["kind"], ("dead-letter", "discard", "person:grace") in history)
    assert ([], False) == (stage.begun("open_vault", visitor.conversation), SECRET in system.logs())
    assert placet(system, key, "dead-letters", "replay", letter["id"]).returncode == 1

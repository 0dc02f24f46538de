"""Stage from outside, on both footings: what waits together, what people decide once, and what they are never asked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import ANY

import httpx
import psycopg
import pytest
import yaml
from openai import AsyncOpenAI
from playwright.async_api import Browser, expect

from placet.contracts.canonical import canonical_text, tree_digest
from placet.contracts.ids import new_id
from placet.contracts.receipts import load_keys, verify
from placet.gateway.web.render import set_up_was_run
from tests.conftest import migrate
from tests.e2e.test_backups import placet, restored
from tests.e2e.test_embedded import Embedded
from tests.e2e.test_receipts import PARTS, receipt_of, verified
from tests.support.audit import audited
from tests.support.http import http_client
from tests.support.model_script import Answer, Call, Rule, Script, scripted_model
from tests.support.node_client import node_client
from tests.support.orphans import end_with_parent
from tests.support.people import Caller, Visitor, a_visitor, is_card
from tests.support.ports import free_port
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import ROOT, System, running, until

pytestmark = pytest.mark.timeout(300)

_ROOM = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
BOOK = {
    "description": "Book a room.",
    "category": "unsafe_api",
    "function": "tests.e2e.ledger_tools:book_room",
    "parameters": _ROOM,
}
RULE = {
    "name": "bookings",
    "match": {"tool": "book_room"},
    "effect": "stage",
    "reason": "They wait with the rest of the plan.",
    "stage": {"decide": "turn", "on_failure": "stop"},
}
ON_REQUEST = RULE | {
    "name": "bookings-on-request",
    "when": 'arguments.room == "green"',
    "stage": {"decide": "on_request", "on_failure": "stop"},
}


def _call(name: str, /, **arguments: Any) -> Call:
    return Call(name=name, arguments=arguments)


def _writes(*names: str) -> tuple[Call, ...]:
    return tuple(_call("write_file", path=f"{name}.txt", content=f"Notes on {name}.\n") for name in names)


def _after_commit(contains: str, text: str) -> Rule:
    return Rule(after_results_of=("commit_changes",), results_contain=contains, answer=Answer(text=text))


_PLAN = ("write_file", "write_file", "book_room")
SCRIPT = Script(
    rules=(
        Rule(user="book it later", after_results_of=("book_room",), answer=Answer(text="It waits for your word.")),
        Rule(user="book it later", answer=Answer(calls=(_call("book_room", room="green"),))),
        Rule(user="plan the week", after_results_of=_PLAN, answer=Answer(text="That is the plan.")),
        Rule(user="look at it", answer=Answer(calls=(_call("read_file", path="monday.txt"),))),
        Rule(user="no such room", after_results_of=_PLAN[1:], answer=Answer(text="That is the plan.")),
        Rule(after_results_of=("read_file",), results_contain="Notes on more", answer=Answer(text="It reads well.")),
        Rule(after_results_of=("write_file",), answer=Answer(calls=(_call("read_file", path="more.txt"),))),
        _after_commit('"result": "denied"', "Nothing of it happened."),
        _after_commit('"result": "pending_confirmation"', "It waits for you."),
        _after_commit("left_out", "Some of it was left out."),
        _after_commit('"state": "conflicted"', "Others were faster."),
        _after_commit('"state": "partly_committed"', "Not all of it worked."),
        _after_commit('"result": "succeeded"', "All of it is done."),
        _after_commit("", "It failed."),
        Rule(
            user="plan the week",
            answer=Answer(text="I plan.", calls=(*_writes("monday", "tuesday"), _call("book_room", room="blue"))),
        ),
        Rule(user="no such room", answer=Answer(calls=(*_writes("monday"), _call("book_room", room="none")))),
        Rule(user="write more", answer=Answer(calls=_writes("more"))),
        Rule(user="in capitals", after_results_of=("edit_file", "book_room"), answer=Answer(text="It is changed.")),
        Rule(
            user="in capitals",
            answer=Answer(
                calls=(
                    _call("edit_file", path="monday.txt", old="monday", new="Monday"),
                    _call("book_room", room="red"),
                )
            ),
        ),
        Rule(
            user='"tool": "commit_changes", "result": "succeeded"', answer=Answer(text="All of it is done after all.")
        ),
    ),
    otherwise=Answer(text="I have no line for that."),
)


class Footing(Protocol):
    """A Placet that a test can cut the power of."""

    @property
    def keys(self) -> Path:
        """Where its public keys are."""
        ...

    @property
    def database_url(self) -> str:
        """Where its database is, for its owner."""
        ...

    def operator(self) -> Caller:
        """Return a person who may decide."""
        ...

    def frontend(self) -> Caller:
        """Return a chat product's backend."""
        ...

    def approver(self) -> Caller:
        """Return a person who chats, and may decide there."""
        ...

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what its database says."""
        ...

    async def power_cut(self) -> None:
        """End everything at once, and start it again."""
        ...


@dataclass
class Place:
    """What stands around it: the model, the files, the ledger of what the tools did."""

    folder: Path
    model_port: int = field(default_factory=free_port)

    @property
    def files(self) -> Path:
        """Where the agent's files are."""
        return self.folder / "files"

    @property
    def environment(self) -> dict[str, str]:
        """Settings that make a Placet play here."""
        return {
            **scripted_model(self.model_port),
            "PLACET_EXECUTOR_POOLS": "*",
            "PLACET_EXECUTOR_LEASE_SECONDS": "3",
            "PLACET_EXECUTOR_SWEEP_SECONDS": "0.5",
            "PLACET_TEST_LEDGER": str(self.folder / "ledger.jsonl"),
            "FILES_ROOT": str(self.files),
        }

    def booked(self, conversation: str) -> list[str]:
        """Return the rooms that were booked for a conversation, in order."""
        path = self.folder / "ledger.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line["room"] for line in lines if line["conversation"] == conversation]

    def written(self) -> dict[str, str]:
        """Return the files that are really there."""
        return {path.name: path.read_text() for path in sorted(self.files.glob("*.txt"))}

    def rulebook(self) -> Path:
        """Write the coder's rulebook with a room to book, and return where."""
        content = yaml.safe_load((ROOT / "examples" / "coder" / "rulebook.yaml").read_text())
        content["tools"] |= {"book_room": BOOK}
        content["rules"] += [ON_REQUEST, RULE]
        path = self.folder / "rulebook.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        return path


@dataclass
class OnRabbitMQ:
    """Every service a process of its own."""

    system: System

    @property
    def keys(self) -> Path:
        """Where its public keys are."""
        return self.system.folder / "keys"

    @property
    def database_url(self) -> str:
        """Where its database is, for its owner."""
        return self.system.database_url

    def operator(self) -> Caller:
        """Return a person who may decide."""
        return Caller(self.system.url, self.system.key("decide", person="grace"))

    def frontend(self) -> Caller:
        """Return a chat product's backend."""
        return Caller(self.system.url, self.system.key("chat", person="shop-frontend"))

    def approver(self) -> Caller:
        """Return a person who chats, and may decide there."""
        return Caller(self.system.url, self.system.key("chat", "decide", person="grace"))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what its database says."""
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query.encode()).fetchall()

    async def power_cut(self) -> None:
        """End everything at once, and start it again."""
        for process in self.system.processes.values():
            process.kill()
        for process in self.system.processes.values():
            process.start()
        for process in self.system.processes.values():
            await until(process.ready, f"{process.name} is ready again")


@dataclass
class InOneProcess:
    """`placet up`."""

    embedded: Embedded

    @property
    def keys(self) -> Path:
        """Where its public keys are."""
        return self.embedded.data / "keys"

    @property
    def database_url(self) -> str:
        """Where its database is, for its owner."""
        return self.embedded.database_url

    def operator(self) -> Caller:
        """Return the administrator."""
        return self.embedded.caller()

    frontend = approver = operator

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what its database says."""
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query.encode()).fetchall()

    async def power_cut(self) -> None:
        """End everything at once, and start it again."""
        self.embedded.kill()
        # Here, and not in a thread: what a thread has started ends with it.
        _start(self.embedded)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The scripted model as a process, and an empty folder of files."""
    made = Place(tmp_path_factory.mktemp("place"))
    made.files.mkdir()
    script = made.folder / "script.json"
    script.write_text(SCRIPT.model_dump_json())
    command = [
        sys.executable,
        "-m",
        "tests.support.model_server",
        "--port",
        str(made.model_port),
        "--script",
        str(script),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(command, cwd=ROOT, env=environment, preexec_fn=end_with_parent)  # noqa: PLW1509 - it only asks the kernel for a signal

    async def answers() -> bool:
        try:
            async with http_client() as client:
                return (await client.get(f"http://127.0.0.1:{made.model_port}/_log")).is_success
        except httpx.HTTPError:
            return False

    try:
        asyncio.run(until(answers, "the model answers"))
        yield made
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()


@pytest.fixture(scope="module", params=["embedded", "rabbitmq"])
def footing(
    request: pytest.FixtureRequest,
    place: Place,
    databases: Databases,
    virtual_hosts: VirtualHosts,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Footing]:
    """A running Placet on either footing."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        arguments = ("--rulebook", str(place.rulebook()))
        embedded = Embedded(folder / "data", free_port(), place.environment, arguments)
        embedded.data.mkdir()
        _start(embedded)
        yield InOneProcess(embedded)
        embedded.stop()
        return
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(folder, database_url, rabbitmq_url, place.rulebook(), place.environment)
        with running(made, {"gateway": 1, "agent": 2, "policy": 1, "approval": 1, "executor": 2}):
            yield OnRabbitMQ(made)


def _start(embedded: Embedded) -> None:
    """Start it; its PostgreSQL may take longer than its library waits where everything else runs too."""
    for _ in range(3):
        if embedded.start():
            return
        assert embedded.running is not None
        assert embedded.running.stdout is not None
        embedded.running.wait(60)
        embedded.running.stdout.close()
    raise AssertionError((embedded.data.parent / "embedded.log").read_text()[-2000:])


@pytest.fixture(autouse=True)
def no_files(place: Place) -> None:
    """Each test finds an empty folder."""
    for path in place.files.glob("*.txt"):
        path.unlink()


def outcomes(visitor: Visitor) -> dict[str, str]:
    """Return what the log says at last of each staged call: path or room -> outcome."""
    calls = {item["data"]["call_id"]: item["data"] for item in visitor.items if item["data"].get("arguments")}
    ends = [item["data"] for item in visitor.items if item["type"] == "tool_call" and item["data"].get("outcome")]
    named = {call_id: call["arguments"].get("path") or call["arguments"].get("room") for call_id, call in calls.items()}
    return {named[end["call_id"]]: end["outcome"] for end in ends}


def tree_of(footing: Footing, entries: list[str]) -> str:
    """Return the digest of a part of a workspace, as anybody may compute it from what is shown of it."""
    rows = footing.rows("SELECT call_id, digest FROM read.workspace_entries")
    digests = {str(call_id): str(digest) for call_id, digest in rows}
    return tree_digest([(call_id, digests[call_id]) for call_id in entries])


async def leave_out(footing: Footing, card: dict[str, Any], index: int, **other: Any) -> httpx.Response:
    """Approve a card without one of its entries."""
    arguments = dict(card["arguments"])
    arguments["entries"] = [each for at, each in enumerate(arguments["entries"]) if at != index]
    arguments["tree_digest"] = tree_of(footing, arguments["entries"])
    return await footing.operator().decide(card, "edit", arguments=arguments | other)


@asynccontextmanager
async def planned(footing: Footing, text: str = "plan the week") -> AsyncIterator[tuple[Visitor, dict[str, Any]]]:
    """Let the agent plan; yield its visitor and the card."""
    visitor = await a_visitor(footing.frontend())
    await visitor.say(text)
    yield visitor, await visitor.see_card()


async def test_a_plan_is_decided_once_and_done_in_order(footing: Footing, place: Place) -> None:
    """D1: two writes and a call wait together; one card, one approval, and only then anything happens."""
    async with planned(footing) as (visitor, card):
        staged = [item["data"] for item in visitor.items if item["data"].get("kind") == "staged"]
        assert ("Apply 2 changes and run 1 call", 3) == (card["summary"], len(staged))
        assert ({}, []) == (place.written(), place.booked(visitor.conversation))
        assert "othing has happened yet" in json.dumps(staged[0]["data"])
        assert (await footing.operator().decide(card, "approve")).status_code == 200
        assert "All of it is done." == await visitor.see_answer()
    assert {"monday.txt": "Notes on monday.\n", "tuesday.txt": "Notes on tuesday.\n"} == place.written()
    assert ["blue"] == place.booked(visitor.conversation)
    assert {"monday.txt": "committed", "tuesday.txt": "committed", "blue": "succeeded"} == outcomes(visitor)


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_whatever_was_staged_has_a_receipt(footing: Footing, tmp_path: Path, decision: str) -> None:
    """The commit, the changes and the call that ran with it, or did not: each receipt holds, and so does the chain."""
    async with planned(footing) as (visitor, card):
        assert (await footing.operator().decide(card, decision)).status_code == 200
        await visitor.see_answer()
    names = {item["data"]["call_id"]: item["data"]["tool"] for item in visitor.items if item["type"] == "tool_call"}
    receipts = {call_id: await receipt_of(footing.operator(), call_id) for call_id in names}
    found = [verified(each, footing.keys, tmp_path) for each in receipts.values()]
    (commit,) = [each for call_id, each in receipts.items() if names[call_id] == "commit_changes"]
    (booking,) = [each for call_id, each in receipts.items() if names[call_id] == "book_room"]
    assert [(0, PARTS)] * 4 == found
    assert decision == "deny" or (booking["permit"], booking["execution"]["state"]) == (ANY, "succeeded")
    assert commit["result"]["kind"] == ("succeeded" if decision == "approve" else "denied")
    assert [] == audited(footing.database_url, footing.keys)["problems"]


async def test_a_denied_plan_is_thrown_away(footing: Footing, place: Place) -> None:
    """Nothing is written or booked, the model is told so, and the workspace is gone."""
    async with planned(footing) as (visitor, card):
        assert (await footing.operator().decide(card, "deny", "not this week")).status_code == 200
        assert "Nothing of it happened." == await visitor.see_answer()
    assert ({}, []) == (place.written(), place.booked(visitor.conversation))
    assert {"discarded"} == set(outcomes(visitor).values())

    async def discarded() -> bool:
        query = f"SELECT state FROM read.workspaces WHERE conversation_id = '{visitor.conversation}'"  # noqa: S608
        return [("discarded",)] == footing.rows(query)

    await until(discarded, "the workspace is discarded")


async def test_one_entry_is_left_out(footing: Footing, place: Place) -> None:
    """An edit to fewer entries: what is left is done, the rest never was, and the log says which."""
    async with planned(footing) as (visitor, card):
        answer = await leave_out(footing, card, 1)
        assert answer.status_code == 200, answer.text
        assert "Some of it was left out." == await visitor.see_answer()
    assert (["monday.txt"], ["blue"]) == (list(place.written()), place.booked(visitor.conversation))
    assert {"monday.txt": "committed", "tuesday.txt": "left_out", "blue": "succeeded"} == outcomes(visitor)


async def test_people_see_the_plan_and_what_became_of_it(footing: Footing, place: Place) -> None:
    """What waits, its diffs and its end are shown over HTTP; whoever leaves an entry out names it, and no digest."""
    async with planned(footing) as (visitor, card):
        waiting = await visitor.get(f"{visitor.path}/workspace")
        ids = [each["id"] for each in waiting["entries"]]
        (diff,) = (await visitor.get(f"{visitor.path}/workspace/entries/{ids[0]}/diff"))["changes"]
        assert ("proposed", 2, 1, card["arguments"]["entries"]) == (
            waiting["state"],
            waiting["created"],
            waiting["calls"],
            ids,
        )
        assert "+Notes on monday." in diff["diff"]
        again = await visitor.request("POST", f"{visitor.path}/workspace/propose")
        assert (409, "urn:placet:problem:asked-already") == (again.status_code, again.json()["type"])
        answer = await footing.operator().decide(card, "edit", leave_out=[ids[1]])
        assert answer.status_code == 200, answer.text
        assert "Some of it was left out." == await visitor.see_answer()
        ended = await visitor.get(f"{visitor.path}/workspace")
    assert ["monday.txt"] == list(place.written())
    assert ("committed", ["committed", "left_out", "succeeded"]) == (
        ended["state"],
        [each["state"] for each in ended["entries"]],
    )
    again = await visitor.request("POST", f"{visitor.path}/workspace/propose")
    assert 409 == again.status_code


async def test_what_expires_is_told_and_asked_about_no_more(footing: Footing, place: Place) -> None:
    """Two plans whose time is over, one that people look at and one that waits for a word: both end, and say so."""
    later = await a_visitor(footing.frontend())
    await later.say("book it later")
    assert "It waits for your word." == await later.see_answer()
    async with planned(footing) as (visitor, card):
        over = "UPDATE executor.workspaces SET expires_at = now() WHERE state = 'open' RETURNING conversation_id"
        assert {(visitor.conversation,), (later.conversation,)} == set(footing.rows(over))
        for each in (visitor, later):
            await each.see(lambda item: item["data"].get("outcome") == "discarded")
        assert 409 == (await footing.operator().decide(card, "approve")).status_code
        assert "It failed." == await visitor.see_answer()
    assert ({}, [], {"green": "discarded"}) == (place.written(), place.booked(later.conversation), outcomes(later))
    assert {"discarded"} == set(outcomes(visitor).values())
    assert 409 == (await later.request("POST", f"{later.path}/workspace/propose")).status_code
    await later.say("book it later")
    assert "It waits for your word." == await later.see_answer()


@pytest.mark.parametrize("major", ["6", "7"])
async def test_one_entry_is_left_out_with_the_ai_sdk(footing: Footing, place: Place, major: str) -> None:
    """Its transport names it in each post of the page: what is written before and behind the answer is taken too."""
    caller, chat_id = footing.approver(), new_id()
    async with node_client("ai_sdk.mjs", major, caller.url, caller.token, chat_id) as page:
        asked = await page.do("send", text="plan the week")
        assert asked["error"] is None
        parts = [part for part in asked["messages"][-1]["parts"] if part.get("state") == "approval-requested"]
        staged = parts[0]["approval"]["descriptor"]["staged"]
        await page.do("leaveOut", id=parts[0]["approval"]["id"], entries=[staged[1]["call_id"]])
        before = await page.do("send", text="hello")
        done = await page.do("answer", approved=True)
        behind = await page.do("send", text="thank you")
    assert [("ready", None)] * 3 == [(said["status"], said["error"]) for said in (before, done, behind)]
    conversation = (await caller.get(f"/v1/conversations/{chat_id}"))["id"]
    assert (["monday.txt"], ["blue"]) == (list(place.written()), place.booked(conversation))


async def test_one_entry_is_left_out_with_ag_ui(footing: Footing, place: Place) -> None:
    """The interrupt's own schema names the entries, and the answer's payload those that do not run."""
    caller, thread = footing.approver(), new_id()
    async with node_client("ag_ui.mjs", caller.url, caller.token, thread) as page:
        asked = await page.do("say", text="plan the week")
        (interrupt,) = asked["interrupts"]
        entries = interrupt["responseSchema"]["properties"]["leave_out"]["items"]["enum"]
        done = await page.do("answer", payload={"approved": True, "leave_out": [entries[1]]})
    assert (None, "RUN_FINISHED", []) == (done["error"], done["events"][-1]["type"], done["noted"])
    conversation = (await caller.get(f"/v1/conversations/{thread}"))["id"]
    assert (["monday.txt"], ["blue"]) == (list(place.written()), place.booked(conversation))


async def test_one_entry_is_left_out_with_copilotkit(footing: Footing, place: Place) -> None:
    """What its interrupt state resolves with names the entries that do not run."""
    caller, thread = footing.approver(), new_id()
    async with node_client("copilotkit.mjs", caller.url, caller.token, thread) as page:
        asked = await page.do("say", text="plan the week")
        (interrupt,) = asked["interrupts"]
        entries = interrupt["responseSchema"]["properties"]["leave_out"]["items"]["enum"]
        done = await page.do("resolve", payload={"approved": True, "leave_out": [entries[1]]})
    assert ([], []) == (done["errors"], done["interrupts"])
    conversation = (await caller.get(f"/v1/conversations/{thread}"))["id"]
    assert (["monday.txt"], ["blue"]) == (list(place.written()), place.booked(conversation))


async def test_one_entry_is_left_out_with_openai(footing: Footing, place: Place) -> None:
    """The request's metadata names it, beside the answer that approves."""
    caller = footing.approver()
    async with AsyncOpenAI(base_url=f"{caller.url}/v1", api_key=caller.token) as client:
        asked = await client.responses.create(model="default", input="plan the week")
        (request,) = [item for item in asked.output if item.type == "mcp_approval_request"]
        entries = json.loads(request.arguments)["entries"]
        done = await client.responses.create(
            model="default",
            previous_response_id=asked.id,
            input=[{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}],
            metadata={"placet_leave_out": entries[1]},
        )
    assert ("Some of it was left out.", ["monday.txt"]) == (done.output_text, list(place.written()))


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_what_was_staged_goes_with_its_conversation(footing: Footing, verb: str) -> None:
    """Nothing of it waits once the commit is decided, so that a purge takes it, and an erasure can."""
    async with planned(footing) as (visitor, card):
        assert (await footing.operator().decide(card, verb)).status_code == 200
        await visitor.see_answer()

    async def is_gone() -> bool:
        done = placet(footing.database_url, "purge", "--conversations", "0", "--json")
        assert 0 == done.returncode, done.stderr
        here = f"conversation_id = '{visitor.conversation}'"
        return [] == footing.rows(f"SELECT FROM agent.conversations WHERE {here}")

    await until(is_gone, "the conversation is gone")


async def test_what_changed_underneath_is_a_conflict(footing: Footing, place: Place) -> None:
    """Somebody else wrote the file between card and vote: nothing is applied, and no call is made."""
    async with planned(footing) as (visitor, card):
        (place.files / "tuesday.txt").write_text("Somebody else's.\n")
        assert (await footing.operator().decide(card, "approve")).status_code == 200
        assert "Others were faster." == await visitor.see_answer()
    assert ({"tuesday.txt": "Somebody else's.\n"}, []) == (place.written(), place.booked(visitor.conversation))
    assert "conflicted" == outcomes(visitor)["tuesday.txt"]


async def test_a_call_that_fails_is_said(footing: Footing, place: Place) -> None:
    """The files stand, the call did not do it, and the model knows which."""
    async with planned(footing, "no such room") as (visitor, card):
        assert (await footing.operator().decide(card, "approve")).status_code == 200
        assert "Not all of it worked." == await visitor.see_answer()
    assert (["monday.txt"], {"monday.txt": "committed", "none": "failed"}) == (list(place.written()), outcomes(visitor))


async def test_another_tree_than_was_shown_is_refused(footing: Footing, place: Place) -> None:
    """Whoever makes up the digest of what is left is told so; nothing is decided, and nothing that waits is lost."""
    async with planned(footing) as (visitor, card):
        answer = await leave_out(footing, card, 1, tree_digest="0" * 64)
        assert (400, "urn:placet:problem:another-tree") == (answer.status_code, answer.json()["type"])
        assert (await footing.operator().decide(card, "approve")).status_code == 200
        assert "All of it is done." == await visitor.see_answer()
    assert ["monday.txt", "tuesday.txt"] == sorted(place.written())


async def test_a_workspace_of_others_is_not_committed(footing: Footing, place: Place) -> None:
    """Neither entries nor the workspace of another conversation get into a card by an edit of it."""
    async with planned(footing) as (theirs, their_card), planned(footing) as (mine, card):
        stolen = their_card["arguments"]
        answers = [
            await leave_out(footing, card, 1, workspace_id=stolen["workspace_id"]),
            await leave_out(footing, card, 1, entries=stolen["entries"]),
            await leave_out(footing, card, 1, entries=[*card["arguments"]["entries"], *stolen["entries"]]),
        ]
        assert [400] * 3 == [answer.status_code for answer in answers]
        for visitor, each in ((theirs, their_card), (mine, card)):
            assert (await footing.operator().decide(each, "deny")).status_code == 200
            assert "Nothing of it happened." == await visitor.see_answer()
    assert {} == place.written()


async def test_what_is_staged_after_the_card_is_not_in_the_vote(footing: Footing, place: Place) -> None:
    """The agent goes on and stages more while people look: they approve what they saw, and are asked about the rest."""
    async with planned(footing) as (visitor, card):
        await visitor.say("write more")
        assert "It reads well." == await visitor.see_answer()
        assert (await footing.operator().decide(card, "approve")).status_code == 200
        again = (await visitor.see(lambda item: is_card(item) and item["data"]["approval_id"] != card["approval_id"]))[
            "data"
        ]
        assert (["monday.txt", "tuesday.txt"], 1) == (list(place.written()), len(again["arguments"]["entries"]))
        assert (await footing.operator().decide(again, "approve")).status_code == 200
        await visitor.see_answer()
    assert "more.txt" in place.written()


@pytest.mark.parametrize("decision", ["deny", "leave out"])
async def test_what_is_staged_after_the_card_outlives_a_no(footing: Footing, place: Place, decision: str) -> None:
    """Only an edit of a file that people did not let through goes with it; they are asked about all else."""
    async with planned(footing) as (visitor, card):
        await visitor.say("in capitals")
        assert "It is changed." == await visitor.see_answer()
        if decision == "deny":
            assert (await footing.operator().decide(card, "deny", "not this week")).status_code == 200
        else:
            assert (await leave_out(footing, card, 0)).status_code == 200
        again = (await visitor.see(lambda item: is_card(item) and item["data"]["approval_id"] != card["approval_id"]))[
            "data"
        ]
        assert 1 == len(again["arguments"]["entries"])
        assert (await footing.operator().decide(again, "approve")).status_code == 200
        await visitor.see(lambda item: item["data"].get("outcome") == "succeeded" and "red" in outcomes(visitor))
    denied = decision == "deny"
    assert ([] if denied else ["tuesday.txt"], ["red"] if denied else ["blue", "red"]) == (
        list(place.written()),
        place.booked(visitor.conversation),
    )
    assert {
        "monday.txt": "discarded" if denied else "left_out",
        "tuesday.txt": "discarded" if denied else "committed",
        "blue": "discarded" if denied else "succeeded",
        "red": "succeeded",
    } == outcomes(visitor)


async def test_a_power_cut_in_the_middle_loses_nothing(footing: Footing, place: Place) -> None:
    """The card still waits, is approved once, and everything is done once."""
    async with planned(footing) as (visitor, card):
        await footing.power_cut()
        path = f"/v1/approvals?state=pending&conversation={visitor.conversation}"
        (waiting,) = (await footing.operator().get(path))["items"]
        assert waiting["id"] == card["approval_id"]
        assert (await footing.operator().decide(card, "approve")).status_code == 200
        assert "All of it is done." == await visitor.see_answer()
    assert (["monday.txt", "tuesday.txt"], ["blue"]) == (list(place.written()), place.booked(visitor.conversation))


async def test_arguments_of_the_card_are_the_tree(footing: Footing) -> None:
    """What people decide about names the entries and their digest, canonical, and anybody can check it."""
    async with planned(footing) as (visitor, card):
        arguments = card["arguments"]
        assert tree_of(footing, arguments["entries"]) == arguments["tree_digest"]
        assert canonical_text(arguments) == canonical_text(json.loads(json.dumps(arguments)))
        assert (await footing.operator().decide(card, "deny")).status_code == 200
        await visitor.see_answer()


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
@pytest.mark.parametrize("verb", ["propose", "discard"])
async def test_a_person_decides_when_on_the_chat_page(
    footing: Footing, place: Place, browser: Browser, verb: str
) -> None:
    """What waits on request is proposed or thrown away there; a decision made elsewhere takes it off the page."""
    visitor = await a_visitor(footing.frontend())
    await visitor.say("book it later")
    assert "It waits for your word." == await visitor.see_answer()
    page = await (await browser.new_context(locale="en-GB")).new_page()
    page.set_default_timeout(30_000)
    url = visitor.url
    form: dict[str, str | float | bool] = {"key": footing.frontend().token}
    await page.context.request.post(f"{url}/sign-in", form=form, headers={"origin": url}, max_redirects=0)
    await page.goto(f"{url}/?conversation={visitor.conversation}")
    workspace = page.locator(".workspace")
    await expect(workspace).to_contain_text("1 call")
    if verb == "propose":
        await page.get_by_role("button", name="Propose changes").click()
        await expect(workspace).to_contain_text("Waiting for a decision.")
        await page.reload()
        await expect(workspace).to_contain_text("Waiting for a decision.")
        assert (await footing.operator().decide(await visitor.see_card(), "approve")).status_code == 200
    else:
        await page.locator(".discard > summary").click()
        await page.get_by_role("button", name="Discard all of it").click()
    await expect(workspace).to_have_count(0)
    await visitor.see(lambda item: bool(item["data"].get("outcome")))
    assert {"green": "succeeded" if verb == "propose" else "discarded"} == outcomes(visitor)
    assert (["green"] if verb == "propose" else []) == place.booked(visitor.conversation)
    await page.context.close()


@pytest.fixture
def alone(place: Place, databases: Databases, virtual_hosts: VirtualHosts, tmp_path: Path) -> Iterator[System]:
    """One of each service, not started."""
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(tmp_path, database_url, rabbitmq_url, place.rulebook(), place.environment)
        made.prepare()
        for name in ("gateway", "agent", "policy", "approval", "executor", "dead_letters"):
            made.add(name)
        yield made
        made.stop()


async def test_a_restore_tells_what_was_staged(alone: System, tmp_path: Path) -> None:
    """The answers were on their way when the backup was made: what waits in the workspace was not refused."""
    await alone.start()
    footing, folder = OnRabbitMQ(alone), str(tmp_path / "backup")
    visitor = await a_visitor(footing.frontend())
    alone.processes["executor-1"].stop()
    await visitor.say("plan the week")
    await alone.counts(_all_gone("policy"), 3, "the permits are in the broker")
    alone.processes["agent-1"].stop()
    await alone.start_again("executor-1")
    await alone.counts(_all_gone("executor"), 3, "the answers are in the broker")
    assert 0 == placet(alone.database_url, "backup", folder).returncode
    alone.halt()
    told = restored(alone.database_url, folder, "--replace")
    await alone.start()
    answered = "SELECT count(*) FROM agent.tool_calls WHERE state = 'answered'"
    await alone.counts(answered, 3, "every call has its answer")
    kinds = footing.rows("SELECT DISTINCT result_kind FROM agent.tool_calls")
    entries = footing.rows("SELECT DISTINCT state FROM executor.workspace_entries")
    assert ({"told": 3}, [("staged",)], [("waiting",)]) == (told["calls"], kinds, entries)
    alone.assert_invariants()


async def test_what_a_restore_does_not_know_a_person_resolves(alone: System, tmp_path: Path) -> None:
    """Permits were in the broker, of tools that had never run: since then they may have run, or been committed."""
    await alone.start()
    footing, folder = OnRabbitMQ(alone), str(tmp_path / "backup")
    visitors = [await a_visitor(footing.frontend()) for _ in range(2)]
    alone.processes["executor-1"].stop()
    await visitors[0].say("plan the week")
    await visitors[1].say("look at it")
    await alone.counts(_all_gone("policy"), 4, "the permits are in the broker")
    assert 0 == placet(alone.database_url, "backup", folder).returncode
    alone.halt()
    told = restored(alone.database_url, folder, "--replace")
    await alone.start()
    answered = "SELECT count(*) FROM agent.tool_calls WHERE result_kind = 'unknown' AND state = 'answered'"
    await alone.counts(answered, 4, "every call is unknown")
    admin = Caller(alone.url, alone.key("decide", "admin", person="grace"))
    unknown = [each["id"] for each in (await admin.get("/v1/tool-calls?state=unknown"))["items"]]
    said = [
        (await admin.request("POST", f"/v1/tool-calls/{each}/resolution", json={"outcome": "did_not_run"})).status_code
        for each in unknown
    ]
    resolved = "SELECT count(*) FROM executor.executions WHERE state = 'resolved'"
    await alone.counts(resolved, 4, "every call is resolved")
    assert ({"unknown": 4}, [202] * 4) == (told["calls"], said)
    keys = load_keys((alone.folder / "keys" / "public.json").read_text())
    receipts = [await receipt_of(admin, each) for each in unknown]
    assert [] == [each for receipt in receipts for each in verify(receipt, keys) if not each.holds]
    alone.assert_invariants()


def _all_gone(sender: str) -> str:
    """Return what counts the calls that a service has decided about, less what it has not sent."""
    made = {"policy": "policy.verdicts", "executor": "executor.executions"}[sender]
    return f"SELECT (SELECT count(*) FROM {made}) - (SELECT count(*) FROM {sender}.outbox)"  # noqa: S608 - ours

"""`placet approvals list` against a running gateway: every filter of the inbox."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from placet.cli.approvals import app
from placet.contracts.messages import GrantWish
from tests.builders import a_call
from tests.support.gateway import House, an_approval_row, insert

OLD = datetime.now(UTC) - timedelta(hours=2)


def waits(house: House, name: str, call: dict[str, Any], **changes: object) -> None:
    """Put an approval into the read view whose id is `name`."""
    rule = {"approvers": ["operators"]} | changes.pop("rule", {})  # type: ignore[operator]
    row = an_approval_row(a_call(**call), approval_id=name, approval_rule=rule, **changes)
    insert(house.url, "approvals", **row)


@pytest.fixture
def many(house: House) -> None:
    """Approvals that differ in everything that can be asked."""
    waits(house, "link", {"tool": "create_pay_link", "conversation_id": "acme_c-1"}, summary="Create a payment link?")
    waits(house, "deploy", {"tool": "deploy", "agent": "robot"}, summary="Deploy the shop?", created_at=OLD)
    waits(house, "run", {"tool": "run"}, category="unsafe_exec", summary="Run the payment job?")
    waits(house, "others", {"tool": "run"}, rule={"approvers": ["person:zoe"]}, summary="Run the job of others?")
    waits(house, "over", {"tool": "deploy"}, state="denied", decided_by="person:bob", summary="Deploy it?")


async def placet_approvals(house: House, *arguments: str) -> Result:
    """Run the command as ada, beside the gateway."""
    environment = {"PLACET_URL": house.gateways[0].url, "PLACET_KEY": house.key("decide", person="ada")}
    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=environment)


@pytest.mark.parametrize("to", ["bob", "person:bob"])
async def test_a_place_is_given_to_a_person_by_either_name(house: House, to: str) -> None:
    """Their id alone is enough: nobody but a person can get a place."""
    waits(house, "link", {})
    result = await placet_approvals(house, "delegate", "link", to)
    assert (0, ["person:bob"]) == (result.exit_code, [claims.to for claims in house.approvers.claims])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((), {"link", "deploy", "run", "others"}),
        (("--mine",), {"link", "deploy", "run"}),
        (("--state", "denied"), {"over"}),
        (("--tool", "deploy"), {"deploy"}),
        (("--agent", "robot"), {"deploy"}),
        (("--conversation", "c-1"), {"link"}),
        (("--category", "unsafe_exec"), {"run"}),
        (("--older-than", "3600"), {"deploy"}),
        (("--q", "payment -job"), {"link"}),
        (("--search", '"payment job"'), {"run"}),
        (("--mine", "--tool", "run", "--q", "job"), {"run"}),
        (("--mine", "--tool", "run", "--agent", "robot"), set()),
    ],
    ids=lambda part: " ".join(sorted(part)),
)
@pytest.mark.usefixtures("many")
async def test_the_terminal_has_every_filter(house: House, asked: tuple[str, ...], expected: set[str]) -> None:
    """Alone and together, as JSON."""
    result = await placet_approvals(house, "list", *asked, "--json")
    assert (0, expected) == (result.exit_code, {item["id"] for item in json.loads(result.stdout)["items"]})


@pytest.mark.usefixtures("many")
async def test_the_terminal_leads_to_the_next_page(house: House) -> None:
    """The table ends with the cursor of what follows, and the last page with none."""
    first = await placet_approvals(house, "list", "--mine", "--limit", "2")
    cursor = first.stdout.replace("\n", "").partition("--cursor ")[2].strip()
    second = await placet_approvals(house, "list", "--mine", "--limit", "2", "--cursor", cursor, "--json")
    page = json.loads(second.stdout)
    assert (["deploy"], None) == ([item["id"] for item in page["items"]], page["next"])


async def test_a_filter_that_makes_no_sense_is_told_in_one_line(house: House) -> None:
    """The gateway's words, code 1, and no list."""
    result = await placet_approvals(house, "list", "--category", "dangerous")
    assert (1, "", True) == (result.exit_code, result.stdout, "category" in result.stderr)


@pytest.mark.usefixtures("many")
async def test_several_are_decided_at_once_in_the_terminal(house: House) -> None:
    """Each by the digest that was seen, with its own outcome; one that fails is told by the exit code too."""
    digest = a_call().digest
    listed = json.loads((await placet_approvals(house, "list", "--json")).stdout)["items"]
    cards = [f"{item['id']}={item['digest']}" for item in listed if item["id"] in {"link", "run"}]
    result = await placet_approvals(house, "batch", "deny", *cards, f"gone={digest}", "--reason", "no", "--json")
    outcomes = {item["id"]: item["status"] for item in json.loads(result.stdout)["items"]}
    assert (1, {"link": 200, "run": 200, "gone": 404}) == (result.exit_code, outcomes)
    assert {("deny", "no")} == {(claims.verb, claims.reason) for claims in house.approvers.claims}
    bare = await placet_approvals(house, "batch", "deny", "link")
    assert (2, True) == (bare.exit_code, "ID=DIGEST" in bare.stderr)


@pytest.mark.usefixtures("many")
async def test_the_terminal_says_how_far_a_grant_goes(house: House) -> None:
    """Scope, bounds, uses and seconds are sent as they were asked for."""
    terms = ("--scope", "tenant", "--bound", "amount", "--bound", "count", "--uses", "3", "--seconds", "60")
    await placet_approvals(house, "approve", "link", "--allow-from-now-on", *terms)
    (claims,) = house.approvers.claims
    wish = GrantWish(scope="tenant", bounds=["amount", "count"], uses=3, expires_after_seconds=60)
    assert wish == claims.grant
    alone = await placet_approvals(house, "approve", "run", "--uses", "3")
    assert (2, True) == (alone.exit_code, "--allow-from-now-on" in alone.stderr)


async def at_a_terminal(house: House, answer: bytes, *arguments: str) -> tuple[int, str]:
    """Run the command at a terminal, type an answer where it asks; return its code and what stood there."""
    environment = {**os.environ, "PLACET_URL": house.gateways[0].url, "PLACET_KEY": house.key("decide", person="ada")}
    ours, theirs = pty.openpty()
    command = (sys.executable, "-m", "placet.cli", "approvals", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment | {"TERM": "dumb", "COLUMNS": "120"}
    )
    os.close(theirs)
    shown = await asyncio.to_thread(_talk, ours, answer)
    return await process.wait(), shown


def _talk(terminal: int, answer: bytes) -> str:
    shown = b""
    # A terminal whose other end is closed cannot be read.
    with os.fdopen(terminal, "r+b", buffering=0) as file, suppress(OSError):
        while chunk := file.read(4096):
            shown += chunk
            if answer and shown.rstrip().endswith((b"[y/N]:", b"Why?:")):
                line, _, answer = answer.partition(b"\n")
                file.write(line + b"\n")
    return shown.decode()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("options", "answer", "code", "sent"),
    [((), b"y\n", 0, ["approve"]), ((), b"n\n", 1, []), (("--yes",), b"", 0, ["approve"])],
)
async def test_whoever_approves_at_a_terminal_sees_the_call_and_is_asked(
    house: House, options: tuple[str, ...], answer: bytes, code: int, sent: list[str]
) -> None:
    """Each argument on a line of its own; no means that nothing was sent, and --yes asks nobody."""
    waits(house, "link", {"arguments": {"to": "lin@example.org", "note": "one\ntwo"}}, reason="Mails are read.")
    ended, shown = await at_a_terminal(house, answer, "approve", "link", *options)
    assert (code, sent) == (ended, [claims.verb for claims in house.approvers.claims])
    lines = [line.strip() for line in shown.splitlines()]
    assert {"to: lin@example.org", "note: one", "| two"} <= set(lines)
    assert ("Approve this call?" in shown) == (not options)


async def test_a_terminal_asks_why_where_the_rule_does(house: House) -> None:
    """Who denies is asked for the reason that the rule needs, and not told afterwards that it was missing."""
    waits(house, "link", {"arguments": {"to": "lin@example.org"}}, rule={"reason_required": "deny"})
    ended, shown = await at_a_terminal(house, b"y\nnot our customer\n", "deny", "link")
    assert (0, True) == (ended, "Why?" in shown)
    assert [("deny", "not our customer")] == [(each.verb, each.reason) for each in house.approvers.claims]


async def test_nobody_is_asked_at_a_terminal_about_a_call_that_is_over(house: House) -> None:
    """Its state stands first, and the answer says that it is closed."""
    waits(house, "link", {}, state="denied", decided_by="person:bob", closed_at=OLD)
    ended, shown = await at_a_terminal(house, b"", "approve", "link")
    assert (1, True, False) == (ended, "already closed" in shown, "Approve this call?" in shown)
    assert "state denied" in " ".join(shown.split())


async def test_a_terminal_says_where_values_stood(house: House) -> None:
    """Below the value, where no value can write, with a warning for an address that only a tool named.

    That something stood nowhere is said of addresses alone.
    """
    origins = json.dumps({"/to": ["tool:read_inbox"], "/cc": ["user"], "/bcc": [], "/note": []})
    arguments = {
        "to": "eve@evil.example",
        "cc": "lin@example.org",
        "bcc": "bo@example.org",
        "note": "Dear Lin, all is well",
    }
    waits(house, "link", {"arguments": arguments}, origins=origins)
    _, shown = await at_a_terminal(house, b"n\n", "approve", "link")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert {
        "to: eve@evil.example",
        "^ origin: tool:read_inbox",
        "^ origin: user",
        "^ origin: none",
        "! to: only the output of read_inbox named it, not the requester",
    } <= set(lines)


async def test_a_terminal_says_that_such_calls_are_stopped(house: House) -> None:
    """Before it asks, with the administrator's reason; what is sent all the same is refused in one line."""
    waits(house, "link", {"arguments": {"to": "lin@example.org"}}, tool="send_mail")
    async with house.client(house.key("admin")) as admin:
        stop = {"tool": "send_mail", "reason": "Mails go twice.", "anyway": True}
        (await admin.post("/v1/stops", json=stop)).raise_for_status()
    ended, shown = await at_a_terminal(house, b"y\n", "approve", "link")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    said = "! an administrator has stopped such calls: none is approved until that is lifted"
    assert (1, [], {said, "Mails go twice."} <= set(lines)) == (ended, house.approvers.claims, True)

"""Receipts where services run apart: of every end of a call, without redacted values, for whoever sees the call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aio_pika
import psycopg
import pytest

from placet.cli import invariants
from tests.e2e.scenes import SECRET
from tests.e2e.test_receipts import PARTS, ended, receipt_of, verified
from tests.support.people import Caller, a_visitor, is_result
from tests.support.system import System, until

pytestmark = pytest.mark.timeout(240)


async def test_a_receipt_has_no_redacted_value_and_is_for_whoever_sees_the_call(
    frontend: Caller, operator: Caller, system: System, tmp_path: Path
) -> None:
    """Distributed: the conversation's token gets its own, another conversation's none; redacted values stay away."""
    visitor, stranger = await a_visitor(frontend), await a_visitor(frontend)
    await visitor.say("charge my card")
    assert (await operator.decide(await visitor.see_card(), "approve")).status_code == 200
    call_id = (await visitor.see(is_result("charge_card")))["data"]["call_id"]
    receipt = await receipt_of(operator, call_id)
    own = Caller(system.url, visitor.token)
    answer = await Caller(system.url, stranger.token).request("GET", f"/v1/tool-calls/{call_id}/receipt")
    page = await operator.request("GET", f"/receipts/{call_id}")
    assert (await receipt_of(own, call_id))["proposal"] == receipt["proposal"]
    assert (404, 200) == (answer.status_code, page.status_code)
    assert ([], True) == (
        [text for text in (json.dumps(receipt), page.text) if SECRET in text],
        receipt["proposal"]["redacted"],
    )
    assert (0, PARTS) == verified(receipt, system.folder / "keys", tmp_path)


async def test_ends_without_a_run_and_edited_calls_have_receipts(
    frontend: Caller, operator: Caller, system: System, tmp_path: Path
) -> None:
    """Denied by a rule or by people, expired, invalid, failed, edited and approved by two: all hold."""
    hopper = Caller(system.url, system.key("decide", person="hopper"))
    calls = [await ended(frontend, f"deploy {how}", "deploy") for how in ("on sunday", "short-lived")]
    visitor = await a_visitor(frontend)
    await visitor.say("everything at once")
    await operator.decide(await visitor.see_card(), "approve")
    await visitor.see_answer()
    calls += {each["data"]["call_id"]: None for each in visitor.items if each["type"] == "tool_call"}
    visitor = await a_visitor(frontend)
    await visitor.say("deploy reviewed")
    card = await visitor.see_card()
    edit = {"arguments": {"service": "shop", "version": "reviewed-2"}, "reason": "newer", "digest": card["digest"]}
    path = f"/v1/approvals/{card['approval_id']}/decisions"
    edited = await operator.post(path, {"decision": "edit", **edit})
    for caller in (hopper, operator):
        await caller.request("POST", path, json={"decision": "approve", "digest": card["digest"]})
    await operator.request("POST", path, json={"decision": "release", "digest": edited["digest"]})
    for caller in (operator, hopper):
        await caller.post(path, {"decision": "approve", "digest": edited["digest"]})
    calls.append((await visitor.see(is_result("deploy")))["data"]["call_id"])
    await operator.request("POST", path, json={"decision": "approve", "digest": edited["digest"]})
    visitor = await a_visitor(frontend)
    await visitor.say("deploy reviewed")
    card = await visitor.see_card()
    path = f"/v1/approvals/{card['approval_id']}/decisions"
    for verb in ("claim", "release", "deny", "deny"):
        await operator.request("POST", path, json={"decision": verb, "digest": card["digest"]})
    await operator.request("POST", path, json={"decision": "cancel", "digest": card["digest"]})
    calls.append((await visitor.see(is_result("deploy")))["data"]["call_id"])
    found: list[str] = []
    votes: list[tuple[str, str]] = []
    for call_id in calls:
        receipt = await receipt_of(operator, call_id)
        assert (0, PARTS) == verified(receipt, system.folder / "keys", tmp_path), receipt["result"]
        found.append(receipt["result"]["kind"])
        votes += [(each["verb"], each["outcome"]) for each in receipt["votes"]]
    ends = ["refused", "expired", "succeeded", "succeeded", "invalid", "invalid", "invalid", "failed", "succeeded"]
    assert [*ends, "denied"] == found
    refusals = [("approve", "stale"), ("approve", "stale"), ("release", "invalid")]
    late = [("approve", "already_decided"), ("deny", "already_decided"), ("cancel", "already_decided")]
    assert [*refusals, *late] == [each for each in votes if each[1] != "accepted"]


async def test_a_call_whose_permit_was_discarded_can_be_read_and_has_a_receipt(
    frontend: Caller, operator: Caller, system: System, tmp_path: Path
) -> None:
    """Nobody took it: every page of the call was an error for good, and what was signed stayed in the dead letter."""
    admin, visitor = Caller(system.url, system.key("admin", "decide", person="grace")), await a_visitor(frontend)
    executors = [system.processes[name] for name in system.processes if name.startswith("executor")]
    for each in executors:
        each.stop()
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    await operator.decide(card, "approve")
    before = {each["id"] for each in (await admin.get("/v1/dead-letters?state=open"))["items"]}
    await until(lambda: rejected(system.rabbitmq_url, "executor.default"), "its permit is refused")
    letters: list[dict[str, Any]] = []

    async def is_dead() -> bool:
        found = (await admin.get("/v1/dead-letters?state=open"))["items"]
        letters[:] = [each for each in found if each["id"] not in before]
        return bool(letters)

    await until(is_dead, "it is a dead letter")
    await admin.post(f"/v1/dead-letters/{letters[0]['id']}/discard", {})
    for each in executors:
        each.start()
    call = (await visitor.see(is_result("deploy")))["data"]
    receipt = await receipt_of(operator, call["call_id"])
    paths = (f"/v1/tool-calls/{call['call_id']}", f"/admin/calls/{call['call_id']}", f"/inbox/{card['approval_id']}")
    assert {200} == {(await admin.request("GET", path)).status_code for path in paths}
    assert ("failed", (0, PARTS)) == (call["kind"], verified(receipt, system.folder / "keys", tmp_path))
    with psycopg.connect(system.database_url) as connection:
        body = "SELECT body FROM dead_letters.dead_letters WHERE dead_letter_id = %s"
        assert [("",)] == connection.execute(body, [letters[0]["id"]]).fetchall()
    # Its executor says "refused" and its conversation "failed": that an operator gave it up explains it.
    found = invariants.check(system.database_url, settled_after_seconds=0)
    assert [[]] == [broken for each, broken in found.items() if each.name == "executions_are_answered"]


async def rejected(url: str, queue: str) -> bool:
    """Refuse a message of a queue, as a consumer does that cannot handle it; tell whether one was there."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        message = await (await channel.declare_queue(queue, passive=True)).get(fail=False)
        if message is not None:
            await message.reject(requeue=False)
        return message is not None

"""Receipts where services run apart: of every end of a call, without redacted values, for whoever sees the call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.scenes import SECRET
from tests.e2e.test_receipts import PARTS, ended, receipt_of, verified
from tests.support.people import Caller, a_visitor, is_result
from tests.support.system import System

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

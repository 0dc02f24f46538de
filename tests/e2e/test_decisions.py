"""Decisions from outside: two must agree, one changes the arguments, one answers instead, many at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import Stage
from tests.support.people import Caller, a_visitor, is_result
from tests.support.system import System


@pytest.fixture(scope="module")
def second(system: System) -> Caller:
    """Another person who may decide."""
    return Caller(system.url, system.key("decide", person="hopper"))


async def send(caller: Caller, approval_id: str, body: dict[str, Any]) -> Any:
    """Send a decision; return its status and its answer."""
    response = await caller.request("POST", f"/v1/approvals/{approval_id}/decisions", json=body)
    return response.status_code, response.json()


async def test_an_edited_call_runs_as_two_people_approved_it(
    frontend: Caller, operator: Caller, second: Caller, stage: Stage
) -> None:
    """G: two of a group decide; an edit makes the other's card stale, and the model hears of it all."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy reviewed")
    card = await visitor.see_card()
    arguments = {"service": "shop", "version": "reviewed-2"}
    edit = {"decision": "edit", "digest": card["digest"], "arguments": arguments, "reason": "the newer one"}
    status, edited = await send(operator, card["approval_id"], edit)
    assert (200, "pending", arguments) == (status, edited["state"], edited["call"]["arguments"])
    stale = await send(second, card["approval_id"], {"decision": "approve", "digest": card["digest"]})
    assert (409, "urn:placet:problem:stale-card") == (stale[0], stale[1]["type"])
    again = await send(operator, card["approval_id"], {"decision": "approve", "digest": edited["digest"]})
    assert (200, "pending") == (again[0], again[1]["state"])
    status, decided = await send(second, card["approval_id"], {"decision": "approve", "digest": edited["digest"]})
    assert (200, "approved", "person:hopper") == (status, decided["state"], decided["decided_by"])
    await visitor.see(is_result("deploy"))
    await visitor.see_answer()
    assert ["reviewed-2"] == [line["version"] for line in stage.begun("deploy", visitor.conversation)]
    told = json.dumps(stage.model_log()["requests"])
    assert "were changed by person:grace" in told
    whole = await operator.get(f"/v1/approvals/{card['approval_id']}")
    digests = [whole["records"][name]["digest"] for name in ("proposed", "reviewed", "approved", "executed")]
    assert [card["digest"], *[edited["digest"]] * 3] == digests
    assert ["edit", "approve", "approve", "approve"] == [each["decision"] for each in whole["decisions"]]
    assert [("accepted", True), ("stale", False)] == [
        (each["outcome"], each["person"] == "person:grace") for each in whole["decisions"][:2]
    ]


async def test_an_edit_may_not_leave_the_rule(frontend: Caller, operator: Caller) -> None:
    """Policy's reason comes back to who wanted it, and the card stays as it was."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy reviewed")
    card = await visitor.see_card()
    body = {"decision": "edit", "digest": card["digest"], "arguments": {"service": "shop", "version": "sunday"}}
    status, problem = await send(operator, card["approval_id"], body)
    assert (400, "urn:placet:problem:invalid-decision", True) == (
        status,
        problem["type"],
        "never-on-sundays" in problem["detail"],
    )
    assert card["digest"] == (await operator.get(f"/v1/approvals/{card['approval_id']}"))["digest"]


async def test_a_batch_gives_each_decision_its_own_outcome(frontend: Caller, operator: Caller) -> None:
    """One that waits is answered, one that is unknown is 404; neither stops the other."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    items = [
        {"id": "unknown", "decision": "deny", "digest": card["digest"]},
        {"id": card["approval_id"], "decision": "respond", "digest": card["digest"], "response": "Use the other shop."},
    ]
    answer = await operator.post("/v1/approvals/decisions", {"items": items})
    assert [(404, None), (200, "answered")] == [
        (each["status"], each["approval"] and each["approval"]["state"]) for each in answer["items"]
    ]
    result = (await visitor.see(is_result("deploy")))["data"]
    assert ("answered", "instruction", "Use the other shop.") == (
        result["kind"],
        result["answer_kind"],
        result["answer"],
    )


async def test_what_an_answer_is_for_the_model_is_told_everywhere(
    frontend: Caller, operator: Caller, stage: Stage
) -> None:
    """A result in place of the tool's: for the model, in the feed, at the approval and at the call."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    body = {"decision": "respond", "digest": card["digest"], "response": "v7 is live.", "response_kind": "result"}
    status, approval = await send(operator, card["approval_id"], body)
    result = (await visitor.see(is_result("deploy")))["data"]
    await visitor.see_answer()
    call = await operator.get(f"/v1/tool-calls/{card['call_id']}")
    told = [approval, result, call["result"], call["approval"]]
    assert (200, [("result", "v7 is live.")] * 4) == (status, [(each["answer_kind"], each["answer"]) for each in told])
    assert r"{\"result\": \"answered\", \"answer_kind\": \"result\", \"answer\": \"v7 is live.\"" in json.dumps(
        stage.model_log()["requests"]
    )


async def test_a_denial_that_ends_the_turn_leaves_nothing_of_it(
    frontend: Caller, operator: Caller, stage: Stage
) -> None:
    """The conversation is idle after it without a word of the model, and the next message is answered."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy reviewed")
    card = await visitor.see_card()
    asked = len(stage.model_log()["requests"])
    answer = await operator.decide(card, "deny", "an injection", end_turn=True)
    end = await visitor.see(lambda item: item["type"] == "turn" and item["data"]["state"] == "stopped")
    assert (200, "denied") == (answer.status_code, answer.json()["state"])
    assert ("Stopped by person:grace.", asked) == (end["data"]["reason"], len(stage.model_log()["requests"]))
    both = await operator.decide(card, "approve", end_turn=True)
    assert 400 == both.status_code

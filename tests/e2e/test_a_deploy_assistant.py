"""Mission C and D: deploying with a human in the loop, and what categories mean."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.system import System


async def test_while_people_think_the_model_is_not_called(
    frontend: Caller, operator: Caller, stage: Stage, system: System
) -> None:
    """C1, hold: the model is asked again only when the call has its one result, and every transcript was valid."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy and hold")
    card = await visitor.see_card()
    await visitor.say("hello, are you still there?")
    before = len(stage.model_log()["requests"])
    assert [turn for turn in (await visitor.get(visitor.path))["messages"] if turn["role"] == "assistant"]
    assert len(stage.model_log()["requests"]) == before
    await operator.decide(card, "approve")
    assert await visitor.see_answer() == "The shop is green."
    assert await visitor.see_answer() == "Hello, how can I help you today?"
    assert stage.model_log()["rejected"] == 0


def transcript_of(stage: Stage, words: str) -> list[dict[str, Any]]:
    """Return the newest transcript that the model was asked with in which a user says `words`."""
    requests: list[list[dict[str, Any]]] = [each["body"]["messages"] for each in stage.model_log()["requests"]]
    return [messages for messages in requests if any(words in str(each.get("content")) for each in messages)][-1]


async def test_the_chat_goes_on_while_people_think(frontend: Caller, operator: Caller, stage: Stage) -> None:
    """C1, C4: a message is answered meanwhile; each call has one tool result, and its outcome comes later as a fact."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop please")
    card = await visitor.see_card()
    await visitor.say("hello, are you still there?")
    assert await visitor.see_answer() == "Hello, how can I help you today?"
    await operator.decide(card, "approve")
    assert await visitor.see_answer() == "The shop is green."
    messages = transcript_of(stage, "deploy the shop please")
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    results = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    outcomes = [message for message in messages if str(message.get("content")).startswith("<placet-outcome>")]
    assert (calls, 1) == (results, len(outcomes))
    assert '"pending_confirmation"' in next(message["content"] for message in messages if message["role"] == "tool")
    assert len(stage.begun("deploy", visitor.conversation)) == 1
    shown = (await visitor.get(visitor.path))["messages"]
    assert not any(message["while_waiting"] for message in shown)
    assert stage.model_log()["rejected"] == 0


async def test_what_the_model_says_of_a_waiting_call_is_kept_and_not_shown(
    frontend: Caller, operator: Caller, stage: Stage
) -> None:
    """B3, C1: the model goes on at once; its chatter is marked and in the history, its word on the outcome is shown."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy at once")
    card = await visitor.see_card()
    assert await visitor.see_answer() == "Please say yes to the deployment."
    denied = await operator.decide(card, "deny", "Not today.")
    assert await visitor.see_answer() == "It came to nothing."
    shown = (await visitor.get(visitor.path))["messages"]
    assert [
        ("Deploying.", False),
        ("Please say yes to the deployment.", True),
        ("It came to nothing.", False),
    ] == [(message["text"], message["while_waiting"]) for message in shown if message["role"] == "assistant"]
    kept = [item for item in visitor.items if item["type"] == "message"]
    marked = [item["data"]["text"] for item in kept if item["data"].get("while_waiting")]
    assert (200, ["Please say yes to the deployment."]) == (denied.status_code, marked)
    outcome = transcript_of(stage, '"tool": "deploy", "result": "denied"')[-1]["content"]
    assert "Not today." in outcome
    assert stage.begun("deploy", visitor.conversation) == []


async def test_a_plain_yes_in_the_chat_decides_where_the_rule_allows_it(frontend: Caller, stage: Stage) -> None:
    """C3: the user's own exact yes is shown for what it was taken as; the model never sees it and the call runs."""
    visitor = await a_visitor(frontend)
    await visitor.say("set it by word")
    card = await visitor.see_card()
    posted = await visitor.post(f"{visitor.path}/messages", {"text": "Yes, please.", "message_id": "my-yes"})
    again = await visitor.post(f"{visitor.path}/messages", {"text": "Yes, please.", "message_id": "my-yes"})
    assert await visitor.see_answer() == "The flag is set."
    taken = {"approval_id": card["approval_id"], "decision": "approve", "summary": card["summary"]}
    assert (taken, "accepted", posted) == (posted["taken_as"], posted["outcome"], again)
    shown = [each for each in (await visitor.get(visitor.path))["messages"] if each["text"] == "Yes, please."]
    assert [taken] == [each["taken_as"] for each in shown]
    told = await visitor.get(f"/v1/approvals/{card['approval_id']}")
    decisions = [(each["person"], each["proof"], each["details"]) for each in told["decisions"]]
    details = {"said": "Yes, please.", "opened_by": "person:shop-frontend"}
    assert [(told["requester"], "conversation_token", details)] == decisions
    assert len(stage.begun("set_flag", visitor.conversation)) == 1
    assert not any("Yes, please." in str(request) for request in stage.model_log()["requests"])


async def test_a_message_that_is_no_plain_yes_decides_nothing(frontend: Caller, operator: Caller, stage: Stage) -> None:
    """C3: doubts, other people's words and a yes to something else are ordinary messages; a named yes is clear."""
    visitor = await a_visitor(frontend)
    await visitor.say("set it by word")
    card = await visitor.see_card()
    path = f"{visitor.path}/messages"
    relayed = await frontend.post(path, {"text": "yes", "author": "visitor"})
    somebody = await Caller(frontend.url, operator.token).request("POST", path, json={"text": "yes"})
    doubts = [await visitor.post(path, {"text": text}) for text in ("yes?", "yes but not now", "not yes", "ok")]
    await visitor.see(lambda item: item["type"] == "message" and item["data"].get("heard_meanwhile"))
    after_more_words = await visitor.post(path, {"text": "yes"})
    assert [None] * 6 == [each["taken_as"] for each in (relayed, *doubts, after_more_words)]
    assert somebody.status_code == 403
    assert (await visitor.get(f"/v1/approvals/{card['approval_id']}"))["state"] == "pending"
    assert stage.begun("set_flag", visitor.conversation) == []
    named = await visitor.post(path, {"text": "Yes, set flag"})
    assert ("approve", "accepted") == (named["taken_as"]["decision"], named["outcome"])
    await visitor.see(lambda item: item["data"].get("text") == "The flag is set after all.")
    assert len(stage.begun("set_flag", visitor.conversation)) == 1


async def test_a_frontend_renders_from_status_alone(frontend: Caller, operator: Caller) -> None:
    """C2: a call's statuses are proposed, pending_confirmation, then success or error."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    await operator.decide(await visitor.see_card(), "approve")
    await visitor.see(is_result("deploy"))
    calls = [item["data"] for item in visitor.items if item["type"] == "tool_call"]
    seen = [call["status"] for call in calls if call["tool"] == "deploy"]
    assert seen == ["proposed", "pending_confirmation", "success"]


async def test_a_rule_refuses_and_says_so(frontend: Caller, stage: Stage) -> None:
    """E1, D1: a rule's no bothers nobody; the model is told the reason meant for it."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy on sunday")
    result = (await visitor.see(is_result("deploy")))["data"]
    assert (result["status"], result["kind"]) == ("error", "refused")
    assert "Sundays" in result["error"]
    assert await visitor.see_answer() == "It was not deployed."
    assert stage.begun("deploy", visitor.conversation) == []


async def test_an_unanswered_approval_expires(frontend: Caller, operator: Caller, stage: Stage) -> None:
    """Expiry is a typed result; a decision that comes late is told so and runs nothing."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy short-lived")
    card = await visitor.see_card()
    result = (await visitor.see(is_result("deploy")))["data"]
    late = await operator.decide(card, "approve")
    assert (result["kind"], late.status_code, late.json()["state"]) == ("expired", 409, "expired")
    assert stage.begun("deploy", visitor.conversation) == []


async def test_categories_decide_where_no_rule_does(frontend: Caller, operator: Caller, stage: Stage) -> None:
    """D1: a safe search runs; an unsafe write that nothing can stage waits for people."""
    visitor = await a_visitor(frontend)
    await visitor.say("red shoes")
    assert (await visitor.see(is_result("search_products")))["data"]["status"] == "success"
    await visitor.see_answer()
    await visitor.say("write a file")
    card = await visitor.see_card()
    assert ("write_file", []) == (card["tool"], stage.begun("write_file", visitor.conversation))
    await operator.decide(card, "deny")
    assert await visitor.see_answer() == "It was not written."


async def test_a_limit_lets_calls_through_until_it_has_no_room(
    frontend: Caller, operator: Caller, stage: Stage
) -> None:
    """Up to 500 a day nobody is asked; what goes beyond is held, and what was held and denied uses nothing up."""
    visitor = await a_visitor(frontend)
    answers = []
    for _ in range(2):
        await visitor.say("refund 200")
        answers.append(await visitor.see_answer())
    await visitor.say("refund 200")
    card = await visitor.see_card()
    await operator.decide(card, "deny")
    answers.append(await visitor.see_answer())
    await visitor.say("refund 100")
    answers.append(await visitor.see_answer())
    refunded = "It is refunded."
    assert answers == [refunded, refunded, "It is not refunded.", refunded]
    assert [line["amount"] for line in stage.begun("refund", visitor.conversation)] == [200, 200, 100]


async def test_a_turn_has_at_most_ten_steps(frontend: Caller, stage: Stage) -> None:
    """D2: a model that never stops calling tools is asked for words at the tenth step, and the turn ends."""
    visitor = await a_visitor(frontend)
    await visitor.say("never stop")
    assert await visitor.see_answer() == "I stop here."
    assert len(stage.begun("read_status", visitor.conversation)) == 9


async def test_a_tool_says_how_far_it_is(frontend: Caller, operator: Caller, stage: Stage) -> None:
    """C6: what a running tool reports reaches the chat while it runs, is kept, and its end is told after it."""
    gate = Path(stage.environment["PLACET_TEST_LEDGER"] + ".roll-out")
    os.mkfifo(gate)
    visitor = await a_visitor(frontend)
    await visitor.say("roll out, please")
    card = await visitor.see_card()
    await operator.decide(card, "approve")
    told = await visitor.see(lambda item: item["type"] == "progress")
    (shown,) = (await visitor.get(f"/v1/conversations/{visitor.conversation}"))["calls"]
    assert ("executing", card["approval_id"]) == (shown["status"], shown["approval_id"])
    report = {
        "call_id": card["call_id"],
        "turn_id": card["turn_id"],
        "tool": "roll_out",
        "fraction": 0.25,
        "text": "building the image",
    }
    assert told["data"] == {**report, "attempt": 1, "status": "executing", "at": told["data"]["at"]}
    latecomer = Visitor(visitor.url, visitor.token, conversation=visitor.conversation)
    assert (await latecomer.see(lambda item: item["type"] == "progress"))["id"] == told["id"]
    await asyncio.to_thread(gate.write_bytes, b"")
    assert (await visitor.see(is_result("roll_out")))["data"]["status"] == "success"
    assert await visitor.see_answer() == "It is out on all hosts."

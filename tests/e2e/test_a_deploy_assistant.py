"""Mission C and D: deploying with a human in the loop, and what categories mean."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Stage
from tests.support.people import Caller, a_visitor, is_result
from tests.support.system import System


async def test_while_people_think_the_model_is_not_called(
    frontend: Caller, operator: Caller, stage: Stage, system: System
) -> None:
    """C1, hold: the model is asked again only when the call has its one result, and every transcript was valid."""
    visitor = await a_visitor(frontend)
    await visitor.say("deploy the shop")
    card = await visitor.see_card()
    await visitor.say("hello, are you still there?")
    before = len(stage.model_log()["requests"])
    assert [turn for turn in (await visitor.get(visitor.path))["messages"] if turn["role"] == "assistant"]
    assert len(stage.model_log()["requests"]) == before
    await operator.decide(card, "approve")
    assert await visitor.see_answer() == "The shop is green."
    assert await visitor.see_answer() == "Hello, how can I help you today?"
    assert stage.model_log()["rejected"] == 0


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


@pytest.mark.parametrize(
    ("text", "tool", "status"),
    [
        ("red shoes", "search_products", "success"),
        ("write a file", "write_file", "error"),
    ],
)
async def test_categories_decide_where_no_rule_does(
    frontend: Caller, stage: Stage, text: str, tool: str, status: str
) -> None:
    """D1: a safe search runs; an unsafe write is not executed (staging is not available yet, and the model is told)."""
    visitor = await a_visitor(frontend)
    await visitor.say(text)
    assert (await visitor.see(is_result(tool)))["data"]["status"] == status
    assert stage.begun("write_file", visitor.conversation) == []


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

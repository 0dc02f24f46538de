"""Mission A: a shop's assistant with confirmation, for several tenants."""

from __future__ import annotations

import asyncio

import httpx

from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.system import System


async def test_a_held_call_runs_once_after_the_visitor_confirms(frontend: Caller, system: System) -> None:
    """A5, A6, B5: the card says what will happen, confirming runs it once, and the conversation goes on by itself."""
    visitor = await a_visitor(frontend, language="tr")
    await visitor.say("a payment link please")
    card = await visitor.see_card()
    assert card["arguments"] == {"amount": 299, "currency": "TRY"}
    assert "299" in card["summary"]
    first, second = await visitor.decide(card, "approve"), await visitor.decide(card, "approve")
    assert (first.status_code, second.status_code) == (200, 409)
    assert second.json()["decided_by"] == first.json()["decided_by"]
    result = await visitor.see(is_result("create_pay_link"))
    assert ("success", "payment_link") == (result["data"]["status"], result["data"]["ui_blocks"][0]["type"])
    assert await visitor.see_answer() == "Here is your link."
    links = f"SELECT count(*) FROM tools.pay_links WHERE conversation_id = '{visitor.conversation}'"  # noqa: S608
    assert system.count(links) == 1


async def test_two_clicks_at_once_run_nothing_twice(frontend: Caller, system: System) -> None:
    """A6: twenty confirmations at the same moment: one wins, the others are told who did."""
    visitor = await a_visitor(frontend)
    await visitor.say("a payment link please")
    card = await visitor.see_card()
    answers = await asyncio.gather(*(visitor.decide(card, "approve") for _ in range(20)))
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200, *[409] * 19]
    await visitor.see_answer()
    links = f"SELECT count(*) FROM tools.pay_links WHERE conversation_id = '{visitor.conversation}'"  # noqa: S608
    assert system.count(links) == 1


async def test_a_denied_call_never_runs_and_the_model_hears_why(
    frontend: Caller, operator: Caller, stage: Stage, system: System
) -> None:
    """A person's no ends the call; the person's words reach the model."""
    visitor = await a_visitor(frontend)
    await visitor.say("a payment link please")
    card = await visitor.see_card()
    assert (await operator.decide(card, "deny", "not for this customer")).status_code == 200
    assert await visitor.see_answer() == "It was denied."
    seen = [str(request["body"]) for request in stage.model_log()["requests"]]
    assert any("not for this customer" in body for body in seen)
    links = f"SELECT count(*) FROM tools.pay_links WHERE conversation_id = '{visitor.conversation}'"  # noqa: S608
    assert system.count(links) == 0


async def test_a_search_runs_freely_and_answers_with_a_carousel(frontend: Caller) -> None:
    """A2, A3: at most eight products, a carousel for the frontend, data for the model."""
    visitor = await a_visitor(frontend)
    await visitor.say("red shoes under 500")
    result = (await visitor.see(is_result("search_products")))["data"]
    assert (result["status"], result["ui_blocks"][0]["type"]) == ("success", "product_carousel")
    assert 1 <= result["data"]["count"] <= 8
    assert await visitor.see_answer() == "These are the red shoes."


async def test_a_lead_is_collected_and_merged(frontend: Caller, system: System) -> None:
    """A7: the same visitor's lead is one row, however often they say it."""
    visitor = await a_visitor(frontend, visitor="visitor-of-a-lead")
    for _ in range(2):
        await visitor.say("my mail is ada@example.org")
        assert await visitor.see_answer() == "Noted."
    assert system.count("SELECT count(*) FROM tools.leads WHERE email = 'ada@example.org'") == 1


async def test_a_tool_runs_in_the_context_of_its_message(frontend: Caller, operator: Caller, stage: Stage) -> None:
    """A1: tenant, conversation, visitor and the triggering message reach the tool."""
    visitor = await a_visitor(frontend, visitor="visitor-of-a-context")
    await visitor.say("deploy the shop")
    await operator.decide(await visitor.see_card(), "approve")
    assert await visitor.see_answer() == "The shop is green."
    message = next(item["data"]["message_id"] for item in visitor.items if item["data"].get("role") == "user")
    (line,) = stage.begun("deploy", visitor.conversation)
    assert (line["tenant"], line["requester"], line["message"]) == ("acme", "visitor-of-a-context", message)


async def test_nobody_sees_another_tenants_anything(frontend: Caller, system: System) -> None:
    """A9: conversations, approvals and calls of another tenant do not exist."""
    visitor = await a_visitor(frontend)
    await visitor.say("a payment link please")
    card = await visitor.see_card()
    stranger = Caller(system.url, system.key("chat", "decide", "admin", tenant="rival", person="mallory"))
    paths = [
        visitor.path,
        f"/v1/approvals/{card['approval_id']}",
        f"/v1/tool-calls/{card['call_id']}",
        f"{visitor.path}/events",
    ]
    answers = [(await stranger.request("GET", path)).status_code for path in paths]
    assert answers == [404] * len(paths)
    assert (await stranger.decide(card, "approve")).status_code == 404
    assert (await stranger.get("/v1/approvals"))["items"] == []


async def test_the_wrong_token_is_refused(frontend: Caller, system: System) -> None:
    """A conversation's token is good for that conversation only; no token is good for nothing."""
    mine, other = await a_visitor(frontend), await a_visitor(frontend)
    thief = Visitor(system.url, other.token, conversation=mine.conversation)
    async with httpx.AsyncClient(base_url=system.url) as nobody:
        anonymous = await nobody.get(mine.path)
    assert ((await thief.request("GET", mine.path)).status_code, anonymous.status_code) == (404, 401)

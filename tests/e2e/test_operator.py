"""A8 whole, with the demo model: a tool hands over, an operator answers in a browser, the model goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.async_api import Browser, expect

from placet.gateway.identity.bootstrap import create_key
from placet.gateway.web.render import set_up_was_run
from tests.e2e.test_embedded import Embedded, placet, running
from tests.integration.gateway.test_inbox_browser import faults_of
from tests.support.people import Caller, a_visitor, is_result, is_turn_end

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet, in which each test gives back what it took over."""
    with running(tmp_path_factory.mktemp("operator")) as made:
        yield made


def is_holder(state: str) -> Any:
    """Whether the visitor is told who answers now."""
    return lambda item: item["type"] == "holder" and item["data"]["state"] == state


def is_operator(item: dict[str, Any]) -> bool:
    """Whether an operator said something."""
    return bool(item["type"] == "message" and item["data"]["role"] == "operator")


def operator(house: Embedded, person: str) -> Caller:
    """Return somebody who may operate and nothing else; made beside the database, the key is theirs at once."""
    with psycopg.connect(house.database_url) as connection:
        key = create_key(connection, tenant="default", person=person, scopes=["operate"])
    return Caller(house.caller().url, key)


async def test_an_escalated_conversation_is_taken_answered_and_given_back(house: Embedded) -> None:
    """The demo model escalates; of two operators one takes it; no model speaks until it is given back."""
    visitor = await a_visitor(house.caller())
    await visitor.say("create a payment link over 299 TRY")
    card = await visitor.see_card()
    await visitor.say("I want to talk to a person")
    await visitor.see(is_holder("waiting"))
    ada, grace = operator(house, "ada"), operator(house, "grace")
    (waiting,) = (await ada.get("/v1/conversations?holder=waiting"))["items"]
    assert (waiting["id"], "talk to a person" in waiting["reason"]) == (visitor.conversation, True)
    answers = await asyncio.gather(*(each.request("POST", f"{visitor.path}/takeover") for each in (ada, grace)))
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    holder = ada if answers[0].status_code == 200 else grace
    name = "ada" if holder is ada else "grace"
    told = (await visitor.see(is_holder("operator")))["data"]
    assert told["text"] == f"You are talking to {name}, a person."
    await visitor.say("find red shoes under 500")
    await holder.post(f"{visitor.path}/messages", {"text": "We have two pairs.", "author": "operator"})
    said = (await visitor.see(is_operator))["data"]
    assert (said["text"], said["author"]) == ("We have two pairs.", {"kind": "operator", "id": f"person:{name}"})
    assert (await house.caller().decide(card, "approve")).status_code == 200
    await visitor.see(is_result("create_pay_link"))
    await visitor.say("find blue bags")
    before = len(visitor.items)
    await holder.post(f"{visitor.path}/release")
    await visitor.see(is_holder("agent"))
    assert (await visitor.see(is_result("search_products")))["data"]["status"] == "success"
    await visitor.see(is_turn_end)
    searched = [
        item["data"]["arguments"]
        for item in visitor.items
        if item["type"] == "tool_call" and item["data"]["tool"] == "search_products" and "arguments" in item["data"]
    ]
    assert len(searched) == 1
    assert "bag" in str(searched[0])
    held = visitor.items[:before]
    start = next(place for place, item in enumerate(held) if is_holder("operator")(item))
    assert not [item for item in held[start:] if item["type"] == "turn" and item["data"]["state"] == "started"]


async def test_the_command_line_takes_answers_and_gives_back(house: Embedded) -> None:
    """`placet conversations` does what the page does; a chat of the AI SDK has the operator's word as a message."""
    visitor = await a_visitor(house.caller())
    await visitor.say("hello")
    await visitor.see_answer()
    run = placet(house, "conversations", "takeover", visitor.conversation)
    assert (run.returncode, run.stdout) == (0, f"{visitor.conversation} is yours, person:admin\n")
    assert visitor.conversation in placet(house, "conversations", "list").stdout
    assert visitor.conversation not in placet(house, "conversations", "list", "--escalated").stdout
    assert placet(house, "conversations", "say", visitor.conversation, "hello from a person").returncode == 0
    history = (await visitor.get(f"/api/chat/{visitor.conversation}"))["messages"]
    last = history[-1]
    assert (last["role"], last["metadata"]["operator"]) == ("assistant", "person:admin")
    assert "hello from a person" in [part.get("text") for part in last["parts"]]
    assert placet(house, "conversations", "release", visitor.conversation).returncode == 0
    assert visitor.conversation not in placet(house, "conversations", "list").stdout


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
async def test_an_operator_works_in_a_browser(house: Embedded, browser: Browser, tmp_path: Path) -> None:
    """They find the conversation, take it, read what comes without reloading, answer, and give it back."""
    visitor = await a_visitor(house.caller())
    await visitor.say("I want to talk to a person")
    await visitor.see(is_holder("waiting"))
    page = await (await browser.new_context(viewport={"width": 1100, "height": 820})).new_page()
    complaints: list[str] = []
    # The sign-in page of a session that is over is a 401.
    told = ("error", False)
    page.on("console", lambda said: complaints.append(said.text) if told == (said.type, " 401 " in said.text) else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    url, ada = house.caller().url, operator(house, "ada")
    signed: dict[str, str | float | bool] = {"key": ada.token}
    await page.context.request.post(f"{url}/sign-in", form=signed, headers={"origin": url}, max_redirects=0)
    await page.goto(f"{url}/operator")
    await page.locator("#connection[data-state=live]").wait_for()
    await page.screenshot(path=tmp_path / "list.png")
    faults = await faults_of(page)
    await page.locator(".held-talk a").first.click()
    await page.get_by_role("button", name="Take over").click()
    await expect(page.locator(".badge", has_text="you answer")).to_be_visible()
    await page.locator("#connection[data-state=live]").wait_for()
    await page.locator("#text").fill("Half a sentence")
    await visitor.say("is anybody <b>there</b>?")
    await expect(page.locator(".said.user .text").last).to_have_text("is anybody <b>there</b>?")
    await expect(page.locator("#text")).to_have_value("Half a sentence")
    talk = page.url
    await page.context.clear_cookies()
    await page.locator("#text").press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("Nothing was sent")
    await page.context.request.post(f"{url}/sign-in", form=signed, headers={"origin": url}, max_redirects=0)
    await page.goto(talk)
    await expect(page.locator("#text")).to_have_value("Half a sentence")
    await page.locator("#text").fill("Yes, I am.")
    await page.locator("#text").press("Enter")
    await expect(page.locator(".said.operator .text").last).to_have_text("Yes, I am.")
    assert (await visitor.see(is_operator))["data"]["text"] == "Yes, I am."
    await page.screenshot(path=tmp_path / "talk.png")
    assert [] == faults + await faults_of(page)
    await page.get_by_role("button", name="Give back to the assistant").click()
    await expect(page.locator(".badge", has_text="the assistant answers")).to_be_visible()
    await visitor.see(is_holder("agent"))
    assert [] == complaints


async def test_an_operator_works_without_scripts(house: Embedded, browser: Browser) -> None:
    """Every step is a form: taking over, answering, ending."""
    visitor = await a_visitor(house.caller())
    await visitor.say("hello")
    await visitor.see_answer()
    page = await (await browser.new_context(java_script_enabled=False)).new_page()
    url, ada = house.caller().url, operator(house, "ada")
    signed: dict[str, str | float | bool] = {"key": ada.token}
    await page.context.request.post(f"{url}/sign-in", form=signed, headers={"origin": url}, max_redirects=0)
    await page.goto(f"{url}/operator/{visitor.conversation}")
    await page.get_by_role("button", name="Take over").click()
    await page.locator("#text").fill("Good day")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".said.operator .text")).to_have_text("Good day")
    await page.get_by_role("button", name="End", exact=True).click()
    await expect(page.locator(".badge", has_text="ended")).to_be_visible()

"""Choosing who to talk to on the chat page, with scripts and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from placet.contracts.messages import MessagePosted
from placet.gateway.web.render import set_up_was_run
from tests.support.gateway import House, open_house

FILE = """\
version: 1
agents:
  default: {description: Helps with everything.}
  clerk: {description: "Knows <b>where</b> things are."}
  theirs: {tenants: [globex]}
"""


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """A gateway that knows several agents."""
    path = tmp_path / "agents.yaml"
    path.write_text(FILE)
    async with open_house(gateway_database_url, tmp_path, agents=path) as made:
        yield made


async def a_page(house: House, browser: Browser, *, scripts: bool, tenant: str = "acme") -> Page:
    """Open the chat of somebody who is signed in."""
    page = await browser.new_page(locale="en-GB", java_script_enabled=scripts)
    await page.goto(house.gateways[0].url)
    await page.get_by_label("API key").fill(house.key("chat", "decide", tenant=tenant))
    await page.get_by_role("button", name="Sign in").click()
    return page


async def agent_of(house: House) -> str:
    """Return the agent to which a message went."""
    posted = await house.posted.get()
    assert isinstance(posted, MessagePosted)
    return posted.agent


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
async def test_a_conversation_begins_with_the_agent_that_was_chosen(
    house: House, browser: Browser, tmp_path: Path
) -> None:
    """The tenant's own agents are offered with what they are for; once there is a conversation, nothing is."""
    page = await a_page(house, browser, scripts=True)
    choice = page.get_by_label("Talk to")
    offered = await choice.locator("option").all_text_contents()
    await choice.select_option("clerk")
    await page.screenshot(path=tmp_path / "agents.png")
    await page.get_by_placeholder("Write a message").fill("Where are the shoes?")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".said.by-me")).to_have_text("Where are the shoes?")
    await page.reload()
    await expect(choice).to_have_count(0)
    assert ["default: Helps with everything.", "clerk: Knows <b>where</b> things are."] == offered
    assert "clerk" == await agent_of(house)


async def test_an_agent_is_chosen_without_scripts_too(house: House, browser: Browser) -> None:
    """The composer is a form: it begins the conversation, shows what was said, and goes on."""
    page = await a_page(house, browser, scripts=False)
    await page.get_by_label("Talk to").select_option("clerk")
    for text in ("Where are the shoes?", "And the bags?"):
        await page.get_by_placeholder("Write a message").fill(text)
        await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".said.by-me")).to_have_text(["Where are the shoes?", "And the bags?"])
    assert ["clerk", "clerk"] == [await agent_of(house), await agent_of(house)]


async def test_a_form_with_a_wrong_agent_opens_nothing(house: House) -> None:
    """Another tenant's agent is none of ours, and a name that is none is refused; nothing is posted."""
    async with house.client(house.key("chat")) as client:
        answers = [
            await client.post("/ui/messages", data={"text": "hello", "agent": agent}) for agent in ("theirs", "<b>")
        ]
        empty = await client.post("/ui/messages", data={"text": " ", "agent": "clerk"})
    assert [422, 400, 400] == [answer.status_code for answer in (*answers, empty)]
    assert [] == house.query("SELECT conversation_id FROM gateway.conversations")


async def test_one_agent_alone_is_no_choice(house: House, tmp_path: Path) -> None:
    """Nothing is asked where there is nothing to choose; a tenant without any is told so."""
    pages = []
    for number, file in enumerate(("agents: {default: {}}", "agents: {theirs: {tenants: [globex]}}")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(f"version: 1\n{file}\n")
        folder = tmp_path / str(number)
        folder.mkdir()
        async with open_house(house.url, folder, agents=path) as made, made.client(made.key("chat")) as client:
            pages.append((await client.get("/")).text)
    assert [(False, False), (False, True)] == [("<select" in page, "no agent to talk to" in page) for page in pages]

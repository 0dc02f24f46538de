"""What is staged stands above the composer: proposed or thrown away there, in two tabs, late, and without scripts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from placet.contracts.messages import DiscardChanges, ProposeChanges
from placet.gateway.web.render import set_up_was_run
from tests.integration.gateway.test_inbox_browser import AXE, faults_of, is_complaint, opened, signed_in, visit
from tests.support.gateway import House, insert, open_house, said, turn
from tests.support.inbox_scene import DIRECTORY
from tests.support.staged_scene import CONVERSATION, WORKSPACE, a_busy_turn, a_change, a_file, propose, stage

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`"),
]
PATH = f"/?conversation={CONVERSATION}"


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as made:
        yield made


@pytest.fixture
async def page(house: House, browser: Browser) -> AsyncIterator[Page]:
    """A page, signed in; anything that its console complains about fails the test."""
    complaints: list[str] = []
    made = await signed_in(house, browser, viewport={"width": 1440, "height": 900})
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
    yield made
    assert [] == complaints


def remember(house: House, calls: list[str]) -> None:
    """Let the agent hold calls for staged."""
    place = {"tenant": "acme", "conversation_id": CONVERSATION, "workspace_id": WORKSPACE}
    for position, call_id in enumerate(calls, 1):
        insert(house.url, "staged_entries", call_id=call_id, position=position, **place)


async def tell(house: House, call_id: str, **changes: Any) -> None:
    """Append the item that a call was staged, or how it ended."""
    item = {"call_id": call_id, "turn_id": "t", "tool": "write_file", "kind": "staged", "status": "success"}
    await house.append(CONVERSATION, ("tool_call", {**item, "data": None, "error": "", "ui_blocks": [], **changes}))


async def asked(house: House) -> Any:
    """Return the next message that reached the agent."""
    return await asyncio.wait_for(house.posted.get(), 20)


async def test_what_is_staged_is_listed_and_proposed(house: House, page: Page) -> None:
    """It appears as it is staged, in the second tab too; while people are asked it can only be discarded."""
    await house.append(CONVERSATION, turn("started"))
    await visit(house, page, PATH)
    second = await page.context.new_page()
    await visit(house, second, PATH)
    await expect(page.locator(".workspace")).to_have_count(0)
    calls = stage(house, a_busy_turn(1))
    remember(house, calls)
    await tell(house, calls[0])
    for tab in (page, second):
        await expect(tab.locator(".workspace summary").first).to_contain_text("1 created, 2 changed, 1 deleted")
        await expect(tab.locator(".workspace")).to_contain_text("Nothing has happened yet.")
    await page.locator(".workspace summary").first.click()
    await expect(page.locator(".workspace .entry")).to_have_count(len(calls))
    await page.locator(".workspace details.file summary").first.click()
    await expect(page.locator(".workspace .diff-lines .added").first).to_contain_text("# Note 0")
    await page.get_by_role("button", name="Propose changes").click()
    word = await asked(house)
    assert (ProposeChanges, CONVERSATION, "person:ada") == (type(word), word.conversation_id, word.by)
    await expect(page.locator("#staged [role=status]")).to_contain_text("Asked for. A card opens")
    row = propose(house, calls)
    house.query("UPDATE read.staged_entries SET commit_id = %s", row["call_id"])
    await opened(house, row)
    for tab in (page, second):
        await expect(tab.locator(".workspace")).to_contain_text("Waiting for a decision.")
        await expect(tab.get_by_role("button", name="Propose changes")).to_have_count(0)
    await page.reload()
    await expect(page.locator(".workspace")).to_contain_text("Waiting for a decision.")


async def test_a_decision_made_elsewhere_takes_it_away(house: House, page: Page) -> None:
    """Decided, it can be discarded no more; when it has its end, nothing is staged; a late click is told so."""
    calls = stage(house, [a_change(a_file("notes.md", after="# Notes\n"))])
    remember(house, calls)
    row = propose(house, calls)
    house.query("UPDATE read.staged_entries SET commit_id = %s", row["call_id"])
    await tell(house, calls[0])
    await visit(house, page, PATH)
    late = await page.context.new_page()
    await visit(house, late, PATH)
    await late.locator(".discard > summary").click()
    house.query("UPDATE read.approvals SET state = 'approved'")
    approval = {"approval_id": row["approval_id"], "call_id": row["call_id"], "state": "approved"}
    await house.append(CONVERSATION, ("approval", approval))
    await expect(page.locator(".workspace")).to_contain_text("Decided: it will be done now.")
    await expect(page.locator(".discard")).to_have_count(0)
    house.query("DELETE FROM read.staged_entries")
    house.query("UPDATE read.workspaces SET state = 'committed', waiting = 0")
    await tell(house, calls[0], kind="succeeded", outcome="committed")
    for tab in (page, late):
        await expect(tab.locator(".workspace")).to_have_count(0)


@pytest.mark.parametrize("scripts", [True, False])
async def test_it_is_thrown_away_with_a_reason(house: House, browser: Browser, scripts: bool) -> None:  # noqa: FBT001
    """With a click to open and one to do it; a form without scripts leads back to the conversation."""
    calls = stage(house, a_busy_turn(0))
    remember(house, calls)
    await tell(house, calls[0])
    page = await signed_in(house, browser, java_script_enabled=scripts)
    await page.goto(f"{house.gateways[0].url}{PATH}")
    await page.locator(".discard > summary").click()
    await page.get_by_placeholder("Reason (optional)").fill("Wrong week")
    await page.get_by_role("button", name="Discard all of it").click()
    word = await asked(house)
    assert (DiscardChanges, "person:ada", "Wrong week") == (type(word), word.by, word.reason)
    await expect(page).to_have_url(f"{house.gateways[0].url}{PATH}")


async def test_a_click_that_comes_too_late_is_told_so(house: House, browser: Browser) -> None:
    """Another tab was faster, and this one has not heard of it: nothing is asked of the agent."""
    calls = stage(house, a_busy_turn(0))
    remember(house, calls)
    await house.append(CONVERSATION, said("m1", "Staged."))
    page = await signed_in(house, browser)
    await visit(house, page, PATH)
    house.query("UPDATE read.workspaces SET state = 'committed', waiting = 0")
    house.query("DELETE FROM read.staged_entries")
    await page.get_by_role("button", name="Propose changes").click()
    await expect(page.locator("#staged [role=status]")).to_contain_text("Nothing waits any more")
    await expect(page.locator(".workspace")).to_have_count(0)
    assert house.posted.empty()


async def test_who_may_only_decide_reads_it_and_changes_nothing(house: House, browser: Browser) -> None:
    """Proposing and discarding are for who may write in the conversation; a foreign form is refused."""
    calls = stage(house, a_busy_turn(0))
    remember(house, calls)
    await tell(house, calls[0])
    page = await signed_in(house, browser, "decide")
    await visit(house, page, PATH)
    await expect(page.locator(".workspace")).to_have_count(1)
    await expect(page.locator(".workspace-acts")).to_have_count(0)
    place = f"{house.gateways[0].url}/ui/conversations/{CONVERSATION}/workspace/discard"
    answer = await page.context.request.post(place, form={"form_token": "x"}, headers={"origin": house.gateways[0].url})
    assert (403, True) == (answer.status, house.posted.empty())


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is fetched by `make setup`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
async def test_what_is_staged_is_for_everybody(
    house: House, browser: Browser, scheme: Any, width: int, tmp_path: Path
) -> None:
    """Axe-core knows no fault of it, open and with the reason asked for; nothing scrolls sideways."""
    calls = stage(house, a_busy_turn(3))
    remember(house, calls)
    await tell(house, calls[0])
    page = await signed_in(house, browser, color_scheme=scheme, viewport={"width": width, "height": 900})
    await visit(house, page, PATH)
    folder = Path(os.environ.get("PLACET_TEST_PICTURES", tmp_path))
    await page.screenshot(path=folder / f"staged-{scheme}-{width}-closed.png")
    await page.locator(".workspace summary").first.click()
    await page.locator(".discard > summary").click()
    await page.screenshot(path=folder / f"staged-{scheme}-{width}.png")
    assert ([], width) == (await faults_of(page), await page.evaluate("document.documentElement.scrollWidth"))

"""The chat page in a real browser against all of Placet, with the demo model: cards, edits, a stop, and a reload."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.async_api import Browser, ConsoleMessage, Locator, Page, expect

from placet.gateway.web.render import set_up_was_run
from tests.e2e.test_embedded import Embedded
from tests.support.ports import free_port
from tests.support.system import ROOT, SHOP_RULEBOOK

AXE = ROOT / "deploy" / "frontend" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`"),
]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Embedded]:
    """A running embedded Placet whose payment links may be edited."""
    content = yaml.safe_load(SHOP_RULEBOOK.read_text())
    (rule,) = (each for each in content["rules"] if each["name"] == "payment-links")
    rule["approval"]["edits"] = True
    rulebook = tmp_path / "rulebook.yaml"
    rulebook.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    made = Embedded(tmp_path / "data", free_port(), {}, ("--rulebook", str(rulebook)))
    made.data.mkdir()
    made.start()
    yield made
    assert made.stop() == 0


@pytest.fixture
async def page(house: Embedded, browser: Browser) -> AsyncIterator[Page]:
    """A page in which the administrator is signed in; anything that its console complains about fails the test."""
    complaints: list[str] = []
    made = await _signed_in(house, browser)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
    yield made
    assert complaints == []


def is_complaint(said: ConsoleMessage) -> bool:
    """Tell whether the console says that something is wrong; axe-core tries styles, which the policy refuses."""
    return said.type == "error" and "inline style" not in said.text


async def _signed_in(house: Embedded, browser: Browser) -> Page:
    admin = house.caller()
    key = (await admin.post("/v1/keys", {"person": "admin", "scopes": ["chat", "decide"]}))["key"]
    page = await (await browser.new_context(locale="en-GB", viewport={"width": 1100, "height": 900})).new_page()
    page.set_default_timeout(30_000)
    form: dict[str, str | float | bool] = {"key": key}
    await page.context.request.post(f"{admin.url}/sign-in", form=form, headers={"origin": admin.url}, max_redirects=0)
    await page.goto(admin.url)
    await expect(page.locator("#connection")).to_have_text("live")
    return page


async def _ask(page: Page, text: str, cards: int) -> Locator:
    """Write a message; return the card that comes of it, the `cards`th in the chat."""
    await page.get_by_placeholder("Write a message").fill(text)
    await page.get_by_role("button", name="Send").click()
    card = page.locator("#feed .card").nth(cards - 1)
    await expect(card.locator(".badge").first).to_have_text("waiting", timeout=30_000)
    return card


async def _faults(page: Page) -> list[str]:
    """Return what axe-core finds; the test speaks to the browser, since the page's policy lets no script in."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{each['id']}: {node['target']}" for each in found["violations"] for node in each["nodes"]]


async def _pictures(page: Page, folder: Path) -> list[str]:
    """Take pictures in both schemes and on a phone; return what axe-core finds in them."""
    found: list[str] = []
    for name, scheme, width in (("light", "light", 1100), ("dark", "dark", 1100), ("phone", "light", 390)):
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        await page.set_viewport_size({"width": width, "height": 900})
        await page.screenshot(path=folder / f"{name}.png")
        found += [f"{name} {fault}" for fault in await _faults(page)] if AXE.is_file() else []
        over = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found += [f"{name} is {over} too wide"] if over > 0 else []
    return found


async def test_cards_are_confirmed_cancelled_edited_and_stopped_and_stay_so(
    house: Embedded, page: Page, tmp_path: Path
) -> None:
    """Each card ends as it was decided, the edit runs as edited, and a reload shows the same history."""
    await page.get_by_placeholder("Write a message").fill("find red shoes under 500")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".carousel")).to_be_visible(timeout=30_000)
    card = await _ask(page, "create a payment link over 299 TRY", 1)
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await card.get_by_role("button", name="Approve", exact=True).click()
    await expect(card.locator(".badge").first).to_have_text("approved")
    await expect(page.locator("a.pay")).to_have_count(1)

    card = await _ask(page, "create a payment link over 150 TRY", 2)
    await card.get_by_role("button", name="Deny", exact=True).click()
    await expect(card.locator(".badge").first).to_have_text("denied")

    card = await _ask(page, "create a payment link over 800 TRY", 3)
    await card.get_by_text("Edit the arguments").click()
    await page.screenshot(path=tmp_path / "edit.png")
    assert [] == (await _faults(page) if AXE.is_file() else [])
    await card.get_by_label("amount").fill("much")
    await card.get_by_role("button", name="Approve with these arguments").click()
    await expect(card.locator(".notice")).to_be_visible()
    await expect(card.get_by_label("amount")).to_have_value("much")
    await card.get_by_label("amount").fill("700")
    await card.get_by_role("button", name="Approve with these arguments").click()
    await expect(card.locator(".badge").first).to_have_text("approved")
    await expect(page.locator("a.pay").last).to_contain_text("700")

    card = await _ask(page, "create a payment link over 500 TRY", 4)
    await page.get_by_role("button", name="Stop").click()
    await expect(card.locator(".badge").first).to_have_text("withdrawn")
    await expect(page.get_by_text("Stopped by admin.", exact=True)).to_be_visible()
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()

    before = await page.locator("#feed .card .badge").all_text_contents()
    assert before == ["approved", "denied", "approved", "withdrawn"]
    await page.reload()
    await expect(page.locator("#feed .card .badge")).to_have_text(before)
    await expect(page.locator("#feed .card form:not(.comment) button")).to_have_count(0)
    await expect(page.locator("a.pay")).to_have_count(2)
    await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert await _pictures(page, tmp_path) == []

    await page.get_by_placeholder("Write a message").fill("find blue bags")
    await page.get_by_placeholder("Write a message").press("Enter")
    answer = page.locator(".said.by-agent", has_text="I am looking for blue bags")
    await expect(answer).to_be_visible(timeout=30_000)

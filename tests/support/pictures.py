"""Pictures of the pages for the docs: `python -m tests.support.services --browser python -m tests.support.pictures`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, ViewportSize, async_playwright

from placet.contracts.messages import ApprovalOpened, ToolCallProposed
from placet.notifier.cards import Card
from placet.notifier.channels.email.links import MailedLink
from placet.notifier.channels.email.mail_templates import Letterhead, Place, letter
from placet.notifier.channels.email.threads import Kind, Told
from placet.notifier.channels.slack_blocks import blocks
from placet.surfaces.card import Argument
from tests.builders import a_call, an_approval_rule
from tests.support.drawn_blocks import drawn
from tests.support.gateway import House, an_approval_row, insert, open_house, prepare
from tests.support.inbox_scene import DIRECTORY, furnish, hold
from tests.support.mailed_links import a_link
from tests.support.postgres import Databases
from tests.support.programs import CHROMIUM, apt, ensure
from tests.support.services import POSTGRES
from tests.support.shown_cards import a_card

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_DESK = {"width": 1100, "height": 820}
_PHONE = {"width": 390, "height": 780}
_MAIL: ViewportSize = {"width": 660, "height": 300}


def surface_card() -> Card:
    """Return the card that mail and Slack show in the pictures."""
    return a_card(
        tool="pay",
        summary="Refund 299 TRY to Lin?",
        requested_by="lin",
        reason="Money moves.",
        rule="payments",
        arguments=[
            Argument("amount", "299", critical=True),
            Argument("currency", "TRY", critical=True),
            Argument("customer", "Lin"),
        ],
        quote="The parcel came back, so I return the money.",
        needed="1 of finance",
        edits=True,
        strength="slack",
    )


async def take_pictures(house: House, browser: Browser, folder: Path) -> None:
    """Take every picture into `folder`."""
    refund = f"/inbox/{furnish(house)['refund']['approval_id']}"
    page = await _page(house, browser, viewport=_DESK)
    await _shoot(house, page, "/inbox", folder / "inbox.png")
    await _shoot(house, page, refund, folder / "inbox-approval.png")
    dark = await _page(house, browser, viewport=_DESK, color_scheme="dark")
    await dark.goto(f"{house.gateways[0].url}/inbox")
    for box in (await dark.locator("input[form=batch]").all())[:2]:
        await box.check()
    await dark.screenshot(path=folder / "inbox-batch-dark.png")
    phone = await _page(house, browser, viewport=_PHONE)
    await _shoot(house, phone, "/inbox", folder / "inbox-phone.png")
    await _take_surfaces(house, browser, folder)


async def _take_surfaces(house: House, browser: Browser, folder: Path) -> None:
    """Take the places besides the inbox: a mail, the page behind its link, the chat, and Slack's blocks, drawn."""
    card = surface_card()
    link = MailedLink("https://placet.example/l/" + "k" * 43, code="K7R4W")
    head = Letterhead("placet@example.org", "")
    mail = letter(head, card, Kind.ASKED, Told(), Place("<1@example.org>", "ada@example.org", link))
    html = mail.get_body(("html",))
    assert html is not None
    await _draw(browser, html.get_content(), folder / "mail.png")
    await _draw(browser, drawn(blocks(card)), folder / "slack-blocks.png")
    page = await (await browser.new_context(locale="en-GB", viewport=_MAIL)).new_page()
    row = hold(house, "pay", "Refund 299 TRY to Lin?", {"amount": 299, "currency": "TRY", "customer": "Lin"})
    await page.goto(f"{house.gateways[0].url}/l/{a_link(house.url, row)}")
    await page.screenshot(path=folder / "mailed-link.png", full_page=True)
    await _take_chat(house, await _page(house, browser, viewport=_DESK), folder / "chat-card.png")


async def _take_chat(house: House, page: Page, file: Path) -> None:
    await page.goto(f"{house.gateways[0].url}/")
    await page.get_by_placeholder("Write a message").fill("A payment link over 299 TRY, please.")
    await page.get_by_role("button", name="Send").click()
    await page.locator(".said.by-me").wait_for()
    call = a_call(conversation_id=page.url.rpartition("conversation=")[2], requester="person:ada")
    row = an_approval_row(call)
    insert(house.url, "approvals", **row)
    opened = {name: row[name] for name in ("approval_id", "revision", "summary", "rule", "reason", "expires_at")}
    await house.deliver(ToolCallProposed(tenant="acme", call=call))
    await house.deliver(ApprovalOpened(tenant="acme", call=call, approval=an_approval_rule(), **opened))
    await page.locator(f"#chat-{row['approval_id']}").wait_for()
    await page.screenshot(path=file)


async def _draw(browser: Browser, html: str, file: Path) -> None:
    page = await (await browser.new_context(viewport=_MAIL)).new_page()
    await page.set_content(html)
    await page.screenshot(path=file, full_page=True)


async def _page(house: House, browser: Browser, **options: Any) -> Page:
    context = await browser.new_context(locale="en-GB", **options)
    url = house.gateways[0].url
    key: dict[str, str | float | bool] = {"key": house.key("chat", "decide")}
    await context.request.post(f"{url}/sign-in", form=key, headers={"origin": url}, max_redirects=0)
    return await context.new_page()


async def _shoot(house: House, page: Page, path: str, file: Path) -> None:
    await page.goto(f"{house.gateways[0].url}{path}")
    await page.locator("#connection[data-state=live]").wait_for()
    await page.screenshot(path=file)


async def main() -> None:
    """Run a gateway with a furnished inbox, and take the docs' pictures of it."""
    databases = Databases(os.environ[POSTGRES])
    with databases.fresh(prepare) as url, tempfile.TemporaryDirectory() as folder:
        async with (
            open_house(url, Path(folder), directory=lambda: DIRECTORY) as house,
            async_playwright() as playwright,
        ):
            browser = await playwright.chromium.launch(executable_path=ensure(CHROMIUM, apt()), args=["--no-sandbox"])
            await take_pictures(house, browser, IMAGES)
            await browser.close()
    databases.close()


if __name__ == "__main__":
    asyncio.run(main())

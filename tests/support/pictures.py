"""Pictures of the pages for the docs: `python -m tests.support.services --browser python -m tests.support.pictures`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from tests.support.gateway import House, open_house, prepare
from tests.support.inbox_scene import DIRECTORY, furnish
from tests.support.postgres import Databases
from tests.support.programs import CHROMIUM, apt, ensure
from tests.support.services import POSTGRES

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_DESK = {"width": 1100, "height": 820}
_PHONE = {"width": 390, "height": 780}


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

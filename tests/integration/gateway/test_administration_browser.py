"""The pages of administrators in a browser: for everybody, on a desk and a phone; and a stop that is seen at once."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from placet.gateway.web.sheets import SHEETS
from tests.integration.gateway.test_administration import a_call_row
from tests.integration.gateway.test_inbox_browser import AXE, faults_of, signed_in
from tests.support.gateway import House, a_delivery_row, insert
from tests.support.inbox_scene import furnish

DESK: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}


async def test_a_stop_is_seen_on_an_open_page(house: House, browser: Browser) -> None:
    """Who has the inbox open sees that calls are stopped without a reload, and cannot approve them after one."""
    rows = furnish(house)
    async with house.client(house.key("admin")) as admin:
        await admin.post("/v1/stops", json={"anyway": True, "tool": "send_mail", "reason": "an incident"})
    page = await signed_in(house, browser, "decide", "admin")
    await page.goto(f"{house.gateways[0].url}/inbox")
    await expect(page.locator(".stopped-line")).to_contain_text("Calls of send_mail do not run. an incident")
    await expect(page.locator(f"#item-{rows['mail']['approval_id']} button.approve")).to_be_disabled()
    await expect(page.locator(f"#item-{rows['pay']['approval_id']} button.approve")).to_be_enabled()


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is fetched by `make setup`")
@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", PHONE)], ids=["desk", "phone"])
async def test_the_pages_are_for_everybody(house: House, browser: Browser, scheme: str, size: ViewportSize) -> None:
    """Axe-core knows no fault of any noun's page, of details, forms and stops, and nothing scrolls sideways."""
    rows = furnish(house)
    insert(house.url, "deliveries", **a_delivery_row("d1", rows["mail"]["approval_id"]))
    lost = a_call_row(house, 1, kind="unknown")
    counter = {"counter_id": "c1", "tenant": "acme", "rule": "small-refunds", "measure": "sum:amount"}
    insert(house.url, "limit_counters", **counter, per="requester", subject="person:ada")
    async with house.client(house.key("admin")) as admin:
        await admin.post("/v1/stops", json={"anyway": True, "tool": "send_mail", "reason": "an incident"})
        changed = (await admin.get("/v1/history")).json()["items"][0]["id"]
    page = await signed_in(house, browser, "decide", "admin", "operate", color_scheme=scheme, viewport=size)
    found, wide = {}, set()
    for path in (
        *(f"/admin/{name}" for name, sheet in SHEETS.items() if not sheet.of_house),
        f"/admin/calls/{lost}",
        "/admin/history?machine=nothing",
        f"/admin/history/{changed}",
        "/admin/rulebook",
        "/admin/insights",
        "/stops",
        "/jobs",
        "/operator",
    ):
        await page.goto(f"{house.gateways[0].url}{path}")
        await expect(page.locator(".stopped-line")).to_be_visible()
        if faults := await faults_of(page):
            found[path] = faults
        wide.add(await page.evaluate("document.documentElement.scrollWidth"))
    assert ({}, {size["width"]}) == (found, wide)


async def test_the_states_to_choose_from_wrap_on_a_phone(house: House, browser: Browser) -> None:
    """Nothing scrolls sideways in German either, whose words are longer."""
    page = await signed_in(house, browser, "decide", "admin", viewport=PHONE, locale="de-DE")
    wide = {}
    for name in (name for name, sheet in SHEETS.items() if sheet.states):
        await page.goto(f"{house.gateways[0].url}/admin/{name}")
        wide[name] = await page.evaluate("document.documentElement.scrollWidth")
    assert {PHONE["width"]} == set(wide.values()), wide

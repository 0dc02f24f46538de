"""Where the pages say who is on duty: the groups of administrators, and the page of an approval."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect

from placet.contracts.dead_letters import HOUSE_TENANT
from placet.domain.duty import CalendarFile, GroupDuty, Hours, Rotation, Shift
from tests.integration.gateway.test_inbox_browser import AXE, faults_of
from tests.integration.gateway.test_inbox_browser import signed_in as signed_in_browser
from tests.integration.gateway.test_inbox_page import signed_in
from tests.support.gateway import open_house
from tests.support.inbox_scene import DIRECTORY, hold


async def test_pages_say_who_is_on_duty_now(gateway_database_url: str, tmp_path: Path) -> None:
    """Until when, or that nobody is; with the hours, in the reader's language; and only of groups that have a plan."""
    begins = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
    hours = Hours(time(9), time(17, 30), frozenset({0, 4}), "Europe/Berlin")
    duty = {
        "finance": GroupDuty(hours, Rotation(("ada", "grace"), begins, 7)),
        "late": GroupDuty(plan=CalendarFile("x")),
    }
    groups = {**DIRECTORY.groups, "late": frozenset({"grace"}), "all": frozenset({"ada"})}
    known = replace(DIRECTORY, groups=groups, duty=duty)
    async with open_house(gateway_database_url, tmp_path, directory=lambda: known) as house:
        key = house.key("admin", tenant="default")
        row = hold(house, "refund", "Refund?", {}, approval_rule={"approvers": ["group:finance", "group:all"]})
        async with httpx.AsyncClient(
            base_url=house.gateways[0].url, headers={"authorization": f"Bearer {key}"}, timeout=30
        ) as boss:
            english = (await boss.get("/admin/groups")).text
            german = (await boss.get("/admin/groups", headers={"accept-language": "de"})).text
        async with signed_in(house, "ada") as browser:
            page = (await browser.get(f"/inbox/{row['approval_id']}")).text

    assert ("Ada until " in english, "Mon, Fri 09:00-17:30 Europe/Berlin" in english) == (True, True)
    assert "unknown: the calendar of late cannot be read, so the whole group is asked" in english
    assert ("Im Dienst" in german, "Ada bis " in german, "Mo, Fr 09:00-17:30 Europe/Berlin" in german) == (True,) * 3
    assert (1, True) == (page.count("On duty:"), "On duty: Ada until " in page)


async def test_lists_say_who_is_on_duty_and_work_each_group_out_once(gateway_database_url: str, tmp_path: Path) -> None:
    """Inbox, pane and chat name who is on duty on each waiting card; a page asks a calendar once, however long."""
    asked: list[datetime] = []

    def shifts(at: datetime) -> list[Shift]:
        asked.append(at)
        return [Shift(at - timedelta(hours=1), at + timedelta(hours=1), frozenset({"grace"}))]

    calendar = CalendarFile("x", problem="", shifts=shifts)
    known = replace(DIRECTORY, duty={"finance": GroupDuty(plan=calendar)})
    async with open_house(gateway_database_url, tmp_path, directory=lambda: known) as house:
        rule = {"approvers": ["group:finance"]}
        rows = [hold(house, "refund", f"Refund {each}?", {}, approval_rule=rule) for each in range(30)]
        hold(house, "refund", "Refunded?", {}, approval_rule=rule, state="approved")
        async with signed_in(house, "ada") as browser:
            pages = []
            for address in ("/inbox?view=all", "/ui/approvals", f"/ui/approvals/{rows[0]['approval_id']}?place=chat"):
                asked.clear()
                page = (await browser.get(address)).text
                pages.append((page.count("On duty: Grace until "), len(asked)))

    assert pages == [(30, 1), (30, 1), (1, 1)]


async def test_pages_name_nobody_as_on_duty_who_may_not_decide(gateway_database_url: str, tmp_path: Path) -> None:
    """Who asked for a call under four eyes is on call and not named: on no page, list or pane."""
    begins = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
    known = replace(DIRECTORY, duty={"finance": GroupDuty(plan=Rotation(("grace",), begins, 7))})
    async with open_house(gateway_database_url, tmp_path, directory=lambda: known) as house:
        rule = {"approvers": ["group:finance"], "exclude": ["requester"]}
        row = hold(house, "refund", "Refund?", {}, approval_rule=rule, requester="person:grace")
        async with signed_in(house, "ada") as browser:
            addresses = ("/inbox", "/ui/approvals", f"/inbox/{row['approval_id']}")
            pages = [(await browser.get(each)).text for each in addresses]
    told = "On duty: nobody in finance who may decide this, so the whole group is asked"
    assert [True] * 3 == [told in each for each in pages]


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is fetched by `make setup`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
async def test_who_is_on_duty_is_for_everybody(
    gateway_database_url: str, tmp_path: Path, browser: Browser, width: int, scheme: str
) -> None:
    """Axe-core knows no fault of the groups and of cards that name who is on duty, and nothing scrolls sideways."""
    begins = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
    finance = GroupDuty(Hours(time(9), time(17)), Rotation(("ada", "grace"), begins, 7))
    groups = {**DIRECTORY.groups, "late": frozenset({"grace"}), "all": frozenset({"ada"})}
    known = replace(DIRECTORY, groups=groups, duty={"finance": finance, "late": GroupDuty(plan=CalendarFile("x"))})
    async with open_house(gateway_database_url, tmp_path, directory=lambda: known) as house:
        approvers = ["group:finance", "group:late"]
        row = hold(house, "refund", "Refund 299 TRY?", {"amount": 299}, approval_rule={"approvers": approvers})
        hold(house, "deploy", "Deploy?", {"version": "2"}, approval_rule={"approvers": approvers})
        viewport = {"width": width, "height": 900}
        look: dict[str, Any] = {"color_scheme": scheme, "viewport": viewport}
        boss = await signed_in_browser(house, browser, "decide", "admin", tenant=HOUSE_TENANT, **look)
        ada = await signed_in_browser(house, browser, **look)
        pages = {"/admin/groups": boss, "/inbox": ada, "/inbox?tool=refund": ada, f"/inbox/{row['approval_id']}": ada}
        found, wide = {}, set()
        for path, page in pages.items():
            await page.goto(f"{house.gateways[0].url}{path}")
            await expect(page.get_by_text("Ada until").first).to_be_attached()
            if path == "/inbox?tool=refund":
                await page.locator(".item a.open").first.click()
            await page.screenshot(path=tmp_path / f"{width}-{scheme}-{path.replace('/', '_')[:16]}.png")
            if faults := await faults_of(page):
                found[path] = faults
            wide.add(await page.evaluate("document.documentElement.scrollWidth"))
    assert ({}, {width}) == (found, wide)

"""The inbox as a dense list with a preview: found by order, value and word, decided without losing the place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from placet.contracts.messages import ApprovalClosed
from placet.gateway.web.render import set_up_was_run
from tests.integration.gateway.test_inbox_browser import AXE, faults_of, opened, signed_in, visit
from tests.support.gateway import House, open_house
from tests.support.inbox_scene import DIRECTORY, furnish, hold

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`"),
]
CURRENT = ".item[data-current]"
#: Resolves once the page has been fetched again and is drawn.
DRAWN_ANEW = """() => new Promise((drawn) => {
  document.addEventListener("htmx:after:settle", drawn, { once: true });
  document.getElementById("main").dispatchEvent(new CustomEvent("refresh"));
}).then(() => null)"""


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that sends decisions at once."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 0}
    async with open_house(gateway_database_url, tmp_path, **settings) as made:
        yield made


@pytest.fixture
async def page(house: House, browser: Browser) -> Page:
    """A page on a wide screen, in which ada is signed in."""
    return await signed_in(house, browser, viewport={"width": 1440, "height": 900})


def hold_many(house: House, count: int) -> list[dict[str, Any]]:
    """Let so many calls wait, the first of them for the longest time."""
    now = datetime.now(UTC)
    times = [
        {"created_at": now - timedelta(minutes=count - n), "expires_at": now + timedelta(hours=5, minutes=n % 7)}
        for n in range(count)
    ]
    return [
        hold(house, "ship", f"Ship order {1000 + n}?", {"order": 1000 + n, "to": f"street-{n}"}, **times[n])
        for n in range(count)
    ]


async def test_a_wide_screen_shows_the_list_and_beside_it_the_current_card(house: House, page: Page) -> None:
    """The first is open; a click on another line shows that one, and the list stays where it was."""
    hold_many(house, 40)
    await visit(house, page, "/inbox")
    line, pane = page.locator(CURRENT), page.locator(f"{CURRENT} .detail")
    await expect(line).to_contain_text("Ship order 1039?")
    await expect(page.locator(".item .detail").locator("visible=true")).to_have_count(1)
    await page.get_by_role("link", name="Ship order 1005?").click()
    await expect(pane).to_contain_text("street-5")
    boxes = [await each.bounding_box() for each in (line, pane)]
    assert all(boxes)
    beside = [box["x"] + box["width"] for box in boxes[:1] if box] <= [box["x"] for box in boxes[1:] if box]
    assert (True, "/inbox") == (beside, page.url.removeprefix(house.gateways[0].url))


async def test_a_line_that_warns_still_names_its_tool(house: House, page: Page) -> None:
    """However much stands before it: the line gets a second one."""
    changes = {"category": "unsafe_write", "requester": "person:bartholomew-the-second-of-the-north"}
    hold(house, "transfer_money", "Transfer it?", {"to": "P\u0430yPal"}, **changes)
    await visit(house, page, "/inbox")
    line = page.locator(".item .what .meta")
    await expect(line.locator(".look")).to_have_text("⚠ look twice")
    assert await line.locator("code").evaluate("each => each.clientWidth > 0 && each.scrollWidth <= each.clientWidth")


async def test_a_phone_shows_the_list_and_then_the_card(house: House, browser: Browser) -> None:
    """No card is open; a tap opens one where it stands, another tap closes it."""
    row = furnish(house)["mail"]
    page = await signed_in(house, browser, viewport={"width": 390, "height": 844}, has_touch=True)
    await visit(house, page, "/inbox")
    details = page.locator(".item .detail").locator("visible=true")
    await expect(details).to_have_count(0)
    await page.get_by_role("link", name=row["summary"]).tap()
    await expect(details).to_contain_text("Your offer")
    await page.get_by_role("link", name=row["summary"]).tap()
    await expect(details).to_have_count(0)


async def test_a_phone_gives_the_grant_s_button_a_line_of_its_own(house: House, browser: Browser) -> None:
    """Its words are long: they squeeze neither themselves nor Approve and Deny beside them."""
    hold(house, "ask", "Ask?", {}, approval_rule={"approvers": ["operators"], "grants": {"uses": 5}})
    page = await signed_in(house, browser, viewport={"width": 390, "height": 844})
    await visit(house, page, "/inbox")
    await page.get_by_role("link", name="Ask?").click()
    again, approve = page.locator("button.again"), page.get_by_role("button", name="Approve", exact=True)
    boxes = [await each.bounding_box() for each in (again, approve)]
    assert [True] * 2 == [box is not None and box["height"] < 60 for box in boxes]


async def test_the_oldest_of_300_is_decided_with_two_actions(house: House, page: Page) -> None:
    """Another order, and its button: the card that the button stands on is the one that is approved."""
    rows = hold_many(house, 300)
    await visit(house, page, "/inbox")
    await expect(page.locator("#total")).to_have_text("50 of 300 approvals")
    await page.get_by_role("combobox", name="Order").select_option("Oldest first")
    await page.locator(CURRENT).get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator(f"#item-{rows[0]['approval_id']} .badge")).to_have_text("approved")
    assert [rows[0]["digest"]] == [claims.digest for claims in house.approvers.claims]


async def test_any_of_300_is_found_by_a_word_of_its_arguments_and_decided_with_three(house: House, page: Page) -> None:
    """Typed, sent, decided: the beginning of a word that stands in no summary is enough."""
    rows = hold_many(house, 300)
    await visit(house, page, "/inbox")
    await page.get_by_label("Search").fill('"street 137"')
    await page.keyboard.press("Enter")
    await page.locator(CURRENT).get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator(f"#item-{rows[137]['approval_id']} .badge")).to_have_text("approved")
    assert [rows[137]["digest"]] == [claims.digest for claims in house.approvers.claims]


async def test_one_decision_after_another_never_leaves_the_list(house: House, page: Page) -> None:
    """Each press decides the card that is shown, and the next one is shown by then."""
    rows = hold_many(house, 5)
    await visit(house, page, "/inbox")
    for row in reversed(rows):
        await expect(page.locator(CURRENT)).to_have_id(f"item-{row['approval_id']}")
        await page.keyboard.press("a")
        await page.keyboard.press("Enter")
        await expect(page.locator(f"#item-{row['approval_id']} .badge")).to_have_text("approved")
    decided = [claims.approval_id for claims in house.approvers.claims]
    assert [row["approval_id"] for row in reversed(rows)] == decided


async def test_a_reload_keeps_the_card_that_was_looked_at(house: House, page: Page) -> None:
    """Keys go on from there."""
    rows = hold_many(house, 9)
    await visit(house, page, "/inbox")
    for key in "jjj":
        await page.keyboard.press(key)
    await page.reload()
    await expect(page.locator("#connection")).to_have_text("live", timeout=60_000)
    await expect(page.locator(CURRENT)).to_have_id(f"item-{rows[5]['approval_id']}")
    await page.keyboard.press("j")
    await expect(page.locator(CURRENT)).to_have_id(f"item-{rows[4]['approval_id']}")


async def test_the_last_card_of_a_page_leads_to_the_next_page(house: House, page: Page) -> None:
    """Who goes down the list need not leave the keyboard at its end."""
    rows = hold_many(house, 52)
    await visit(house, page, "/inbox")
    for _ in range(49):
        await page.keyboard.press("j")
    await expect(page.locator(CURRENT)).to_have_id(f"item-{rows[2]['approval_id']}")
    await page.keyboard.press("j")
    await expect(page.locator(CURRENT)).to_have_id(f"item-{rows[1]['approval_id']}")


async def test_filters_show_what_there_is_and_how_often(house: House, page: Page) -> None:
    """One click narrows the list, a second one takes the filter away."""
    furnish(house)
    await visit(house, page, "/inbox")
    await page.get_by_text("More filters").click()
    tools = page.get_by_role("region", name="Tool")
    await expect(tools.get_by_role("listitem")).to_have_text(
        ["create_pay_link 2", "deploy 1", "refund 1", "send_mail 1"]
    )
    await tools.get_by_role("link", name="create_pay_link").click()
    await expect(page.locator("#total")).to_have_text("2 approvals")
    await page.get_by_role("link", name="Remove the filter Tool: create_pay_link").click()
    await expect(page.locator("#total")).to_have_text("5 approvals")


async def test_a_list_is_sorted_and_grouped_as_asked(house: House, page: Page) -> None:
    """By deadline, and by amount in groups: each group where its first card would stand."""
    furnish(house)
    titles = page.locator(".item h2")
    await visit(house, page, "/inbox?sort=deadline")
    await expect(titles.nth(0)).to_contain_text("Deploy")
    await expect(titles.nth(1)).to_contain_text("Refund")
    await page.get_by_role("combobox", name="Order").select_option("Amount")
    await expect(titles.nth(0)).to_contain_text("Refund")
    await page.wait_for_load_state()
    await page.get_by_role("combobox", name="Grouped by").select_option("Tool")
    groups = ["refund 1", "create_pay_link 2", "deploy 1", "send_mail 1"]
    await expect(page.locator("h2.group")).to_have_text(groups)


async def test_a_list_is_kept_under_a_name(house: House, page: Page, browser: Browser) -> None:
    """It is there in another browser of the same person, for nobody else, and gone once it is deleted."""
    furnish(house)
    await visit(house, page, "/inbox?category=unsafe_exec&sort=deadline")
    await page.get_by_text("Save this view").click()
    await page.get_by_label("Name of the view").fill("Runs code <b>")
    await page.get_by_role("button", name="Save", exact=True).click()
    views = page.get_by_role("navigation", name="Views").get_by_role("link")
    await expect(views).to_have_text(["Needs my decision", "All", "Runs code <b>"])
    other = await signed_in(house, browser)
    await visit(house, other, "/inbox?category=unsafe_write")
    await other.get_by_text("Save this view").click()
    await other.get_by_label("Name of the view").fill("Runs code <b>")
    await other.get_by_role("button", name="Save", exact=True).click()
    await expect(other.locator("main")).to_contain_text("You keep another view of that name")
    await visit(house, other, "/inbox")
    await other.get_by_role("link", name="Runs code <b>").click()
    await expect(other.locator(".item h2")).to_have_text("Deploy checkout 2026.11.3 to eu-central?")
    await other.get_by_role("button", name="Delete this view").click()
    await page.reload()
    await expect(views).to_have_text(["Needs my decision", "All"])


async def test_all_of_a_filter_are_chosen_as_far_as_the_page_says_how_they_differ(house: House, page: Page) -> None:
    """Sixty that differ in named arguments go together, beyond one page; what is masked is left to be looked at."""
    for number in range(60):
        hold(house, "note", "Write a note?", {"text": f"note {number}"})
    masked = hold(house, "charge", "Charge a card? note", {"card": "•••"})
    hold(house, "charge", "Charge a card? note", {"card": "•••"})
    await visit(house, page, "/inbox?q=note")
    await page.get_by_role("link", name="Select all that match").click()
    await expect(page.locator("#chosen")).to_have_text("60 selected")
    await expect(page.locator(f"#item-{masked['approval_id']} input[form=batch]")).not_to_be_checked()
    await page.get_by_role("button", name="Approve selected").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("60 of 60 decided", timeout=60_000)


async def test_all_of_a_filter_are_chosen_where_sentences_name_what_differs(house: House, page: Page) -> None:
    """One table shows it, whatever the sentences; another rule, a long text and a trick stand apart, unselected."""
    for number in range(40):
        hold(house, "close", f"Close ticket {number}?", {"ticket": number, "why": "done"})
    apart = [
        hold(house, "close", "Close ticket 50?", {"ticket": 50, "why": "done"}, rule="another"),
        hold(house, "close", "Close ticket 51?", {"ticket": 51, "why": "do\u202ene"}),
        hold(house, "close", "Close ticket 52?", {"ticket": 52, "why": "done " * 40}),
        hold(house, "close", "Close ticket 53?", {"ticket": 53, "why": "done", "how": "fast"}),
        *(hold(house, "note", f"Write {letter}?", {"text": letter * 161}) for letter in "ab"),
    ]
    await visit(house, page, "/inbox?agent=default&whole=1")
    await expect(page.locator("#chosen")).to_have_text("40 selected")
    await expect(page.locator(".alike .label")).to_contain_text("40 calls of the same tool with different arguments")
    await expect(page.locator(".differences thead th")).to_have_text(["Asked by", "ticket"])
    for row in apart:
        await expect(page.locator(f".list > #item-{row['approval_id']}")).to_have_count(1)


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is fetched by `make setup`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
async def test_list_and_preview_are_for_everybody(house: House, browser: Browser, width: int, scheme: str) -> None:
    """No fault that axe-core knows: groups, open filters, chips, a name to be typed, an open card."""
    furnish(house)
    page = await signed_in(house, browser, viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = dict[str, list[str]]()
    for path in ("/inbox?group=tool&sort=risk", "/inbox?view=all&category=unsafe_api&agent=default"):
        await visit(house, page, path)
        for fold in await page.locator(".side details > summary").all():
            await fold.click()
        await page.locator(".item a.open").first.click()
        found[path] = await faults_of(page)
    assert {} == {name: faults for name, faults in found.items() if faults}


async def test_a_decision_on_its_own_page_can_be_taken_back_too(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """Nothing is sent before its time; undone, the form is as it was; what is left or signed out of is meant."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 60}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        row, page = furnish(house)["mail"], await signed_in(house, browser)
        await visit(house, page, f"/inbox/{row['approval_id']}")
        await page.get_by_label("Reason").fill("As agreed")
        await page.get_by_role("button", name="Approve", exact=True).click()
        await expect(page.locator(".panel .taken").get_by_role("status")).to_have_text("Approved.")
        await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_hidden()
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await page.evaluate(DRAWN_ANEW)
        await expect(page.locator(".panel .taken").get_by_role("status")).to_have_text("Approved.")
        await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_hidden()
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await page.keyboard.press("z")
        await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
        await expect(page.get_by_label("Reason")).to_have_value("As agreed")
        assert [] == house.approvers.claims
        await page.get_by_role("button", name="Deny", exact=True).click()
        await expect(page.locator(".panel .taken").get_by_role("status")).to_have_text("Denied.")
        await page.goto("about:blank")
        async with asyncio.timeout(60):
            await house.approvers.heard.wait()
        assert [("deny", "As agreed")] == [(claims.verb, claims.reason) for claims in house.approvers.claims]


async def test_an_edit_on_its_own_page_says_that_it_approves_and_can_be_taken_back(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """It lets the call run as a plain approval does: undone, what was typed stands there; left, it is sent."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 60}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        rule = {"approvers": ["operators"], "edits": True}
        row = hold(house, "send_mail", "Send it?", {"to": "lin@example.org"}, approval_rule=rule)
        page = await signed_in(house, browser)
        await visit(house, page, f"/inbox/{row['approval_id']}")
        await page.keyboard.press("e")
        await page.get_by_label("Arguments, as JSON").fill('{"to":"ada@example.org"}')
        approve = page.get_by_role("button", name="Approve with these arguments")
        await approve.click()
        await expect(page.locator(".panel .taken").get_by_role("status")).to_have_text("Approved.")
        await page.keyboard.press("z")
        await expect(approve).to_be_focused()
        await expect(page.get_by_label("Arguments, as JSON")).to_have_value('{"to":"ada@example.org"}')
        assert [] == house.approvers.claims
        await approve.click()
        await expect(page.locator(".panel .taken")).to_have_count(1)
        await page.goto("about:blank")
        async with asyncio.timeout(60):
            await house.approvers.heard.wait()
        assert ['{"to":"ada@example.org"}'] == [claims.arguments for claims in house.approvers.claims]


async def test_a_decision_on_its_own_page_is_sent_by_itself_or_said_to_be_late(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """After its time the page says what came of it; where somebody else was faster, that nothing was sent, to stay."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 1}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        rows, page = furnish(house), await signed_in(house, browser)
        await visit(house, page, f"/inbox/{rows['mail']['approval_id']}")
        await page.get_by_role("button", name="Approve", exact=True).click()
        await page.wait_for_url("**?done=approve")
        assert ["approve"] == [claims.verb for claims in house.approvers.claims]
    settings["gateway_undo_seconds"] = 60
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        page = await signed_in(house, browser)
        await visit(house, page, f"/inbox/{rows['refund']['approval_id']}")
        await page.get_by_role("button", name="Approve", exact=True).click()
        over = "UPDATE read.approvals SET state = 'denied', decided_by = 'person:cy', closed_at = now()"
        house.query(f"{over} WHERE approval_id = %s", rows["refund"]["approval_id"])
        notice, panel = page.get_by_role("alert"), page.locator(".panel .deadline")
        await page.locator("#main").dispatch_event("refresh")
        await expect(notice).to_have_text("Your decision was not sent: somebody else decided first.")
        house.query(f"{over.replace('denied', 'withdrawn')} WHERE approval_id = %s", rows["refund"]["approval_id"])
        await page.locator("#main").dispatch_event("refresh")
        await expect(panel).to_contain_text("withdrawn")
        await expect(notice).to_have_text("Your decision was not sent: somebody else decided first.")
        assert [] == house.approvers.claims


async def test_what_moves_up_from_the_next_page_is_not_new(house: House, page: Page) -> None:
    """Others decide, and the list is looked at again: only what was asked for since is counted."""
    rows = hold_many(house, 53)
    await visit(house, page, "/inbox")
    closed = (
        "UPDATE read.approvals SET state = 'denied', decided_by = 'person:grace', closed_at = now(), revision = 2"
        " WHERE approval_id = %s"
    )
    for row in rows[-2:]:
        house.query(closed, row["approval_id"])
        place = {name: row[name] for name in ("approval_id", "conversation_id", "call_id")}
        await house.deliver(
            ApprovalClosed(tenant="acme", **place, revision=2, state="denied", closed_at=datetime.now(UTC))
        )
        await expect(page.locator(f"#item-{row['approval_id']}")).to_contain_text("denied")
    await expect(page.locator("#total")).to_contain_text("of 51")
    await expect(page.locator("#fresh")).to_be_hidden()
    await opened(house, hold(house, "ask", "Newly asked?", {}))
    await expect(page.locator("#fresh-show")).to_have_text("Show 1 new approval")


async def test_what_is_decided_together_can_be_taken_back_in_sight(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """Undo stands where the buttons stood, and a second tap does not hit it."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 60}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        furnish(house)
        for size in ({"width": 1440, "height": 900}, {"width": 390, "height": 844}):
            page = await signed_in(house, browser, viewport=size)
            await visit(house, page, "/inbox")
            await page.get_by_role("button", name="Select these 2").click()
            bar = await page.get_by_role("button", name="Approve selected").bounding_box()
            assert bar is not None
            await page.mouse.dblclick(bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2)
            line = page.locator(".inbox > .taken")
            await expect(line.get_by_role("status")).to_have_text("2 approved.")
            await expect(page.get_by_role("button", name="Approve selected")).to_be_hidden()
            await page.wait_for_function(
                "at => performance.now() - at > 800", arg=await page.evaluate("performance.now()")
            )
            await line.get_by_role("button", name="Undo").click()
            await expect(page.get_by_role("button", name="Approve selected")).to_be_visible()
        assert [] == house.approvers.claims


async def test_what_is_decided_together_leaves_the_list_where_it_is(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """What is written meanwhile stays, and what became of each is told above the list."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 1}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        rows = furnish(house)
        page = await signed_in(house, browser, viewport={"width": 1440, "height": 900})
        await visit(house, page, "/inbox")
        await page.get_by_role("button", name="Select these 2").click()
        await page.get_by_role("button", name="Approve selected").click()
        await page.get_by_role("link", name=rows["mail"]["summary"]).click()
        await page.locator(f"#reason-{rows['mail']['approval_id']}").fill("half a th")
        told = page.locator(".batch-told")
        await expect(told.get_by_role("status")).to_have_text("2 of 2 decided")
        await told.get_by_text("Result").click()
        await expect(told.locator(".outcomes li")).to_have_count(2)
        await expect(page.locator(f"#reason-{rows['mail']['approval_id']}")).to_have_value("half a th")
        assert ["approve", "approve"] == [claims.verb for claims in house.approvers.claims]
        await told.get_by_role("button", name="Close").click()
        await expect(told).to_have_count(0)
        assert [] == await faults_of(page)

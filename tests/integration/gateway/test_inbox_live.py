"""An open page of the inbox shows what is, also what it was never told of, and keeps what is being written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Request, Route, expect
from psycopg.types.json import Jsonb

from placet.gateway.web.render import set_up_was_run
from tests.integration.gateway.test_inbox_browser import signed_in, visit
from tests.integration.gateway.test_inbox_panes import CURRENT, hold_many
from tests.support.gateway import House, open_house
from tests.support.inbox_scene import DIRECTORY, furnish, hold, vote

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`"),
]


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that sends decisions after a second."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 1}
    async with open_house(gateway_database_url, tmp_path, **settings) as made:
        yield made


@pytest.fixture
async def page(house: House, browser: Browser) -> Page:
    """A page on a wide screen, in which ada is signed in."""
    return await signed_in(house, browser, viewport={"width": 1440, "height": 900})


def deny(house: House, row: dict[str, Any]) -> None:
    """Let somebody else decide, and tell nobody."""
    sql = "UPDATE read.approvals SET state = 'denied', decided_by = 'person:grace', closed_at = now()"
    house.query(f"{sql} WHERE approval_id = %s", row["approval_id"])


async def tell(house: House, row: dict[str, Any]) -> None:
    """Tell every page that something has happened to an approval."""
    told = {name: row[name] for name in ("approval_id", "call_id", "turn_id", "summary", "tool", "digest")}
    await house.append(row["conversation_id"], ("approval", {**told, "state": "pending"}))


async def sign_in_beside(house: House, page: Page, person: str) -> None:
    """Let somebody sign in by another tab of the same browser."""
    url = house.gateways[0].url
    form: dict[str, str | float | bool] = {"key": house.key("chat", "decide", person=person)}
    await page.context.request.post(f"{url}/sign-in", form=form, headers={"origin": url}, max_redirects=0)


async def decided_unseen(house: House, page: Page, row: dict[str, Any], when: str) -> None:
    """Let somebody else decide when the page is drawn, but its stream has not begun, or has broken off."""
    begins = iter(["broken"] if when == "while it was broken" else [])

    async def begin(route: Route) -> None:
        if next(begins, ""):
            await route.fulfill(body="retry: 10\n\n", content_type="text/event-stream")
            return
        deny(house, row)
        await route.continue_()

    await page.route("**/ui/events*", begin)


@pytest.mark.parametrize("when", ["before it began", "while it was broken"])
async def test_a_list_looks_again_when_its_stream_begins(house: House, page: Page, when: str) -> None:
    """What was decided while nobody told the page of it offers no buttons, and counts no more."""
    row = furnish(house)["mail"]
    await decided_unseen(house, page, row, when)
    await visit(house, page, "/inbox")
    card = page.locator(f"#item-{row['approval_id']}")
    await expect(card.locator(".badge")).to_have_text("denied")
    await expect(card.locator("form.verdict")).to_have_count(0)
    await expect(page.locator("#total")).to_have_text("4 approvals")
    await expect(page).to_have_title("(4) Inbox · Placet")


@pytest.mark.parametrize("when", ["before it began", "while it was broken"])
async def test_an_approval_s_page_looks_again_when_its_stream_begins(house: House, page: Page, when: str) -> None:
    """It says who decided, and its buttons are gone."""
    row = furnish(house)["mail"]
    await decided_unseen(house, page, row, when)
    await visit(house, page, f"/inbox/{row['approval_id']}")
    await expect(page.locator(".panel .badge").first).to_have_text("denied")
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


async def test_an_approval_that_has_not_changed_is_not_said_to_have(house: House, page: Page) -> None:
    """The page looks again when its stream begins, and finds what it shows."""
    row = furnish(house)["mail"]
    async with page.expect_response(lambda each: each.request.resource_type == "fetch") as looked:
        await visit(house, page, f"/inbox/{row['approval_id']}")
    await (await looked.value).finished()
    await page.wait_for_load_state("networkidle")
    await expect(page.locator("#fresh")).to_be_hidden()


async def test_a_page_that_the_browser_kept_is_loaded_again(house: House, page: Page) -> None:
    """Its stream ended when it was left, and what was pressed in it was sent."""
    await visit(house, page, "/inbox")
    async with page.expect_navigation():
        await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")


async def test_many_decided_together_are_asked_for_together(house: House, page: Page) -> None:
    """Sixty cards cost a few requests, however they are told of, and the counts are right at once."""
    for _ in range(60):
        hold(house, "ping", "Ping the host?", {"host": "h"})
    await visit(house, page, "/inbox?tool=ping&whole=1")
    await expect(page.locator("#chosen")).to_have_text("60 selected")
    await page.wait_for_load_state("networkidle")
    asked: list[str] = []

    def hear(request: Request) -> None:
        asked.append(f"{request.method} {request.url}")

    page.on("request", hear)
    await page.get_by_role("button", name="Approve selected").click()
    await expect(page.locator(".batch-told").get_by_role("status")).to_have_text("60 of 60 decided", timeout=60_000)
    await expect(page.locator(".item.approved")).to_have_count(60)
    await expect(page.locator("#total")).to_be_empty()
    await expect(page).to_have_title("Inbox · Placet")
    gets = [each for each in asked if each.startswith("GET")]
    assert 3 == len(gets), gets


async def test_a_whole_selection_is_announced_until_it_is_sent(house: House, page: Page) -> None:
    """What counts the selection goes with it."""
    for number in range(3):
        hold(house, "close", f"Close ticket {number}?", {"ticket": number})
    await visit(house, page, "/inbox?tool=close&whole=1")
    told = page.get_by_text("3 approvals are selected.")
    await expect(told).to_be_visible()
    await page.get_by_role("button", name="Approve selected").click()
    await expect(page.locator(".batch-told")).to_contain_text("3 of 3 decided")
    await expect(told).to_have_count(0)


async def test_who_takes_one_out_of_a_whole_selection_is_not_told_of_all(house: House, page: Page) -> None:
    """After a reload nothing is selected, and not all of it again."""
    for number in range(3):
        hold(house, "close", f"Close ticket {number}?", {"ticket": number})
    await visit(house, page, "/inbox?tool=close&whole=1")
    await page.locator("input[form=batch]").first.uncheck()
    await expect(page.locator("#chosen")).to_have_text("2 selected")
    await expect(page.locator("#whole-count")).to_have_count(0)
    await page.reload()
    await expect(page.locator("#chosen")).to_have_text("0 selected")
    await expect(page.locator("#whole-told")).to_have_count(0)


async def test_a_table_says_which_of_its_calls_wait_no_more(house: House, page: Page) -> None:
    """Decided elsewhere while all that match are selected: its row says how, and its counts are those of the bar."""
    rows = [hold(house, "close", f"Close ticket {number}?", {"ticket": number}) for number in range(3)]
    await visit(house, page, "/inbox?tool=close&whole=1")
    deny(house, rows[0])
    await tell(house, rows[0])
    row = page.locator(f".differences tr:has(a[href='#item-{rows[0]['approval_id']}'])")
    await expect(row.locator(".badge")).to_have_text("denied")
    await expect(page.locator(".differences .badge")).to_have_count(1)
    await expect(page.locator(".alike .over-now")).to_have_text("No longer waiting: 1")
    await expect(page.locator("#chosen")).to_have_text("2 selected")


async def test_what_comes_after_a_whole_selection_is_not_selected(house: House, page: Page) -> None:
    """Nobody has seen it when they selected all, nor a selected call's arguments as an edit left them."""
    rows = [hold(house, "close", f"Close ticket {number}?", {"ticket": number}) for number in range(3)]
    await visit(house, page, "/inbox?tool=close&whole=1")
    await expect(page.locator("#chosen")).to_have_text("3 selected")
    rows.append(hold(house, "close", "Close ticket 3?", {"ticket": 3}))
    await tell(house, rows[-1])
    await page.get_by_role("button", name="Show 1 new approval").click()
    boxes = [page.locator(f"#item-{row['approval_id']} input[form=batch]") for row in rows]
    await expect(boxes[3]).not_to_be_checked()
    await expect(page.locator("#chosen")).to_have_text("3 selected")
    house.query(
        "UPDATE read.approvals SET revision = 2, digest = %s WHERE approval_id = %s", "e" * 64, rows[0]["approval_id"]
    )
    await tell(house, rows[0])
    await expect(page.locator("#chosen")).to_have_text("2 selected")
    await expect(boxes[0]).not_to_be_checked()
    await boxes[3].check()
    await expect(page.locator("#chosen")).to_have_text("3 selected")


async def test_what_i_have_approved_waits_for_others(house: House, page: Page) -> None:
    """Where two must approve, my vote stands on the card's line, and the card is not counted as mine any more."""
    row = furnish(house)["refund"]
    await visit(house, page, "/inbox")
    await expect(page.locator("#total")).to_have_text("5 approvals")
    vote(house, row, "ada")
    closed = Jsonb({"person:lin": None, "person:ada": None})
    house.query("UPDATE read.approvals SET revision = 2, closed_to = %s WHERE tool = 'refund'", closed)
    await tell(house, row)
    card = page.locator(f"#item-{row['approval_id']}")
    await expect(card.locator(".what .badge")).to_have_text("you approved")
    await expect(page.locator("#total")).to_have_text("4 approvals")
    await expect(page.locator(".item.pending")).to_have_count(5)


async def test_a_comment_that_is_being_written_stays(house: House, page: Page) -> None:
    """Somebody says that they are on it, and the card is drawn anew around what is written in it."""
    row = furnish(house)["mail"]
    await visit(house, page, "/inbox?tool=send_mail")
    card = page.locator(f"#item-{row['approval_id']}")
    await card.get_by_label("Comment").fill("half a th")
    await card.get_by_label("Reason").fill("half a reason")
    claim = "UPDATE read.approvals SET revision = 2, claimed_by = 'person:grace', claimed_until = now() + interval '1h'"
    house.query(claim + " WHERE tool = 'send_mail'")
    await tell(house, row)
    await expect(card.locator(".claimed")).to_have_text("Grace is on it")
    await expect(card.get_by_label("Comment")).to_have_value("half a th")
    await expect(card.get_by_label("Reason")).to_have_value("half a reason")


async def test_back_from_the_next_page_leads_to_the_card_that_was_left(house: House, page: Page) -> None:
    """Each page of a list keeps its own place."""
    rows = hold_many(house, 52)
    await visit(house, page, "/inbox")
    await page.locator(".item").last.get_by_role("link", name="Ship order 1002?").click()
    await page.keyboard.press("j")
    await expect(page.locator(CURRENT)).to_have_id(f"item-{rows[1]['approval_id']}")
    await page.go_back()
    await expect(page.locator(CURRENT)).to_have_id(f"item-{rows[2]['approval_id']}")


async def test_what_moves_up_from_the_next_page_is_not_new(house: House, page: Page) -> None:
    """Also where it was opened just before the list was drawn; what comes after that is."""
    rows = [hold(house, "ping", f"Ping {number}?", {"host": number}) for number in range(53)]
    await visit(house, page, "/inbox")
    await expect(page.locator("#total")).to_have_text("50 of 53 approvals")
    for row in rows[-2:]:
        deny(house, row)
    await tell(house, rows[-1])
    await expect(page.locator("#total")).to_have_text("48 of 51 approvals")
    await expect(page.locator("#fresh")).to_be_hidden()
    await tell(house, hold(house, "ping", "Ping the next?", {"host": "n"}))
    await expect(page.locator("#fresh")).to_have_text("Show 1 new approval")


async def test_a_new_card_is_announced_although_its_words_are_known_late(house: House, page: Page) -> None:
    """Of rules and words a new card is found some seconds after it is told of."""
    await visit(house, page, "/inbox?rule=large")
    await page.wait_for_load_state("networkidle")
    async with page.expect_response("**/inbox?rule=large") as looked:
        await tell(house, hold(house, "pay", "Pay 9,000 EUR?", {"amount": 9000}, rule="not yet"))
    await (await looked.value).finished()
    house.query("UPDATE read.approvals SET rule = 'large' WHERE tool = 'pay'")
    await expect(page.locator("#list .nothing")).to_have_count(0, timeout=60_000)
    await expect(page.locator(".item")).to_contain_text("Pay 9,000 EUR?")


async def test_a_look_that_failed_is_tried_again(house: House, page: Page) -> None:
    """A card that somebody else has decided does not stay locked, and says what it is."""
    row = furnish(house)["mail"]
    await visit(house, page, "/inbox")
    await page.wait_for_load_state("networkidle")
    answers = iter([502, 429])

    async def answer(route: Route) -> None:
        if (status := next(answers, None)) is not None:
            await route.fulfill(status=status)
            return
        await route.continue_()

    await page.route("**/inbox", answer)
    deny(house, row)
    await tell(house, row)
    await expect(page.locator(f"#item-{row['approval_id']} .badge")).to_have_text("denied", timeout=60_000)


async def test_a_decision_without_a_connection_says_so_in_words_of_ours(house: House, page: Page) -> None:
    """What browsers say of it is in their own language; the card can be decided again."""
    row = furnish(house)["mail"]
    await page.route("**/card", lambda route: route.abort())
    await visit(house, page, "/inbox?tool=send_mail")
    card = page.locator(f"#item-{row['approval_id']}")
    await card.get_by_role("button", name="Approve", exact=True).click()
    await expect(card.locator(".notice")).to_have_text("Not sent: there is no connection")
    await expect(card.get_by_role("button", name="Approve", exact=True)).to_be_enabled()


@pytest.mark.parametrize("path", ["/inbox", "/"])
async def test_an_open_page_is_loaded_again_for_who_signs_in_beside_it(house: House, page: Page, path: str) -> None:
    """It says by itself who decides from now on, and shows nothing as the one who was there before."""
    furnish(house)
    await visit(house, page, path)
    await sign_in_beside(house, page, "grace")
    await expect(page.locator("header .who")).to_contain_text("Grace", timeout=30_000)
    await expect(page.locator("#connection")).to_have_text("live")


async def test_a_decision_is_not_made_for_who_signed_in_beside_it(house: House, page: Page) -> None:
    """What was pressed on the page of one person counts for nobody else, and the page says that it was not sent."""
    row = furnish(house)["mail"]
    await visit(house, page, "/inbox?tool=send_mail")
    # Whatever the page would ask for by itself has it loaded again, and then it is Grace's.
    sends = {"POST": lambda route: route.continue_(), "GET": lambda route: route.abort()}
    await page.route(lambda url: "/static/" not in url, lambda route: sends[route.request.method](route))
    await sign_in_beside(house, page, "grace")
    item = page.locator(f"#item-{row['approval_id']}")
    await item.get_by_role("button", name="Deny", exact=True).click()
    await expect(item.get_by_role("alert")).to_contain_text("Not sent: Somebody has signed in anew", timeout=30_000)
    assert [] == house.approvers.claims

"""The inbox in a real browser: live, by keyboard, on a phone, in the dark, and for everybody (WCAG AA, by axe-core)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, expect

from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ToolCall
from placet.gateway.web.render import set_up_was_run
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.gateway import House, insert, open_house, turn
from tests.support.inbox_scene import DIRECTORY, furnish, hold
from tests.support.mailed_links import a_link

ROOT = Path(__file__).parents[3]
AXE = ROOT / "deploy" / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
RULEBOOK = """
tools:
  refund:
    description: Give money back.
    category: unsafe_api
    parameters:
      type: object
      required: [amount, currency, order]
      properties:
        amount: {type: number, description: In the currency's unit.}
        currency: {type: string, enum: [EUR, TRY]}
        order: {type: string}
        notify: {type: boolean}
rules: []
"""
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`"),
]


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people, and tools from a rulebook."""
    rulebook = tmp_path / "rulebook.yaml"
    rulebook.write_text(RULEBOOK)
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "rulebook": rulebook, "gateway_undo_seconds": 0}
    async with open_house(gateway_database_url, tmp_path, **settings) as made:
        yield made


@pytest.fixture
async def page(house: House, browser: Browser) -> AsyncIterator[Page]:
    """A page, signed in; anything that its console complains about fails the test."""
    complaints: list[str] = []
    made = await signed_in(house, browser)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if is_complaint(said) else None)
    yield made
    assert [] == complaints


def is_complaint(said: ConsoleMessage) -> bool:
    """Tell whether the console says that something is wrong; a page that answers with 400 on purpose is not."""
    return said.type == "error" and "status of 400" not in said.text


async def signed_in(house: House, browser: Browser, *scopes: str, tenant: str = "acme", **options: Any) -> Page:
    """Return a page of a new browser profile in which ada is signed in."""
    context = await browser.new_context(**{"locale": "en-GB", **options})
    page = await context.new_page()
    page.set_default_timeout(60_000)
    url = house.gateways[0].url
    answer = await context.request.post(
        f"{url}/sign-in",
        form={"key": house.key(*(scopes or ("chat", "decide")), tenant=tenant)},
        headers={"origin": url},
        max_redirects=0,
    )
    assert 303 == answer.status
    return page


async def visit(house: House, page: Page, path: str) -> None:
    """Open a page and wait until it is live."""
    await page.goto(f"{house.gateways[0].url}{path}")
    await expect(page.locator("#connection")).to_have_text("live", timeout=60_000)


async def opened(house: House, row: dict[str, Any]) -> None:
    """Tell that an approval was opened, as the approval service would."""
    fields = {name: row[name] for name in ToolCall.model_fields if name in row}
    call = ToolCall(**fields, message_id="m", shown_arguments=row["arguments"])
    said = {name: row[name] for name in ("approval_id", "revision", "summary", "rule", "reason", "expires_at")}
    await house.deliver(ApprovalOpened(tenant="acme", call=call, approval=an_approval_rule(), **said))


async def faults_of(page: Page) -> list[str]:
    """Return what axe-core finds against WCAG 2.2 AA and its own best practices."""
    # Not through a script element, which the page's policy refuses: the test speaks to the browser itself.
    await page.evaluate(AXE.read_text())
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{each['id']}: {node['target']}" for each in found["violations"] for node in each["nodes"]]


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is fetched by `make setup`")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_is_for_everybody(house: House, browser: Browser, scheme: str) -> None:
    """No page of ours has a fault that axe-core knows: lists, an approval, chat, error, batch, sign-in, mailed link."""
    rows = furnish(house)
    page = await signed_in(house, browser, color_scheme=scheme)
    url, found = house.gateways[0].url, dict[str, list[str]]()
    whole = f"/inbox/{rows['refund']['approval_id']}"
    mailed = f"/l/{a_link(house.url, rows['mail'])}"
    for path in ("/inbox?view=all&tool=", "/inbox?tool=nothing", whole, "/", "/inbox/nothing", "/sign-in", mailed):
        await page.goto(f"{url}{path}")
        for fold in await page.locator("details.more > summary").all():
            await fold.click()
        found[path] = await faults_of(page)
    await page.goto(f"{url}/inbox")
    await page.locator("input[form=batch]").first.check()
    found["chosen"] = await faults_of(page)
    await page.get_by_role("button", name="Approve selected").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("1 of 1 decided")
    found["batch"] = await faults_of(page)
    # What scrolls in its place can be reached by the keyboard.
    long = hold(house, "send_mail", "Send it?", {"body": "long " * 60})
    await page.set_viewport_size({"width": 390, "height": 844})
    await house.append(long["conversation_id"], turn("started"), ("approval", {"approval_id": long["approval_id"]}))
    for path in (f"/?conversation={long['conversation_id']}", f"/inbox/{long['approval_id']}"):
        await page.goto(f"{url}{path}")
        await expect(page.get_by_text("long long").first).to_be_visible()
        found[f"{path} on a phone"] = await faults_of(page)
    assert {} == {name: faults for name, faults in found.items() if faults}


@pytest.mark.parametrize("width", [320, 390, 768])
async def test_nothing_is_cut_off_on_a_narrow_screen(house: House, browser: Browser, width: int) -> None:
    """No page scrolls sideways."""
    rows = furnish(house)
    long = hold(house, "ask", "A".ljust(200, "a"), {"long": "x" * 400}, requester=f"person:{'z' * 90}")
    page = await signed_in(house, browser, viewport={"width": width, "height": 800})
    wide = []
    pages = [f"/inbox/{row['approval_id']}" for row in (rows["refund"], long)]
    for path in ("/inbox", *pages, "/inbox?view=all&tool=refund"):
        await page.goto(f"{house.gateways[0].url}{path}")
        wide.append(await page.evaluate("document.documentElement.scrollWidth"))
    assert [width] * 4 == wide


async def test_a_decision_needs_no_script(house: House, browser: Browser) -> None:
    """With scripts switched off, a person filters, opens, denies with a reason and sees what became of it."""
    row = furnish(house)["mail"]
    page = await signed_in(house, browser, java_script_enabled=False)
    await page.goto(f"{house.gateways[0].url}/inbox")
    await page.get_by_label("Search").fill("offer")
    await page.get_by_role("button", name="Filter").click()
    await page.get_by_role("link", name="Send the offer to lin@example.org?").click()
    await page.get_by_label("Reason").fill("Wrong customer.")
    await page.get_by_role("button", name="Deny", exact=True).click()
    await expect(page.locator(".told")).to_contain_text("Denied: Send the offer")
    (claims,) = house.approvers.claims
    assert ("deny", "Wrong customer.", row["digest"]) == (claims.verb, claims.reason, claims.digest)


async def test_keys_move_choose_and_open_but_never_decide(house: House, page: Page) -> None:
    """J, k, x, a, d, o and ? do what the help says; a decision takes Enter on a button that has the focus."""
    rows = furnish(house)
    await visit(house, page, "/inbox")
    for key in "jk":
        await page.keyboard.press(key)
    first = f"item-{rows['again']['approval_id']}"
    await expect(page.locator(".item[data-current]")).to_have_id(first)
    await page.keyboard.press("x")
    await expect(page.locator("#chosen")).to_have_text("1 selected")
    await page.keyboard.press("a")
    await expect(page.locator(f"#{first} button.approve")).to_be_focused()
    await page.keyboard.press("d")
    await expect(page.locator(f"#{first} .reason")).to_be_focused()
    await page.keyboard.type("jjj?")
    await expect(page.locator(f"#{first} .reason")).to_have_value("jjj?")
    await page.keyboard.press("Tab")
    await page.keyboard.press("?")
    await expect(page.locator("#keys")).to_be_visible()
    await page.keyboard.press("Escape")
    assert [] == house.approvers.claims
    await page.keyboard.press("o")
    await expect(page.get_by_role("heading", level=1)).to_have_text(rows["again"]["summary"])


async def test_enter_in_the_reason_denies(house: House, page: Page) -> None:
    """Whoever writes a reason and presses Enter never approves by accident."""
    furnish(house)
    await visit(house, page, "/inbox")
    await page.keyboard.press("d")
    await page.keyboard.type("not today")
    await page.keyboard.press("Enter")
    await expect(page.locator(".item").first.locator(".badge")).to_have_text("denied")
    assert ["deny"] == [claims.verb for claims in house.approvers.claims]


async def test_single_keys_can_be_switched_off(house: House, page: Page) -> None:
    """WCAG 2.1.4: whoever dictates text is not moved about; it stays so after a reload."""
    rows = furnish(house)
    await visit(house, page, "/inbox")
    await page.keyboard.press("?")
    await page.get_by_label("Keyboard shortcuts on this device").uncheck()
    await page.get_by_role("button", name="Close").click()
    await page.reload()
    await expect(page.locator("#connection")).to_have_text("live", timeout=60_000)
    await page.keyboard.press("j")
    await expect(page.locator(".item[data-current]")).to_have_id(f"item-{rows['again']['approval_id']}")


async def test_a_new_approval_waits_behind_a_button_and_moves_nothing(house: House, page: Page) -> None:
    """What arrives is announced; the list stays still until its reader asks, and half a reason is kept."""
    rows = furnish(house)
    await visit(house, page, "/inbox")
    reason = page.locator(f"#item-{rows['mail']['approval_id']} .reason")
    await page.get_by_role("link", name=rows["mail"]["summary"]).click()
    await reason.fill("half a th")
    row = hold(house, "ask", "Newly asked?", {})
    await opened(house, row)
    await expect(page.locator("#fresh-show")).to_have_text("Show 1 new approval")
    await expect(page.locator(".item")).to_have_count(5)
    await page.locator("#fresh-show").click()
    await expect(page.locator(".item").first).to_contain_text("Newly asked?")
    await expect(reason).to_have_value("half a th")


async def test_what_was_begun_is_there_again_until_it_is_sent(house: House, page: Page) -> None:
    """Reason and comment stand in their fields after a reload and on the approval's own page, and not once sent."""
    mail = furnish(house)["mail"]["approval_id"]
    await visit(house, page, "/inbox")
    await page.locator(f"#item-{mail} h2 a").click()
    await page.locator(f"#reason-{mail}").fill("half a th")
    comment = page.locator(f"#comment-list-{mail}")
    await comment.fill("Who is")
    await page.reload()
    await expect(page.locator(f"#reason-{mail}")).to_have_value("half a th")
    await page.locator(f"#item-{mail} h2 a").click()
    await expect(comment).to_have_value("Who is")
    await visit(house, page, f"/inbox/{mail}")
    await expect(page.locator("#reason")).to_have_value("half a th")
    await expect(page.locator(f"#comment-page-{mail}")).to_have_value("Who is")
    await page.locator("form.comment button").click()
    await expect(page.locator("section.comments li")).to_contain_text("Who is")
    await page.reload()
    await expect(page.locator(f"#comment-page-{mail}")).to_have_value("")


async def test_the_first_approval_of_the_day_appears_by_itself(house: House, page: Page) -> None:
    """An empty inbox fills without a click."""
    await visit(house, page, "/inbox")
    await expect(page.locator(".nothing")).to_contain_text("Nothing needs your decision.")
    await opened(house, hold(house, "ask", "Newly asked?", {}))
    await expect(page.locator(".item")).to_contain_text("Newly asked?")
    await expect(page).to_have_title("(1) Inbox · Placet")


async def test_a_card_that_somebody_else_decides_changes_where_it_stands(house: House, page: Page) -> None:
    """It says how it ended and offers nothing but to comment."""
    row = furnish(house)["mail"]
    await visit(house, page, "/inbox")
    await page.get_by_role("link", name=row["summary"]).click()
    house.query(
        "UPDATE read.approvals SET state = 'denied', decided_by = 'person:grace', closed_at = now(), revision = 2"
        " WHERE approval_id = %s",
        row["approval_id"],
    )
    place = {name: row[name] for name in ("approval_id", "conversation_id", "call_id")}
    await house.deliver(ApprovalClosed(tenant="acme", **place, revision=2, state="denied", closed_at=NOON))
    card = page.locator(f"#item-{row['approval_id']}")
    await expect(card.locator(".badge")).to_have_text("denied")
    await expect(card.get_by_role("button")).to_have_text(["Comment"])


async def test_several_are_chosen_and_decided_together(house: House, page: Page) -> None:
    """One click chooses what says the same; each outcome is listed with its values, and a reload sends nothing."""
    furnish(house)
    await visit(house, page, "/inbox")
    await page.get_by_role("button", name="Select these 2").click()
    await expect(page.locator("#chosen")).to_have_text("2 selected")
    await page.get_by_role("button", name="Approve selected").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("2 of 2 decided")
    await expect(page.locator(".outcomes .badge")).to_have_text(["approved", "approved"])
    await expect(page.locator(".outcomes .values").first).to_have_text("amount: 299 · currency: TRY · customer: Lin")
    await page.wait_for_url("**/inbox")
    await page.reload()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")


async def test_what_is_decided_together_is_what_was_pressed(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """While it can be undone the page goes on: what it is by then is neither sent nor chosen."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 1}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        furnish(house)
        page = await signed_in(house, browser)
        await visit(house, page, "/inbox")
        await page.get_by_role("button", name="Select these 2").click()
        await page.get_by_role("button", name="Approve selected").click()
        await expect(page.locator(".side ~ .taken").get_by_role("status")).to_have_text("2 approved.")
        await page.evaluate(
            "for (const box of document.querySelectorAll('input[form=batch]'))"
            " Object.assign(box, { checked: true, value: box.value.replace(/[0-9a-f]{64}/, 'f'.repeat(64)) })"
        )
        await expect(page.locator(".batch-told").get_by_role("status")).to_have_text("2 of 2 decided")
        assert 2 == len(house.approvers.claims)


async def test_arguments_are_edited_in_fields_of_the_tools_schema(house: House, page: Page) -> None:
    """A number stays a number, a choice offers what the schema has, and a mistake keeps what was typed."""
    from placet.domain.catalog import load_catalog  # noqa: PLC0415  # its digest is what the row must carry

    row = furnish(house)["refund"]
    digest = load_catalog(house.gateways[0].settings.rulebook)["refund"].schema_digest
    house.query("UPDATE read.approvals SET schema_digest = %s", digest)
    await visit(house, page, f"/inbox/{row['approval_id']}")
    await page.keyboard.press("e")
    await expect(page.get_by_label("amount")).to_be_focused()
    await page.get_by_label("amount").fill("nine")
    await page.get_by_label("Why", exact=True).fill("Partly used.")
    await page.get_by_role("button", name="Approve with these arguments").click()
    await expect(page.get_by_role("alert")).to_contain_text("amount: this must be a number.")
    await expect(page.get_by_label("amount")).to_have_value("nine")
    await expect(page.get_by_label("Why", exact=True)).to_have_value("Partly used.")
    await expect(page.get_by_label("Reason", exact=True)).to_be_empty()
    await page.get_by_label("amount").fill("900.5")
    await page.get_by_label("notify").select_option("true")
    await page.get_by_role("button", name="Approve with these arguments").click()
    await page.wait_for_url("**?done=edit")
    (claims,) = house.approvers.claims
    assert '{"amount":900.5,"currency":"EUR","notify":true,"order":"10482"}' == claims.arguments


@pytest.mark.parametrize("told_before", [False, True])
async def test_an_edit_sent_again_takes_nobody_elses_edit_back(
    house: House, browser: Browser, *, told_before: bool
) -> None:
    """What was not typed takes another's value; what both changed is told, once sent or once the page is looked at."""
    from placet.domain.catalog import load_catalog  # noqa: PLC0415  # its digest is what the row must carry

    page = await signed_in(house, browser)
    row = furnish(house)["refund"]
    digest = load_catalog(house.gateways[0].settings.rulebook)["refund"].schema_digest
    house.query("UPDATE read.approvals SET schema_digest = %s", digest)
    # As its stream begins the page looks whether it is of today: buttons rest where it is not.
    async with page.expect_request_finished(lambda each: each.resource_type == "fetch"):
        await visit(house, page, f"/inbox/{row['approval_id']}")
    await page.keyboard.press("e")
    await page.get_by_label("order").fill("10483")
    await page.get_by_label("amount").fill("900")
    await page.get_by_label("Why", exact=True).fill("Half of it.")
    edited = a_call(tool="refund", arguments={"amount": 601, "currency": "EUR", "order": "10482", "notify": True})
    house.query(
        "UPDATE read.approvals SET arguments = %s, digest = %s, revision = 2 WHERE approval_id = %s",
        *(edited.arguments, edited.digest, row["approval_id"]),
    )
    if told_before:
        await opened(house, row)
        await page.get_by_role("button", name="Show the current version").click()
        await expect(page.locator("#main")).to_have_attribute("data-revision", "2")
    else:
        await page.get_by_role("button", name="Approve with these arguments").click()
        await expect(page.get_by_role("alert")).to_contain_text("This card changed after it was shown to you.")
    fields = {name: await page.get_by_label(name).input_value() for name in ("amount", "notify", "order")}
    assert {"amount": "900", "notify": "true", "order": "10483"} == fields
    await expect(page.get_by_label("Why", exact=True)).to_have_value("Half of it.")
    await expect(page.get_by_text("Somebody else changed this meanwhile, to: 601")).to_have_count(1)


async def test_nothing_from_outside_is_markup(house: House, page: Page) -> None:
    """Summaries, reasons, arguments and names are shown as they are written; hidden characters as code points."""
    row = hold(house, "ask", EVIL, {EVIL: EVIL, "to": "a\u202eb"}, reason=EVIL, requester=f"person:{EVIL}")
    await visit(house, page, "/inbox")
    await expect(page.locator(".item h2")).to_have_text(EVIL)
    await expect(page.locator(".item dd", has_text="a[U+202E]b")).to_be_visible()
    await visit(house, page, f"/inbox/{row['approval_id']}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(EVIL)
    assert (0, True) == (await page.locator("img[src=x]").count(), "owned" != await page.title())


async def test_the_exact_time_is_there_for_the_keyboard_too(house: House, browser: Browser) -> None:
    """A deadline says when exactly on hover, and on focus as well, by the clock of its reader."""
    row = furnish(house)["mail"]
    page = await signed_in(house, browser, timezone_id="Asia/Tokyo")
    await visit(house, page, "/inbox")
    deadline = page.locator(f"#item-{row['approval_id']} .until time")
    there = row["expires_at"].astimezone(ZoneInfo("Asia/Tokyo"))
    exact = f"{there:%b} {there.day}, {there:%Y}, {there.hour % 12 or 12}:{there:%M:%S} {there:%p} GMT+9"
    await expect(deadline).to_have_attribute("title", exact)
    await deadline.focus()
    await page.keyboard.press("Shift+Tab")
    await page.keyboard.press("Tab")
    assert f'"{exact}"' == await deadline.evaluate("each => getComputedStyle(each, '::after').content")


def execute(house: House, row: dict[str, Any], **changes: Any) -> None:
    """Let an executor have the call of an approval."""
    names = {name: row[name] for name in ("call_id", "tenant", "conversation_id", "digest")}
    insert(house.url, "executions", **names, pool="default", state="running", fence=1, started_at=NOON, **changes)


async def test_a_decision_on_the_list_stays_where_it_was_made(house: House, page: Page) -> None:
    """No reload: the list stays, the next card has the focus and is shown, and the count of what waits follows."""
    rows = [hold(house, "ship", f"Ship order {number}?", {"order": number}) for number in range(30)]
    await visit(house, page, "/inbox")
    tenth, eleventh = (page.locator(f"#item-{rows[at]['approval_id']}") for at in (20, 19))
    await tenth.get_by_role("link", name="Ship order 20?").click()
    # The screen moves where the next card is not on it.
    await eleventh.evaluate("each => each.scrollIntoView({ block: 'center' })")
    scrolled = "document.querySelector('.side').scrollTop"
    before, address = await page.evaluate(scrolled), page.url
    await tenth.get_by_role("button", name="Approve", exact=True).click()
    await expect(tenth.locator(".badge")).to_have_text("approved")
    await expect(eleventh).to_be_focused()
    await expect(eleventh.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    # What stands below a card that got shorter stays where it was, so the list may have moved by as much.
    assert (True, True, address) == (before > 0, await page.evaluate(scrolled) > 0, page.url)
    await house.append(rows[20]["conversation_id"], ("approval", {"approval_id": rows[20]["approval_id"]}))
    await expect(page.locator("#total")).to_have_text("29 approvals")
    assert ["approve"] == [claims.verb for claims in house.approvers.claims]


async def test_a_decision_can_be_taken_back_before_it_is_sent(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """Undone, nothing was sent and the buttons are back; whoever leaves the page meant what they pressed."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 60}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        row, page = furnish(house)["mail"], await signed_in(house, browser)
        await visit(house, page, "/inbox")
        card = page.locator(f"#item-{row['approval_id']}")
        await card.get_by_role("link", name=row["summary"]).click()
        await card.locator(".reason").fill("half a th")
        await card.get_by_role("button", name="Approve", exact=True).click()
        await expect(card.get_by_role("status")).to_have_text("Approved.")
        await expect(card.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
        await card.get_by_role("button", name="Undo").click()
        await expect(card.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
        assert [] == house.approvers.claims
        await page.reload()
        await expect(card.locator(".reason")).to_have_value("half a th")
        await card.get_by_role("button", name="Deny", exact=True).click()
        await expect(card.get_by_role("status")).to_have_text("Denied.")
        await page.goto("about:blank")
        async with asyncio.timeout(60):
            await house.approvers.heard.wait()
        assert [("deny", row["digest"])] == [(claims.verb, claims.digest) for claims in house.approvers.claims]


async def test_a_decision_that_was_never_sent_is_said(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """Somebody else was faster while it could be undone; keys undo, and leave a field without a denial."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 2}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        rows, page = furnish(house), await signed_in(house, browser)
        await visit(house, page, "/inbox")
        mail = page.locator(f"#item-{rows['mail']['approval_id']}")
        await mail.get_by_role("link", name=rows["mail"]["summary"]).click()
        await mail.get_by_role("button", name="Approve", exact=True).click()
        await page.keyboard.press("z")
        await expect(mail.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
        await page.keyboard.press("d")
        await page.keyboard.type("no")
        await page.keyboard.press("Escape")
        await expect(mail).to_be_focused()
        await mail.get_by_role("button", name="Approve", exact=True).click()
        over = "UPDATE read.approvals SET state = 'denied', decided_by = 'person:cy', closed_at = now()"
        house.query(f"{over} WHERE approval_id = %s", rows["mail"]["approval_id"])
        await opened(house, rows["mail"])
        late = f"Yours was not sent, it was decided meanwhile: {rows['mail']['summary']}"
        await expect(page.get_by_role("alert")).to_have_text(late)
        await page.get_by_role("alert").click()
        await expect(page.get_by_role("alert")).to_have_count(0)
        assert [] == house.approvers.claims


async def test_what_is_held_is_still_said_after_the_list_was_drawn_anew(
    gateway_database_url: str, tmp_path: Path, browser: Browser
) -> None:
    """The list is shown again: the decision stands on its card, another choice replaces it, signing out sends it."""
    settings: dict[str, Any] = {"directory": lambda: DIRECTORY, "gateway_undo_seconds": 60}
    async with open_house(gateway_database_url, tmp_path, **settings) as house:
        row, page = furnish(house)["mail"], await signed_in(house, browser)
        await visit(house, page, "/inbox")
        card = page.locator(f"#item-{row['approval_id']}")
        await card.get_by_role("link", name=row["summary"]).click()
        await card.get_by_role("button", name="Approve", exact=True).click()
        await expect(card.get_by_role("status")).to_have_text("Approved.")
        await page.locator("#list").dispatch_event("refresh")
        await opened(house, row)
        await expect(card.get_by_role("status")).to_have_text("Approved.")
        await expect(card.get_by_role("button", name="Deny", exact=True)).to_have_count(0)
        await card.get_by_role("button", name="Undo").click()
        await card.get_by_role("button", name="Deny", exact=True).click()
        await expect(card.get_by_role("status")).to_have_text("Denied.")
        await page.get_by_role("button", name="Sign out").click()
        await page.wait_for_url("**/sign-in**")
        assert [("deny", row["digest"])] == [(claims.verb, claims.digest) for claims in house.approvers.claims]


async def test_a_double_click_decides_one_card(house: House, page: Page) -> None:
    """The next card comes under the pointer: what is pressed at once was not meant for it."""
    for number in range(3):
        hold(house, "ship", f"Ship order {number}?", {"order": number})
    await page.set_viewport_size({"width": 1440, "height": 900})
    await visit(house, page, "/inbox")
    await page.locator(".item").first.click()
    await page.locator(".item[data-current] button.approve").dblclick()
    await expect(page.locator(".item .badge").first).to_have_text("approved")
    assert 1 == len(house.approvers.claims)


async def test_what_cannot_be_done_is_said_on_the_card(house: House, page: Page) -> None:
    """Somebody else was faster: the card says so, as it is now, and the list stays."""
    row = furnish(house)["mail"]
    # The page looks once when its stream begins; what happens after that it is not told.
    async with page.expect_response(lambda each: each.request.resource_type == "fetch" and each.url.endswith("/inbox")):
        await visit(house, page, "/inbox")
    house.query("UPDATE read.approvals SET state = 'denied', decided_by = 'person:grace', closed_at = now()")
    card = page.locator(f"#item-{row['approval_id']}")
    await card.get_by_role("link", name=row["summary"]).click()
    await card.get_by_role("button", name="Approve", exact=True).click()
    await expect(card.get_by_role("alert")).to_contain_text("already closed")
    await expect(card.locator(".badge")).to_have_text("denied")
    # The card may be drawn anew at any moment, without it.
    await expect(page.locator(".notice.in-sight")).to_contain_text(row["summary"])
    await expect(page.locator(".notice.in-sight")).to_contain_text("already closed")


async def test_a_decision_in_a_session_that_is_over_leads_to_the_door_and_back(house: House, browser: Browser) -> None:
    """Nothing was sent: whoever signs in again finds the list as it was asked for, and the card in it."""
    row = furnish(house)["mail"]
    page = await signed_in(house, browser)
    await visit(house, page, "/inbox?tool=send_mail")
    await page.locator(f"#item-{row['approval_id']}").click()
    await page.locator(f"#reason-{row['approval_id']}").fill("half a th")
    await page.context.clear_cookies()
    await page.locator(f"#item-{row['approval_id']}").get_by_role("button", name="Deny", exact=True).click()
    lost = "Nothing was sent, because you were signed out. Sign in and do it again."
    await expect(page.get_by_role("alert")).to_have_text(lost)
    await page.get_by_label("API key").fill(house.key("decide"))
    await page.get_by_role("button", name="Sign in").click()
    await expect(
        page.locator(f"#item-{row['approval_id']}").get_by_role("button", name="Deny", exact=True)
    ).to_be_visible()
    await expect(page.locator(f"#reason-{row['approval_id']}")).to_have_value("half a th")
    assert ("/inbox?tool=send_mail", []) == (page.url.removeprefix(house.gateways[0].url), house.approvers.claims)


@pytest.mark.parametrize(("field", "button"), [("#reason", "Deny"), ("section.comments textarea", "Comment")])
async def test_what_a_session_that_is_over_did_not_send_is_there_again(
    house: House, browser: Browser, field: str, button: str
) -> None:
    """On an approval's own page the reason and the comment are told to be unsent, and stand in their fields again."""
    path = f"/inbox/{furnish(house)['mail']['approval_id']}"
    page = await signed_in(house, browser)
    await visit(house, page, path)
    await page.locator(field).fill("half a th")
    await page.context.clear_cookies()
    await page.get_by_role("button", name=button, exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("Nothing was sent")
    await page.get_by_label("API key").fill(house.key("decide"))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator(field)).to_have_value("half a th")
    assert path == page.url.removeprefix(house.gateways[0].url)


async def test_an_approval_s_page_follows_its_call_to_the_end(house: House, page: Page) -> None:
    """Approved, running with its progress, then the result as the tool drew it; nothing can be cancelled any more."""
    row = furnish(house)["deploy"]
    place = {name: row[name] for name in ("conversation_id", "call_id")}
    await house.append(row["conversation_id"], turn("started"))
    await visit(house, page, f"/inbox/{row['approval_id']}")
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.locator(".outcome-of")).to_contain_text("Approved: it will run now.")
    await expect(page.locator("#connection")).to_have_text("live", timeout=60_000)
    execute(house, row)
    await house.append(row["conversation_id"], ("tool_call", {**place, "tool": "deploy", "status": "executing"}))
    await expect(page.locator(".outcome-of")).to_contain_text("It runs now")
    await expect(page.get_by_text("Cancel it")).to_be_visible()
    told = {**place, "tool": "deploy", "fraction": 0.4, "text": "two of five pods", "attempt": 1}
    await house.append(row["conversation_id"], ("progress", told))
    await expect(page.locator(".outcome-of .progress")).to_contain_text("two of five pods")
    blocks = [{"type": "notice", "level": "success", "text": "All pods are new."}]
    done = {**place, "tool": "deploy", "status": "success", "kind": "succeeded", "data": {"pods": 5}, "error": None}
    await house.append(row["conversation_id"], ("tool_call", {**done, "ui_blocks": blocks}))
    await expect(page.locator(".outcome-of .badge")).to_have_text("succeeded")
    await expect(page.locator(".outcome-of .blocks")).to_have_text("All pods are new.")
    await page.locator(".outcome-of summary").click()
    await expect(page.locator(".outcome-of pre")).to_have_text('{"pods":5}')
    await expect(page.get_by_text("Cancel it")).to_have_count(0)


async def test_an_open_page_rests_its_buttons_when_the_call_changes_underneath(house: House, page: Page) -> None:
    """An edit by somebody else makes another call of it: nothing that was not read can be approved."""
    row = furnish(house)["refund"]
    await visit(house, page, f"/inbox/{row['approval_id']}")
    house.query("UPDATE read.approvals SET digest = %s, revision = 2", "d" * 64)
    await house.append(row["conversation_id"], ("approval", {"approval_id": row["approval_id"], "state": "pending"}))
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    await page.get_by_role("button", name="This approval has changed").click()
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_be_enabled()


async def test_a_page_that_somebody_else_decides_has_no_buttons(house: House, page: Page) -> None:
    """It says who and how, at once and by itself."""
    row = furnish(house)["refund"]
    await visit(house, page, f"/inbox/{row['approval_id']}")
    sql = "UPDATE read.approvals SET state = 'denied', decided_by = 'person:grace', closed_at = now() WHERE tool = %s"
    house.query(sql, "refund")
    await house.append(row["conversation_id"], ("approval", {"approval_id": row["approval_id"], "state": "denied"}))
    await expect(page.locator(".panel .badge").first).to_have_text("denied")
    await expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)


@pytest.mark.parametrize("path", ["/inbox/{approval_id}", "/inbox?tool=refund", "/?conversation={conversation_id}"])
async def test_on_a_phone_facts_stand_above_the_buttons(house: House, browser: Browser, path: str) -> None:
    """Nobody can approve without having passed the arguments; buttons come in one order: deny, approve."""
    row = furnish(house)["refund"]
    call = {**row, "approval_id": row["approval_id"], "state": "pending"}
    names = ("approval_id", "call_id", "turn_id", "summary", "tool", "digest", "state")
    await house.append(row["conversation_id"], ("approval", {name: call[name] for name in names}))
    page = await signed_in(house, browser, viewport={"width": 390, "height": 844})
    await visit(house, page, path.format(**row))
    if path.startswith("/inbox?"):
        await page.get_by_role("link", name=row["summary"]).click()
    approve = page.get_by_role("button", name="Approve", exact=True).locator("visible=true").first
    await expect(approve).to_be_visible()
    amount = page.get_by_text("1250", exact=True).locator("visible=true").first
    deny = page.get_by_role("button", name="Deny", exact=True).locator("visible=true").first
    facts, no, yes = [await each.bounding_box() for each in (amount, deny, approve)]
    assert facts is not None
    assert no is not None
    assert yes is not None
    assert (True, True, True) == (facts["y"] < yes["y"], no["y"] == yes["y"], no["x"] < yes["x"])

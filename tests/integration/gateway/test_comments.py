"""What people say about an approval: stored, shown where it is shown, and deciding nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from placet.gateway.approvals.store.comments import COMMENTS_MAX
from placet.gateway.web.render import set_up_was_run
from tests.integration.gateway.test_inbox_browser import signed_in, visit
from tests.integration.gateway.test_inbox_page import signed_in as a_browser
from tests.support.gateway import House, open_house
from tests.support.inbox_scene import DIRECTORY, furnish, hold

pytestmark = pytest.mark.timeout(240)
ASKED = {"text": "Why to this address?", "question": True}


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as made:
        yield made


async def test_a_question_is_answered_by_who_asked_for_the_call(house: House) -> None:
    """Approvers and the requester read the same; the answer is marked, the question answered, and nothing decided."""
    row = furnish(house)["mail"]
    path = f"/v1/approvals/{row['approval_id']}"
    async with house.client(house.key("decide", person="ada")) as ada:
        first = await ada.post(f"{path}/comments", json=ASKED)
    async with house.client(house.key("chat", person="lin")) as lin:
        await lin.post(f"{path}/comments", json={"text": " It is mine. ", "question": True})
        read = (await lin.get(f"{path}/comments")).json()["items"]
    async with house.client(house.key("decide", person="grace")) as grace:
        shown = (await grace.get(path)).json()
    said = [(each["person"], each["text"], each["question"], each["by_requester"], each["answered"]) for each in read]
    assert [
        ("person:ada", "Why to this address?", True, False, True),
        ("person:lin", "It is mine.", False, True, False),
    ] == said
    assert (201, False) == (first.status_code, first.json()["items"][0]["answered"])
    assert (read, "pending", 1, []) == (shown["comments"], shown["state"], shown["revision"], house.approvers.claims)


async def test_comments_are_for_who_decides_and_who_asked(house: House) -> None:
    """Somebody else of the tenant gets 403, another tenant 404, and nothing is kept of either."""
    row = furnish(house)["mail"]
    path = f"/v1/approvals/{row['approval_id']}/comments"
    statuses = []
    for secret in (house.key("chat", person="eve"), house.key("chat", "decide", tenant="rival", person="eve")):
        async with house.client(secret) as client:
            statuses += [(await client.get(path)).status_code, (await client.post(path, json=ASKED)).status_code]
    assert ([403, 403, 404, 404], []) == (statuses, house.query("SELECT text FROM gateway.comments"))


@pytest.mark.parametrize(
    ("body", "status"),
    [({"text": ""}, 400), ({"text": "  "}, 400), ({"text": "x" * 2001}, 413), ({"text": "a", "decision": "x"}, 400)],
)
async def test_a_comment_says_something(house: House, body: dict[str, str], status: int) -> None:
    """Anything else is a problem document, and nothing is kept."""
    row = furnish(house)["mail"]
    async with house.client(house.key("decide", person="ada")) as ada:
        answer = await ada.post(f"/v1/approvals/{row['approval_id']}/comments", json=body)
    assert (status, []) == (answer.status_code, house.query("SELECT text FROM gateway.comments"))


async def test_comments_have_an_end(house: House) -> None:
    """One more than an approval may have is refused and says why."""
    row = furnish(house)["mail"]
    house.query(
        "INSERT INTO gateway.comments (comment_id, tenant, approval_id, person, text, question)"
        " SELECT 'c-' || n, 'acme', %s, 'person:ada', 'again', false FROM generate_series(1, %s) n",
        row["approval_id"],
        COMMENTS_MAX,
    )
    async with house.client(house.key("decide", person="ada")) as ada:
        answer = await ada.post(f"/v1/approvals/{row['approval_id']}/comments", json=ASKED)
    assert (409, "urn:placet:problem:too-many-comments") == (answer.status_code, answer.json()["type"])


async def test_people_have_names_and_a_delegate_is_picked(house: House) -> None:
    """The directory's names stand in place of ids; who is not in it keeps theirs, and oneself is no choice."""
    row = furnish(house)["refund"]
    house.key("decide", person="grace")
    async with a_browser(house, "ada") as browser:
        page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    wanted = ("<strong>Grace</strong>", '<option value="grace">Grace</option>', "for lin", ">G</span>")
    assert [] == [each for each in wanted if each not in page]
    assert '<option value="ada">' not in page


@pytest.mark.parametrize(
    ("scopes", "place"),
    [(["decide"], "/inbox"), (["operate"], "/operator"), (["chat", "decide"], None), (["decide", "operate"], "/inbox")],
)
async def test_people_land_where_they_work(house: House, scopes: list[str], place: str | None) -> None:
    """Who writes begins in the chat, who only decides in the inbox; a link into a conversation is followed anyway."""
    async with a_browser(house, "ada", *scopes) as browser:
        answer = await browser.get("/")
    assert place == answer.headers.get("location")


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
async def test_a_comment_is_written_beside_the_list_and_read_on_the_page(house: House, browser: Browser) -> None:
    """Its words are text and no markup, whatever they are."""
    row = hold(house, "ask", "Ask?", {})
    page = await signed_in(house, browser)
    await visit(house, page, "/inbox")
    await page.get_by_placeholder("Comment, or ask why").fill("<b>why</b>?")
    await page.get_by_label("Ask lin").check()
    await page.get_by_role("button", name="Comment").click()
    await expect(page.locator(".comments .words")).to_have_text("<b>why</b>?")
    await expect(page.get_by_placeholder("Comment, or ask why")).to_have_value("")
    await visit(house, page, f"/inbox/{row['approval_id']}")
    await expect(page.locator(".comments li")).to_contain_text("asks the requester")
    await page.get_by_placeholder("Comment, or ask why").fill("Second.")
    await page.get_by_role("button", name="Comment").click()
    await expect(page.locator(".comments .words")).to_have_text(["<b>why</b>?", "Second."])
    assert [] == house.approvers.claims


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
@pytest.mark.parametrize("path", ["/inbox", "/inbox/{}"])
async def test_what_somebody_else_says_comes_with_the_stream(house: House, browser: Browser, path: str) -> None:
    """Beside the list and on the page, and what one was typing stays."""
    row = hold(house, "ask", "Ask?", {})
    page = await signed_in(house, browser)
    await visit(house, page, path.format(row["approval_id"]))
    await page.get_by_placeholder("Comment, or ask why").fill("Half a wo")
    async with house.client(house.key("decide")) as other:
        await other.post(f"/v1/approvals/{row['approval_id']}/comments", json={"text": "I know them."})
    await expect(page.locator(".comments .words")).to_have_text("I know them.")
    await expect(page.get_by_placeholder("Comment, or ask why")).to_have_value("Half a wo")

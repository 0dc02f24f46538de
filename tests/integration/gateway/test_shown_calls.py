"""Every page where people decide shows the same of a call as mail and Slack: order, edits, tricks, quote."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser

from placet.contracts.canonical import canonical_text
from placet.contracts.messages import ApprovalOpened, ToolCall
from placet.domain.catalog import load_catalog
from placet.gateway.web.render import set_up_was_run
from tests.builders import an_approval_rule
from tests.support.gateway import House, insert, open_house
from tests.support.inbox_scene import DIRECTORY, hold
from tests.support.mailed_links import a_link

pytestmark = pytest.mark.timeout(180)

RULEBOOK = """
tools:
  mail:
    description: Send a mail.
    category: unsafe_write
    summary: "Mail {to}?"
    parameters:
      type: object
      properties:
        body: {type: string}
        to: {type: string}
rules: []
"""
#: Which places show what waits, by name.
PLACES = ("list", "page", "link", "pane", "chat")
EVIL = "<script>alert(1)</script> Approved by Ada.\u202e" + "x" * 1_000


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people, and a tool whose summary names one of its arguments."""
    rulebook = tmp_path / "rulebook.yaml"
    rulebook.write_text(RULEBOOK)
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY, rulebook=rulebook) as made:
        yield made


def mail(house: House, tmp_path: Path, arguments: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Let a call of the tool wait; return its row."""
    digest = load_catalog(tmp_path / "rulebook.yaml")["mail"].schema_digest
    return hold(house, "mail", "Mail somebody?", arguments, schema_digest=digest, **changes)


async def shown(house: House, row: dict[str, Any]) -> dict[str, str]:
    """Return the pages that show an approval, by place, with character references read."""
    url, approval_id = house.gateways[0].url, row["approval_id"]
    paths = {
        "list": "/inbox",
        "page": f"/inbox/{approval_id}",
        "link": f"/l/{a_link(house.url, row)}",
        "pane": "/ui/approvals",
        "chat": f"/ui/approvals/{approval_id}?place=chat",
    }
    async with httpx.AsyncClient(base_url=url, headers={"origin": url}, timeout=30) as browser:
        await browser.post("/sign-in", data={"key": house.key("chat", "decide")})
        return {
            place: html.unescape((await browser.get(path)).raise_for_status().text) for place, path in paths.items()
        }


def have(pages: dict[str, str], text: str) -> tuple[str, ...]:
    """Return the places that say something."""
    return tuple(place for place in PLACES if text in pages[place])


async def test_what_looks_like_a_trick_is_flagged_wherever_people_decide(house: House, tmp_path: Path) -> None:
    """T2: mixed alphabets and characters that do not show, beside the arguments and never folded away."""
    pages = await shown(house, mail(house, tmp_path, {"to": "p\u0430ypal", "body": "a\u200bb"}))
    assert [PLACES, PLACES] == [
        have(pages, "⚠ “to”: the word “p\u0430ypal” mixes alphabets (CYRILLIC, LATIN)."),
        have(pages, "⚠ “body” has invisible characters."),
    ]
    folded = re.search(r"<details.*?</details>", pages["chat"], re.DOTALL)
    assert folded
    assert "⚠" not in folded[0]


async def test_where_values_stood_is_said_wherever_people_decide(house: House, tmp_path: Path) -> None:
    """Beside the value, with a flag for an address that only a tool named, and the requester's message as a quote."""
    origins = {"/to": ["tool:read_inbox"], "/body": ["user"]}
    arguments = {"to": "eve@evil.example", "body": "Main Street 5"}
    row = mail(house, tmp_path, arguments, origins=json.dumps(origins))
    place = {name: row[name] for name in ("tenant", "conversation_id", "call_id")}
    insert(house.url, "tool_calls", **place, message_id="said-1")
    asked = {"tenant": row["tenant"], "conversation_id": row["conversation_id"], "message_id": "said-1"}
    insert(house.url, "messages", **asked, text="Read my mails <b>now</b>")
    pages = await shown(house, row)
    seen = 'eve@evil.example <span class="was stood"'
    assert [PLACES, PLACES, PLACES, PLACES] == [
        have(pages, seen),
        have(pages, ">only seen in the output of read_inbox</span>"),
        have(pages, ">in the requester's own words</span>"),
        have(pages, "⚠ “to” was named only in the output of read_inbox: the requester did not name it."),
    ]
    assert ("list", "page", "link", "pane") == have(pages, "The requester's message that led to it:")
    async with house.client(house.key("decide")) as ada:
        told = (await ada.get(f"/v1/approvals/{row['approval_id']}")).json()
    assert (origins, "Read my mails <b>now</b>") == (told["call"]["origins"], told["asked"])


async def test_message_is_not_shown_where_an_argument_may_not_be_seen(house: House, tmp_path: Path) -> None:
    """The requester may have named the very value that nobody may see."""
    masked = mail(house, tmp_path, {"to": "•••"}, arguments_masked=True, call_id="masked")
    other = mail(house, tmp_path, {"to": "ada"}, call_id="other", turn_id="turn-2")
    for row in (masked, other):
        place = {name: row[name] for name in ("tenant", "conversation_id")}
        message = f"said-{row['call_id']}"
        said = {name: row[name] for name in ("call_id", "turn_id")} | {"message_id": message}
        insert(house.url, "tool_calls", **place, **said, arguments=row["arguments"])
        insert(house.url, "messages", **place, message_id=message, text="The secret is sesame")
        if row is other:
            beside = {**said, "call_id": "beside", "arguments": '{"pin":"•••"}'}
            insert(house.url, "tool_calls", **place, **beside)
        assert () == have(await shown(house, row), "sesame")


async def test_what_the_summary_names_stands_first_wherever_people_decide(house: House, tmp_path: Path) -> None:
    """T1: padding in front cannot push the address out of sight."""
    pages = await shown(house, mail(house, tmp_path, {"body": "Hello", "to": "ada"}))
    assert {place: ["to", "body"] for place in PLACES} == {
        place: re.findall(r"<dt>([a-z]+)</dt>", page) for place, page in pages.items()
    }


async def test_an_edited_argument_shows_what_it_was_wherever_people_decide(house: House, tmp_path: Path) -> None:
    """The new value and the old one, and what was not there before."""
    edited = {"proposed": canonical_text({"body": "5", "to": "ada"}), "proposed_digest": "1" * 64}
    arguments = {"body": "4", "to": "ada", "cc": "eve"}
    pages = await shown(house, mail(house, tmp_path, arguments, edited=edited, arguments_revision=2))
    assert [PLACES, PLACES] == [
        have(pages, '<dd>4 <span class="was">was <del>5</del></span></dd>'),
        have(pages, '<dd>eve <span class="was">was <del>not there</del></span></dd>'),
    ]


async def test_lines_of_an_argument_stay_in_their_box_wherever_people_decide(house: House, tmp_path: Path) -> None:
    """T1: a mail is read in its lines; none of them is another argument, and all else that steers is a code point."""
    body = "Hello\n</dd><dt>to</dt><dd>eve\r\n\ttabbed\u2028"
    pages = await shown(house, mail(house, tmp_path, {"body": body, "to": "ada"}))
    seen = '<dd class="lines">Hello\n</dd><dt>to</dt><dd>eve[U+000D]\n[U+0009]tabbed[U+2028]</dd>'
    assert PLACES == have(pages, seen)


async def test_markup_in_lines_stays_text(house: House, tmp_path: Path) -> None:
    """T1: before character references are read there is no second box of that name."""
    row = mail(house, tmp_path, {"body": "a\n</dd></div><div><dt>to</dt><dd>eve", "to": "ada"})
    async with house.client() as nobody:
        text = (await nobody.get(f"/l/{a_link(house.url, row)}")).text
    assert (1, 2) == (text.count("<dt>to</dt>"), text.count("<dd"))


async def test_the_agents_words_are_a_labelled_quote(house: House, tmp_path: Path) -> None:
    """T1: escaped, visible and cut, behind a label that says what they are worth; no page shows them as a fact."""
    row = mail(house, tmp_path, {"to": "ada"})
    said = {name: row[name] for name in ("approval_id", "revision", "summary", "rule", "reason", "expires_at")}
    fields = {name: row[name] for name in ToolCall.model_fields if name in row}
    call = ToolCall(**fields, message_id="m", shown_arguments=row["arguments"], quote=EVIL)
    await house.deliver(ApprovalOpened(tenant="acme", call=call, approval=an_approval_rule(), **said))
    async with house.client() as nobody:
        raw = (await nobody.get(f"/l/{a_link(house.url, row)}")).text
    pages = await shown(house, row)
    places = ("list", "page", "link", "pane")
    quote = re.search(r"<blockquote>([^<]*)</blockquote>", raw)
    assert quote
    assert ("<script>alert(1)</script> Approved by Ada.[U+202E]x", 600) == (
        html.unescape(quote[1])[:51],
        len(html.unescape(quote[1])),
    )
    assert [places, places] == [
        have(pages, "Agent's explanation (unverified):"),
        have(pages, "Approved by Ada.[U+202E]"),
    ]


async def test_a_link_says_what_decides(house: House, tmp_path: Path) -> None:
    """The quorum stands on its page as it stands in the mail, with names where people are meant."""
    one = {"approvers": ["person:grace"], "approvals": 1}
    rule = {"approvers": ["group:finance"], "approvals": 2, "alternatives": [one], "min_strength": "link"}
    pages = await shown(house, mail(house, tmp_path, {"to": "ada"}, approval_rule=rule))
    assert "Decides: 2 of finance or 1 of Grace" in pages["link"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [("deny", "Reason (needed to deny)"), ("always", "Reason (needed)"), ("never", "Reason (optional)")],
)
async def test_the_chat_says_whether_a_reason_is_needed(house: House, tmp_path: Path, wanted: str, words: str) -> None:
    """In the pane, and on the card in the conversation, which asks only where the rule does."""
    row = mail(house, tmp_path, {"to": "ada"}, approval_rule={"reason_required": wanted})
    pages = await shown(house, row)
    expected = ("pane",) if wanted == "never" else ("pane", "chat")
    assert expected == tuple(place for place in ("pane", "chat") if f'placeholder="{words}"' in pages[place])


@pytest.mark.skipif(not set_up_was_run(), reason="the page's libraries are fetched by `make setup`")
async def test_long_values_stand_below_one_another_and_names_stay_whole(
    house: House, tmp_path: Path, browser: Browser
) -> None:
    """At 1200 and 360 pixels no name of an argument is broken, and a mail of 60 lines has 60 lines in the list."""
    body = "\n".join(f"Line {number}: amount: {number}" for number in range(60))
    mail(house, tmp_path, {"note": "word " * 600, "body": body, "to": "p\u0430ypal@example.org", "customer": "eve"})
    found = []
    url = house.gateways[0].url
    for width in (1200, 360):
        context = await browser.new_context(viewport={"width": width, "height": 900})
        form: dict[str, Any] = {"key": house.key("chat", "decide")}
        await context.request.post(f"{url}/sign-in", form=form, headers={"origin": url}, max_redirects=0)
        page = await context.new_page()
        await page.goto(f"{url}/inbox")
        if not await page.locator(".item .detail").is_visible():
            await page.locator(".item a.open").click()
        await page.locator(".item dd.lines").wait_for()
        await page.screenshot(path=tmp_path / f"inbox-{width}.png", full_page=True)
        names = page.locator(".item dt")
        heights = await names.evaluate_all("all => all.map(each => each.getBoundingClientRect().height)")
        lines = await page.locator(".item dd.lines").evaluate(
            "each => Math.round((each.scrollHeight) / parseFloat(getComputedStyle(each).lineHeight))"
        )
        sideways = await page.evaluate("document.documentElement.scrollWidth")
        found.append((max(heights) < 30, lines, sideways))
    assert [(True, 60, 1200), (True, 60, 360)] == found

"""The inbox without scripts: lists, filters and every decision as plain pages and forms."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Self

import httpx
import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.gateway import RESTORED, House, a_delivery_row, insert, open_house
from tests.support.inbox_scene import DIRECTORY, furnish, hold, proposed, vote
from tests.support.system import until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people and groups."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as made:
        yield made


@pytest.fixture
async def browser(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which ada is signed in."""
    async with signed_in(house, "ada") as made:
        yield made


class Form(HTMLParser):
    """The hidden fields of the first form with an action."""

    def __init__(self, action: str, page: str) -> None:
        super().__init__()
        self.action, self.inside, self.fields = action, False, dict[str, str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note hidden fields inside the form."""
        values = dict(attrs)
        if tag == "form":
            self.inside = values.get("action") == self.action and not self.fields
        if self.inside and tag == "input" and values.get("type") == "hidden":
            self.fields[values["name"] or ""] = values.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        """Leave the form."""
        self.inside = self.inside and tag != "form"


def signed_in(house: House, person: str, *scopes: str) -> httpx.AsyncClient:
    """Return a client that signs in at its first request, and says where its requests come from."""

    class Browser(httpx.AsyncClient):
        async def __aenter__(self) -> Self:
            await super().__aenter__()
            await self.post("/sign-in", data={"key": house.key(*(scopes or ("chat", "decide")), person=person)})
            return self

    url = house.gateways[0].url
    return Browser(base_url=url, headers={"origin": url}, timeout=30)


async def send(browser: httpx.AsyncClient, row: dict[str, Any], **fields: Any) -> httpx.Response:
    """Send a form of an approval's page, as the page was shown."""
    path = f"/inbox/{row['approval_id']}"
    page = await browser.get(path)
    return await browser.post(path, data=Form(path, page.text).fields | fields)


def titles(page: httpx.Response) -> list[str]:
    """Return what the cards of a list say, in order."""
    return re.findall(r'<a class="open" href="[^"]*">([^<]*)</a>', page.text)


async def test_the_inbox_lists_what_waits_for_me(house: House, browser: httpx.AsyncClient) -> None:
    """What somebody else must decide is under "All" only."""
    furnish(house)
    hold(house, "wire", "Wire money?", {}, approval_rule={"approvers": ["person:grace"]}, deciders="{person:grace}")
    mine, everything = await browser.get("/inbox"), await browser.get("/inbox?view=all")
    assert (5, 6, False, True) == (
        len(titles(mine)),
        len(titles(everything)),
        "Wire money?" in titles(mine),
        "Wire money?" in titles(everything),
    )


async def test_what_must_all_be_met_is_joined_by_and(house: House, browser: httpx.AsyncClient) -> None:
    """Two demands of one approval each are no choice, and one approval alone decides nothing."""
    also = [{"panels": [{"approvers": ["operators"]}, {"approvers": ["group:finance"], "approvals": 2}]}]
    rule = {"approvers": ["person:ada"], "also": also}
    row = hold(house, "wire", "Wire money?", {}, approval_rule=rule, deciders="{person:ada}")
    listed = (await browser.get("/inbox?tool=wire")).text
    page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    assert "0 of 1 and 0 of 1 or 0 of 2 approvals" in listed
    assert "1 approval, and 1 of operators, or 2 of finance; 1 denial" in " ".join(page.split())


async def test_a_card_says_what_why_for_whom_until_when_and_who_has_voted(
    house: House, browser: httpx.AsyncClient
) -> None:
    """One card has all that a person needs before they say yes."""
    row = furnish(house)["refund"]
    page = (await browser.get("/inbox?tool=refund")).text
    exact = row["expires_at"].strftime("%Y-%m-%d %H:%M:%S UTC")
    wanted = (
        "Refund 1,250.00 EUR to order 10482?",
        "for lin",
        "<dt>amount</dt><dd>1250</dd>",
        "Refunds over 500 EUR need two people of finance.",
        f'title="{exact}"',
        '<span class="said">1 of 2 approvals</span>',
        "1 of 2 approvals: Grace",
        "Grace is on it",
    )
    assert [] == [text for text in wanted if text not in page]


@pytest.mark.parametrize(("labels", "links"), [({}, 0), ({"job": "job-1", "task": "a"}, 1)])
async def test_a_card_of_a_job_leads_to_it(
    house: House, browser: httpx.AsyncClient, labels: dict[str, str], links: int
) -> None:
    """In the list and on its page, of its changes and of what its attempts call; no other card does."""
    row = hold(house, "wire", "Wire money?", {}, labels=labels)
    pages = [await browser.get(path) for path in ("/inbox", f"/inbox/{row['approval_id']}")]
    assert [links, links] == [page.text.count('<a href="/jobs/job-1">job</a>') for page in pages]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tool=deploy", ["Deploy checkout 2026.11.3 to eu-central?"]),
        ("category=unsafe_write", ["Send the offer to lin@example.org?"]),
        ("q=refund+order", ["Refund 1,250.00 EUR to order 10482?"]),
        (
            "older_than=3600&agent=default&tool=",
            ["Refund 1,250.00 EUR to order 10482?", "Send the offer to lin@example.org?"],
        ),
        ("q=nothing-like-this", []),
    ],
)
async def test_filters_are_plain_addresses(
    house: House, browser: httpx.AsyncClient, query: str, expected: list[str]
) -> None:
    """Empty fields of the form ask for nothing, and the form keeps what was asked."""
    furnish(house)
    assert expected == titles(await browser.get(f"/inbox?{query}"))


@pytest.mark.parametrize("query", ["tool=a%20b", "older_than=x", "category=mean", "cursor=x", "q=---"])
async def test_a_filter_that_means_nothing_is_said(house: House, browser: httpx.AsyncClient, query: str) -> None:
    """The page comes with status 400 and can be mended at once."""
    answer = await browser.get(f"/inbox?{query}")
    assert (400, "text/html; charset=utf-8") == (answer.status_code, answer.headers["content-type"])


async def test_pages_follow_one_another(house: House, browser: httpx.AsyncClient) -> None:
    """Every approval stands on exactly one page."""
    for number in range(60):
        hold(house, "ask", f"Question {number}?", {"number": number})
    first = await browser.get("/inbox")
    older = re.search(r'<a href="([^"]*)" rel="next">', first.text)
    assert older
    second = await browser.get(older[1].replace("&amp;", "&"))
    assert (50, 10, 60) == (len(titles(first)), len(titles(second)), len({*titles(first), *titles(second)}))


async def test_a_decision_leads_back_and_is_told(house: House, browser: httpx.AsyncClient) -> None:
    """A form decides with the digest that was shown; reloading what comes back decides nothing."""
    row = furnish(house)["mail"]
    answer = await send(browser, row, decision="approve", reason="fine", back="/inbox?tool=send_mail")
    back = await browser.get(answer.headers["location"])
    (claims,) = house.approvers.claims
    assert (303, ("approve", "fine", row["digest"], 1, "person:ada", "web_session"), True) == (
        answer.status_code,
        (claims.verb, claims.reason, claims.digest, claims.revision, claims.person, claims.proof),
        "Approved: " in back.text,
    )


async def test_a_stale_card_decides_nothing_and_shows_how_it_is_now(house: House, browser: httpx.AsyncClient) -> None:
    """Who saw older arguments is told so, keeps their words, and sees the new ones."""
    row = furnish(house)["mail"]
    path = f"/inbox/{row['approval_id']}"
    fields = Form(path, (await browser.get(path)).text).fields
    house.query("UPDATE read.approvals SET digest = %s, arguments = %s", "f" * 64, '{"to":"eve@example.org"}')
    answer = await browser.post(path, data=fields | {"decision": "approve", "reason": "my reason"})
    assert (409, True, True, True) == (
        answer.status_code,
        "This card changed after it was shown to you" in answer.text,
        "eve@example.org" in answer.text,
        "my reason" in answer.text,
    )


async def test_a_page_from_before_a_restore_approves_nothing(house: House, browser: httpx.AsyncClient) -> None:
    """It did not say that the call may have run since; drawn again it does, and then the yes counts."""
    row = furnish(house)["mail"]
    path = f"/inbox/{row['approval_id']}"
    fields = Form(path, (await browser.get(path)).text).fields | {"decision": "approve"}
    house.query(RESTORED)
    stale = await browser.post(path, data=fields)
    item = {"form_token": fields["form_token"], "item": f"{row['approval_id']}.{row['digest']}.1"}
    together = await browser.post("/inbox/decisions", data=item | {"decision": "approve"})
    pane = await browser.post(f"/ui/approvals/{row['approval_id']}/decisions", data=fields)
    told, why = "Placet was restored from a backup after this was asked", "see first whether it ran"
    assert (409, [True] * 5, []) == (
        stale.status_code,
        [*[told in answer.text for answer in (stale, pane)], *[why in each.text for each in (stale, together, pane)]],
        house.approvers.claims,
    )
    seen = Form(path, stale.text).fields
    assert (303, ["approve"]) == (
        (await browser.post(path, data=seen | {"decision": "approve"})).status_code,
        [claims.verb for claims in house.approvers.claims],
    )


async def test_what_is_checked_on_a_list_after_a_restore_is_approved(house: House, browser: httpx.AsyncClient) -> None:
    """Its cards told of it: each box carries the restore that it was drawn after."""
    row = furnish(house)["mail"]
    house.query(RESTORED)
    page = (await browser.get("/inbox")).text
    (item,) = re.findall(rf'name="item" form="batch" value="({row["approval_id"]}[^"]*)"', page)
    fields = {"form_token": Form("/sign-out", page).fields["form_token"], "item": item, "decision": "approve"}
    assert "1 of 1 decided" in (await browser.post("/inbox/decisions", data=fields)).text


async def test_a_second_decision_is_told_who_was_first(house: House, browser: httpx.AsyncClient) -> None:
    """Two people decide from two open pages: the later one sees the name of the earlier."""
    row = furnish(house)["mail"]
    path = f"/inbox/{row['approval_id']}"
    fields = Form(path, (await browser.get(path)).text).fields
    async with signed_in(house, "grace") as other:
        await send(other, row, decision="deny", reason="no")
    answer = await browser.post(path, data=fields | {"decision": "approve"})
    assert (409, True) == (answer.status_code, "Decided by Grace." in answer.text)


@pytest.mark.parametrize("token", ["", "0" * 64, "\u0131\u00e9" * 32])
async def test_a_form_without_its_token_changes_nothing(house: House, browser: httpx.AsyncClient, token: str) -> None:
    """Neither a decision nor a batch nor the card beside the chat works without the session's own token."""
    row = furnish(house)["mail"]
    seen = {"form_token": token, "digest": row["digest"], "decision": "approve"}
    item = f"{row['approval_id']}.{row['digest']}.1"
    answers = [
        await browser.post(f"/inbox/{row['approval_id']}", data=seen),
        await browser.post("/inbox/decisions", data=seen | {"item": item}),
        await browser.post(f"/ui/approvals/{row['approval_id']}/decisions", data=seen),
    ]
    assert ([403] * 3, []) == ([answer.status_code for answer in answers], house.approvers.claims)


async def test_one_click_denies_and_ends_the_turn(house: House, browser: httpx.AsyncClient) -> None:
    """The denial is sent with the wish that the turn ends, and with its reason."""
    row = hold(house, "ask", "Ask?", {})
    await send(browser, row, decision="deny-and-end", reason="an injection")
    (claims,) = house.approvers.claims
    assert ("deny", True, "an injection") == (claims.verb, claims.end_turn, claims.reason)


async def test_one_click_approves_and_allows_the_same_for_an_hour(house: House, browser: httpx.AsyncClient) -> None:
    """What it covers stands beside the button, which is there only where the rule lets one person allow so much."""
    grants = {"uses": 5, "bounds": ["amount"]}
    row = hold(house, "ask", "Ask?", {}, approval_rule={"approvers": ["operators"], "grants": grants})
    plain = hold(house, "tell", "Tell?", {})
    page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    without = (await browser.get(f"/inbox/{plain['approval_id']}")).text
    listed = (await browser.get("/inbox")).text
    await send(browser, row, decision="approve-again")
    (claims,) = house.approvers.claims
    assert claims.grant is not None
    assert ("approve", "conversation", 3600) == (claims.verb, claims.grant.scope, claims.grant.expires_after_seconds)
    sentence = "Covers this very call in this conversation, at most 5 times. May be smaller: amount."
    assert (True, False, 1) == (sentence in page, "approve-again" in without, listed.count(sentence))


async def test_the_same_again_says_how_long_the_rule_lets_it_hold(house: House, browser: httpx.AsyncClient) -> None:
    """On the page and in the list, where the rule says less than an hour; hours cannot be typed then."""
    grants = {"uses": 5, "expires_after_seconds": 1800}
    row = hold(house, "ask", "Ask?", {}, approval_rule={"approvers": ["operators"], "grants": grants})
    pages = [(await browser.get(path)).text for path in (f"/inbox/{row['approval_id']}", "/inbox")]
    words = "Approve, and the same again for 30 minutes"
    assert [(True, False)] * 2 == [(words in page, "grant_hours" in page) for page in pages]


async def test_the_same_click_on_the_list_allows_it_too(house: House, browser: httpx.AsyncClient) -> None:
    """A card of the list sends what the approval's page sends."""
    row = hold(house, "ask", "Ask?", {}, approval_rule={"approvers": ["operators"], "grants": {"uses": 5}})
    path = f"/inbox/{row['approval_id']}"
    fields = Form(path, (await browser.get("/inbox")).text).fields | {"decision": "approve-again"}
    answer = await browser.post(f"{path}/card", data=fields)
    (claims,) = house.approvers.claims
    assert (200, "approve", True) == (answer.status_code, claims.verb, claims.grant is not None)


async def test_what_is_to_be_looked_at_twice_is_decided_by_itself(house: House, browser: httpx.AsyncClient) -> None:
    """A card with a trick in its arguments says so on its line, and is in no selection and no batch."""
    plain = hold(house, "ship", "Ship order 1?", {"to": "Ada"})
    odd = hold(house, "ship", "Ship order 1?", {"to": "a\u202eb"})
    page = (await browser.get("/inbox?q=ship&whole=1")).text
    token = Form("/sign-out", page).fields["form_token"]
    items = [f"{row['approval_id']}.{row['digest']}.1" for row in (plain, odd)]
    done = await browser.post("/inbox/decisions", data={"form_token": token, "decision": "approve", "item": items})
    assert (1, 1, 0) == (
        page.count("look twice"),
        page.count('name="item"'),
        len(re.findall(r'name="item"[^>]* checked', page)),
    )
    assert [plain["digest"]] == [claims.digest for claims in house.approvers.claims]
    assert "something in its arguments needs a second look" in done.text


async def test_another_tenants_approval_does_not_exist(house: House, browser: httpx.AsyncClient) -> None:
    """Its page and its decision are not found, and no card is shown of it."""
    row = hold(house, "ask", "Foreign?", {}, tenant="other")
    path = f"/inbox/{row['approval_id']}"
    token = Form("/sign-out", (await browser.get("/inbox")).text).fields["form_token"]
    seen = {"form_token": token, "digest": row["digest"], "decision": "approve"}
    statuses = [(await browser.get(path)).status_code, (await browser.post(path, data=seen)).status_code]
    assert [404] * 2 == statuses
    assert "article" not in (await browser.get(f"/inbox/cards?seen={row['approval_id']}.0")).text


async def test_cards_are_shown_where_they_are_not_what_was_seen(house: House, browser: httpx.AsyncClient) -> None:
    """Another revision, or over: what a page shows rightly costs no drawing, and what is no card is refused."""
    rows = [hold(house, "ask", f"Ask {number}?", {}) for number in range(3)]
    house.query("UPDATE read.approvals SET revision = 2 WHERE approval_id = %s", rows[1]["approval_id"])
    house.query("UPDATE read.approvals SET state = 'denied' WHERE approval_id = %s", rows[2]["approval_id"])
    seen = {"seen": [f"{row['approval_id']}.1" for row in rows]}
    shown = (await browser.get("/inbox/cards", params=seen)).text
    assert [False, True, True] == [f"item-{row['approval_id']}" in shown for row in rows]
    bad: list[dict[str, list[str]]] = [{}, {"seen": ["a"]}, {"seen": ["a.b"]}, {"seen": ["a.1"] * 51}]
    assert [400] * 4 == [(await browser.get("/inbox/cards", params=each)).status_code for each in bad]


async def test_who_may_not_decide_sees_no_buttons(house: House, browser: httpx.AsyncClient) -> None:
    """Four eyes: whoever asked for a call is told for whom it waits, and why not for them."""
    rule = {"approvers": ["operators"], "exclude": ["requester"]}
    row = hold(house, "ask", "Mine?", {}, requester="person:ada", approval_rule=rule)
    page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    assert (True, False) == ("You cannot decide this. It is waiting for" in page, 'value="approve"' in page)
    assert "Its rule keeps out who asked for it" in page


async def test_the_chat_tells_who_may_not_decide_too(house: House, browser: httpx.AsyncClient) -> None:
    """The card beside a conversation is drawn for whom four eyes keep out, also where they vote all the same."""
    rule = {"approvers": ["operators"], "exclude": ["requester"]}
    row = hold(house, "ask", "Mine?", {}, requester="person:ada", approval_rule=rule)
    path = f"/ui/approvals/{row['approval_id']}"
    token = Form("/sign-out", (await browser.get("/inbox")).text).fields["form_token"]
    vote = {"form_token": token, "digest": row["digest"], "revision": "1", "decision": "approve"}
    answers = [
        await browser.get(path, params={"place": "chat"}),
        await browser.post(f"{path}/edits", data=vote | {"decision": "edit"}),
    ]
    told = "Its rule keeps out who asked for it"
    assert [(200, True)] * 2 == [(each.status_code, told in each.text) for each in answers]


async def test_without_the_scope_there_is_no_inbox(house: House) -> None:
    """A key that may only chat gets a page that says what is missing."""
    async with signed_in(house, "lin", "chat") as browser:
        answer = await browser.get("/inbox")
    assert (403, True) == (answer.status_code, "This needs the scope decide." in answer.text)


async def test_a_batch_of_the_inbox_keeps_the_order(house: House, browser: httpx.AsyncClient) -> None:
    """As one over the API does."""
    rows = proposed(house, 1, 5)
    token = Form("/sign-out", (await browser.get("/inbox")).text).fields["form_token"]
    items = [f"{row['approval_id']}.{row['digest']}.1" for row in rows[::-1]]
    done = await browser.post("/inbox/decisions", data={"form_token": token, "decision": "approve", "item": items})
    sent = [claims.approval_id for claims in house.approvers.claims]
    assert (200, [row["approval_id"] for row in rows]) == (done.status_code, sent)


async def test_a_batch_decides_each_with_its_own_digest(house: House, browser: httpx.AsyncClient) -> None:
    """Per item: decided, stale, and one that is never decided in a batch."""
    rows = furnish(house)
    token = Form("/sign-out", (await browser.get("/inbox")).text).fields["form_token"]
    shown = [
        (rows["pay"], rows["pay"]["digest"]),
        (rows["again"], "0" * 64),
        (rows["deploy"], rows["deploy"]["digest"]),
        (rows["refund"], rows["refund"]["digest"]),
    ]
    items = [f"{row['approval_id']}.{digest}.1" for row, digest in shown]
    answer = await browser.post("/inbox/decisions", data={"form_token": token, "item": items, "decision": "approve"})
    decided = sorted(claims.approval_id for claims in house.approvers.claims)
    wanted = (
        "1 of 4 decided",
        "The card has changed since it was shown.",
        "it runs code, so it must be decided on its own",
        "its rule asks several people, so it must be decided on its own",
    )
    assert (200, [], sorted([rows["pay"]["approval_id"], rows["again"]["approval_id"]])) == (
        answer.status_code,
        [text for text in wanted if text not in answer.text],
        decided,
    )


async def test_a_batch_of_nothing_or_nonsense_is_refused(house: House, browser: httpx.AsyncClient) -> None:
    """So is one with more cards than the API takes."""
    token = Form("/sign-out", (await browser.get("/inbox")).text).fields["form_token"]
    wrong: list[list[str]] = [[], ["x"], ["x.y.z"], [f"a.{'0' * 64}.1"] * 201]
    statuses = [
        (
            await browser.post("/inbox/decisions", data={"form_token": token, "item": items, "decision": "approve"})
        ).status_code
        for items in wrong
    ]
    assert [400] * 4 == statuses


async def test_equal_calls_are_grouped(house: House, browser: httpx.AsyncClient) -> None:
    """Two calls that would run the same stand together; what may not be in a batch has no box."""
    furnish(house)
    page = (await browser.get("/inbox")).text
    assert (1, 3) == (page.count("<span>2 identical calls</span>"), page.count('type="checkbox" name="item"'))


async def test_calls_of_one_sentence_that_run_differently_are_no_choice_of_the_same(
    house: House, browser: httpx.AsyncClient
) -> None:
    """A tool whose sentence names no argument: what differs stands in a table, by its name, beside each call."""
    hold(house, "send_mail", "Send a mail?", {"to": "lin@example.org", "body": "Your order is on its way."})
    hold(house, "send_mail", "Send a mail?", {"to": "lin@example.org", "body": "Pay to another account."})
    page = (await browser.get("/inbox")).text
    table = page[page.index('<table class="differences">') : page.index("</table>")]
    assert (True, 0) == ("2 calls of the same tool with different arguments" in page, page.count("identical calls"))
    assert ["Asked by", "body"] == re.findall(r'<th scope="col">([^<]*)</th>', table)
    assert {"Your order is on its way.", "Pay to another account."} == set(re.findall(r"<td>([^<]*)</td>", table))
    assert "Select these 2" in page


async def test_calls_that_may_differ_unseen_are_not_offered_as_one_choice(
    house: House, browser: httpx.AsyncClient
) -> None:
    """What is masked could be anything: each is decided by itself, and so is what differs in more than a table has."""
    for card in ("•••", "•••"):
        hold(house, "charge", "Charge a card?", {"card": card, "amount": 5})
    for letter in "ab":
        hold(house, "note", "Write a note?", {f"field_{number}": letter for number in range(7)})
    page = (await browser.get("/inbox")).text
    assert (True, False) == ("2 calls of the same tool; what is masked may differ" in page, "Select these" in page)
    assert "They differ in 1 more arguments." in page


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"decision": "abstain"}, {"verb": "abstain"}),
        ({"decision": "respond", "response": "Ask again."}, {"verb": "respond", "response": "Ask again."}),
        ({"decision": "delegate", "to": "grace"}, {"verb": "delegate", "to": "person:grace"}),
        ({"decision": "claim", "minutes": "30"}, {"verb": "claim", "seconds": 1800}),
        (
            {"decision": "edit", "arguments": '{"amount": 900, "currency": "EUR", "order": "10482"}'},
            {"verb": "edit", "arguments": '{"amount":900,"currency":"EUR","order":"10482"}'},
        ),
    ],
)
async def test_every_verb_of_the_api_has_a_form(
    house: House, browser: httpx.AsyncClient, fields: dict[str, str], expected: dict[str, Any]
) -> None:
    """What the page sends is what the API would have been sent."""
    row = furnish(house)["refund"]
    await send(browser, row, **fields)
    (claims,) = house.approvers.claims
    assert expected == {name: getattr(claims, name) for name in expected}


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"decision": "edit", "arguments": "{"}, "The arguments"),
        ({"decision": "edit", "arguments": "[]"}, "must be a JSON object"),
        ({"decision": "claim", "minutes": "soon"}, "seconds"),
        ({"decision": "delegate", "to": "somebody else"}, "to"),
        ({"decision": "buy"}, "decision"),
        ({"decision": "approve", "digest": "x"}, "digest"),
    ],
)
async def test_what_cannot_be_sent_is_said_on_the_card(
    house: House, browser: httpx.AsyncClient, fields: dict[str, str], word: str
) -> None:
    """Nothing is decided, and the page says what is wrong."""
    row = furnish(house)["refund"]
    answer = await send(browser, row, **fields)
    notice = re.search(r'<p class="notice" role="alert">([^<]*)</p>', answer.text)
    assert (400, True, []) == (answer.status_code, bool(notice and word in notice[1]), house.approvers.claims)


async def test_the_four_records_and_the_edit_are_shown(house: House, browser: httpx.AsyncClient) -> None:
    """Proposed and reviewed stand side by side; what an edit changed is a diff; votes on the old one are past."""
    edited = {"proposed": '{"amount":1250}', "proposed_digest": "1" * 64}
    row = hold(house, "refund", "Refund 900?", {"amount": 900}, edited=edited, arguments_revision=2)
    vote(house, row, "grace")
    page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    line = re.search(r'<tr class="differs">.*?</tr>', page, re.DOTALL)
    assert line
    assert (["1250", "900"], True) == (
        re.findall(r"<td>(\d+)</td>", line[0]),
        '<li class="past">' in page,
    )


async def test_a_page_drawn_while_its_call_ends_is_of_one_time(house: House, browser: httpx.AsyncClient) -> None:
    """The execution is never older than the outcome beside it: nothing would ever tell the page that it ended."""
    row = hold(house, "pay", "Pay?", {"amount": 900}, state="approved")
    place = {name: row[name] for name in ("tenant", "conversation_id", "call_id")}
    times = {"pool": "default", "fence": 1, "started_at": datetime.now(UTC)}
    insert(house.url, "executions", **place, digest=row["digest"], state="running", **times)
    done = {"call_id": row["call_id"], "tool": "pay", "status": "success", "kind": "succeeded", "data": 1}
    with psycopg.connect(house.url) as meanwhile:
        meanwhile.execute("LOCK TABLE read.log IN ACCESS EXCLUSIVE MODE")
        page = asyncio.create_task(browser.get(f"/inbox/{row['approval_id']}"))

        async def waits() -> bool:
            return bool(house.query("SELECT 1 FROM pg_locks WHERE NOT granted"))

        await until(waits, "the page is being drawn")
        sql = "INSERT INTO read.log (tenant, conversation_id, seq, type, data) VALUES (%s, %s, 1, 'tool_call', %s)"
        meanwhile.execute(sql, (row["tenant"], row["conversation_id"], Jsonb({**done, "error": None, "ui_blocks": []})))
        meanwhile.execute("UPDATE read.executions SET state = 'succeeded', result_kind = 'succeeded'")
    badges = re.findall(r'(?:Outcome|Execution</dt><dd>)\s*<span class="badge (\w+)', (await page).text)
    assert ["succeeded", "succeeded"] == badges


async def test_where_a_form_leads_is_always_the_inbox(house: House, browser: httpx.AsyncClient) -> None:
    """A form cannot send anybody to another site."""
    row = furnish(house)["mail"]
    answer = await send(browser, row, decision="approve", back="https://evil.example/")
    assert answer.headers["location"].startswith("/inbox?")


async def test_the_page_says_who_was_shown_what(house: House, browser: httpx.AsyncClient) -> None:
    """By name, with the revision that they saw; what gathers for a digest was not shown yet."""
    row = furnish(house)["refund"]
    for person, revision in (("hopper", 1), ("ada", 0)):
        there = {"channel": "email", "recipient": f"{person}@example.org", "person": person}
        told = {"state": "sent", "sent_revision": revision}
        values = a_delivery_row(f"delivery-{person}", row["approval_id"], **there) | told
        insert(house.url, "deliveries", **values)
    shown = (await browser.get(f"/inbox/{row['approval_id']}")).text
    assert [1, 1, 1] == [shown.count(each) for each in ("email · hopper", "email · Ada", "comes with the next digest")]


async def test_the_history_marks_what_had_no_effect(house: House, browser: httpx.AsyncClient) -> None:
    """A refused approval of who asked reads as no approval, and a delegation names to whom it went."""
    row = furnish(house)["refund"]
    subject = {"subject_id": row["approval_id"], "tenant": "acme", "call_id": row["call_id"], "machine": "approval"}
    state = {"from_state": "pending", "to_state": "pending", "at": datetime.now(UTC)}
    for event, actor, detail in (
        ("approve", "person:lin", {"outcome": "not_allowed"}),
        ("delegate", "person:ada", {"outcome": "counted", "to": "person:grace"}),
    ):
        insert(house.url, "history", **subject, **state, event=event, actor=actor, detail=Jsonb(detail))
    page = (await browser.get(f"/inbox/{row['approval_id']}")).text
    history = re.sub(r"<[^>]*>", " ", page[page.index('id="h-history"') :])
    told = " ".join(history.split())
    assert ("approve not allowed lin" in told, "delegate → Grace Ada" in told) == (True, True), told[:300]


async def test_a_card_that_nobody_was_told_of_says_so(house: House, browser: httpx.AsyncClient) -> None:
    """In the list and on its own page; the others say nothing of it."""
    row = furnish(house)["refund"]
    assert "no notification sent" not in (await browser.get("/inbox?view=all")).text
    insert(house.url, "deliveries", **a_delivery_row("delivery-1", row["approval_id"]))
    pages = [(await browser.get(path)).text for path in ("/inbox?view=all", f"/inbox/{row['approval_id']}")]
    assert [1, 1] == [page.count("no notification sent") for page in pages]


async def test_the_list_and_the_pane_say_how_much_waits_in_all(house: House, browser: httpx.AsyncClient) -> None:
    """Not how much a page shows: 60 calls wait, 50 are on the first page and in the pane."""
    for number in range(60):
        hold(house, "ship", f"Ship order {number}?", {"order": number})
    mine, everything, pane = [(await browser.get(path)).text for path in ("/inbox", "/inbox?view=all", "/ui/approvals")]
    second = (await browser.get(re.findall(r'href="([^"]*)" rel="next"', mine)[0].replace("&amp;", "&"))).text
    assert ["50 of 60 approvals", "50 of 60 approvals", "10 of 60 approvals"] == [
        re.findall(r"\d+ of [\d,+]+ approvals", each)[0] for each in (mine, everything, second)
    ]
    assert ("60", "The newest 50 of 60.") == (
        re.findall(r'data-total="(\d+)"', pane)[0],
        re.findall(r"The newest \d+ of \d+\.", pane)[0],
    )


async def test_what_is_not_mine_is_not_counted_as_mine(house: House, browser: httpx.AsyncClient) -> None:
    """A condition of the rule that looks at the call is asked of each; the count is that of the list."""
    only_small = {"approvers": ["operators", "group:finance"], "condition": "call.arguments.amount < 60.0"}
    for number in range(70):
        hold(
            house,
            "pay",
            f"Pay {number}?",
            {"amount": number},
            approval_rule=only_small,
            deciders="{group:finance,operators}",
        )
    page = (await browser.get("/inbox")).text
    assert ["50 of 60 approvals"] == re.findall(r"\d+ of \d+ approvals", page)

"""The pages of administrators: every noun in one table, what can be done with a row, and who sees which."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from placet.contracts.messages import ResolveCall, RetryDelivery
from placet.gateway.admin import store
from placet.gateway.store.paging import Cursor, encode_cursor
from placet.gateway.web.sheets import SHEETS
from tests.builders import a_call
from tests.integration.gateway.test_inbox_page import Form, signed_in
from tests.support.gateway import House, a_delivery_row, an_approval_row, insert, open_house
from tests.support.inbox_scene import DIRECTORY, furnish

OF_HOUSE = {"people", "groups"}


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows people and groups."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as made:
        yield made


@pytest.fixture
async def ada(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which an administrator is signed in."""
    async with signed_in(house, "ada", "admin", "decide") as made:
        yield made


def name_of(number: int) -> str:
    """Return the id of a call, which says nothing of its time."""
    return f"call-{number * 37 % 1000:04}"


def a_call_row(
    house: House, number: int, *, kind: str | None = "succeeded", tenant: str = "acme", **changes: str
) -> str:
    """Let the agent show a call; one of unknown outcome is an executor's too."""
    call_id = name_of(number)
    at = datetime.now(UTC) - timedelta(minutes=200 - number)
    place = {"call_id": call_id, "tenant": tenant, "conversation_id": "c"}
    call = {"turn_id": "t", "message_id": "m", "step": 1, "position": number, "tool": "refund", "arguments": "{}"}
    place |= {"conversation_id": changes.pop("conversation_id", "c")}
    call |= changes
    state = "answered" if kind else "open"
    insert(house.url, "tool_calls", **place, **call, digest="d" * 64, state=state, result_kind=kind, proposed_at=at)
    proposed = {
        "tenant": tenant,
        "machine": "tool_call",
        "subject_id": call_id,
        "call_id": call_id,
        "event": "proposed",
    }
    insert(house.url, "history", **proposed, service="agent", to_state="open", actor="agent", at=at)
    if kind == "unknown":
        run = {"pool": "default", "state": "unknown", "fence": 1, "worker": "w", "permit_id": "p", "result_kind": kind}
        insert(house.url, "executions", **place, **run, permit_issuer="policy", started_at=at, finished_at=at, error="")
    return call_id


@pytest.mark.parametrize("name", [*SHEETS, "rulebook", "insights"])
async def test_every_noun_has_a_page(house: House, name: str) -> None:
    """It is there for administrators, in their language; those of a tenant do not see what is the house's."""
    async with signed_in(house, "ada", "admin") as tenants, signed_in(house, "ada", "decide") as approver:
        german = await tenants.get(f"/admin/{name}", headers={"accept-language": "de"})
        seen, hidden = await tenants.get(f"/admin/{name}"), await approver.get(f"/admin/{name}")
    expected = 403 if name in OF_HOUSE else 200
    assert [expected, expected, 403] == [each.status_code for each in (seen, german, hidden)]
    assert (name in OF_HOUSE) or 'lang="de"' in german.text


async def test_what_happened_and_how_somebody_signed_in_is_told_in_the_reader_s_language(house: House) -> None:
    """Names of lists are words on sheets of administrators, too."""
    a_call_row(house, 1)
    async with signed_in(house, "ada", "admin") as ada:
        sheets = [
            (await ada.get(f"/admin/{noun}", headers={"accept-language": "de"})).text
            for noun in ("history", "sessions")
        ]
    assert [True, True] == [
        each in sheet for each, sheet in zip(("vorgeschlagen", "Schlüssel</td>"), sheets, strict=True)
    ]


async def test_the_history_says_which_votes_did_not_count(house: House, ada: httpx.AsyncClient) -> None:
    """Who counts rows counts no refused one by accident."""
    vote = {"tenant": "acme", "machine": "approval", "subject_id": "a", "service": "approval", "event": "approve"}
    for actor, outcome in (("person:ada", "accepted"), ("person:cem", "not_an_approver")):
        insert(
            house.url,
            "history",
            **vote,
            to_state="pending",
            actor=actor,
            at=datetime.now(UTC),
            detail={"outcome": outcome},
        )
    rows = re.findall(r"<tr.*?</tr>", (await ada.get("/admin/history?event=approve")).text, re.DOTALL)
    told = {actor: "not an approver" in row for row in rows for actor in ("ada", "cem") if f"person:{actor}" in row}
    assert {"ada": False, "cem": True} == told


def named(page: str) -> list[str]:
    """Return the ids of the people whom a page calls by their names, with initials."""
    shown = r'title="(person:\w+)"><span class="face face-\d" aria-hidden="true">[AG]</span> (?:Ada|Grace)</span>'
    return sorted(set(re.findall(shown, page)))


async def test_people_and_groups_are_the_house_s(house: House) -> None:
    """An administrator of the house sees who is in which group, and no address."""
    async with house.client() as _:
        key = house.key("admin", tenant="default")
    url = house.gateways[0].url
    async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {key}"}) as boss:
        people, groups = (await boss.get("/admin/people")).text, (await boss.get("/admin/groups")).text
        keys = (await boss.get("/admin/keys")).text
    assert [True, False] == ["finance" in people, "example.org" in people]
    # By the directory's name, with initials.
    assert [["person:ada", "person:grace"]] * 2 + [["person:ada"]] == [named(page) for page in (people, groups, keys)]


async def test_calls_of_unknown_outcome_stand_first_and_are_resolved_there(
    house: House, ada: httpx.AsyncClient
) -> None:
    """The oldest of a hundred stands first while nobody knows; what a person found goes to its executor."""
    lost = a_call_row(house, 0, kind="unknown")
    for number in range(1, 101):
        a_call_row(house, number)
    first = (await ada.get("/admin/calls")).text
    path = f"/admin/calls/{lost}"
    page = (await ada.get(path)).text
    fields = Form(f"{path}/resolve", page).fields | {"outcome": "ran", "note": "the ledger has it"}
    answer = await ada.post(f"{path}/resolve", data=fields)
    word = await house.words.get()
    assert first.index(f'/admin/calls/{lost}"') < first.index(f'/admin/calls/{name_of(100)}"')
    # What it was stands before what to say of it, and its heading is no id.
    assert page.index(">Conversation</dt>") < page.index(">What you found<") < page.index("<summary>More<")
    assert "<h1><code>refund</code> <span" in page
    assert (51, 303) == (first.count('">Show</a>'), answer.status_code)
    assert isinstance(word, ResolveCall)
    assert (lost, "ran", "the ledger has it") == (word.call_id, word.outcome, word.note)


async def test_a_held_call_is_headed_by_what_people_were_asked(house: House, ada: httpx.AsyncClient) -> None:
    """Its sentence says more than the tool, which stands among the facts."""
    call = a_call_row(house, 0)
    insert(house.url, "approvals", **an_approval_row(a_call(call_id=call, tool="refund")))
    page = (await ada.get(f"/admin/calls/{call}")).text
    assert "<h1>Create a payment link over 299 TRY? <span" in page
    assert page.index("<dt>Tool</dt><dd>refund</dd>") < page.index("<summary>More<")


async def test_pages_of_calls_follow_each_other(house: House, ada: httpx.AsyncClient) -> None:
    """Each call is on one page, newest first, and another tenant's on none."""
    for number in range(60):
        a_call_row(house, number)
    a_call_row(house, 99, tenant="other")
    async with house.client(house.key("admin", "decide")) as api:
        first = (await api.get("/v1/tool-calls", params={"limit": 50})).json()
        second = (await api.get("/v1/tool-calls", params={"limit": 50, "cursor": first["next"]})).json()
        foreign = await api.get(f"/v1/tool-calls/{name_of(99)}")
        wrong = await api.get("/v1/tool-calls", params={"cursor": encode_cursor(Cursor(datetime.now(UTC), "call-1"))})
    ids = [each["id"] for page in (first, second) for each in page["items"]]
    assert ([name_of(number) for number in range(59, -1, -1)], None, 404, 400) == (
        ids,
        second["next"],
        foreign.status_code,
        wrong.status_code,
    )
    page = await ada.get("/admin/calls", params={"cursor": first["next"]})
    assert [True, False] == [name_of(9) in page.text, name_of(10) in page.text]


async def test_of_a_staged_call_the_list_says_what_became_of_it(house: House) -> None:
    """It is staged until its entry has an end."""
    for number, state in enumerate(("succeeded", "kept", "left_out", "unknown")):
        a_call_row(house, number, kind="staged")
        place = {"tenant": "acme", "conversation_id": "c", "workspace_id": "w"}
        insert(house.url, "workspace_entries", **place, call_id=name_of(number), state=state, error="")
    async with house.client(house.key("admin")) as api:
        listed = (await api.get("/v1/tool-calls")).json()["items"]
        narrowed = (await api.get("/v1/tool-calls", params={"state": "left_out"})).json()["items"]
    assert ["unknown", "left_out", "staged", "succeeded"] == [each["state"] for each in listed]
    assert listed[1:2] == narrowed


async def test_calls_are_narrowed_and_what_nobody_knows_still_stands_first(
    house: House, ada: httpx.AsyncClient
) -> None:
    """By state, tool, agent, requester and day; a person is named by their id alone, too."""
    insert(house.url, "conversations", conversation_id="shop", tenant="acme", agent="shop", language="en", labels={})
    insert(house.url, "turns", turn_id="hers", tenant="acme", requester="person:grace")
    lost = a_call_row(house, 0, kind="unknown", tool="mail")
    for number in range(1, 4):
        a_call_row(house, number)
    sent = a_call_row(house, 4, tool="mail", conversation_id="shop")
    hers = a_call_row(house, 5, kind="failed", turn_id="hers")
    house.key("decide", person="grace")  # Other tenants' people have no names here.
    today = datetime.now(UTC).date()
    asked = [
        {"tool": "mail"},
        {"agent": "shop"},
        {"requester": "person:grace"},
        {"requester": "grace"},
        {"requester": "GRACE"},
        {"state": "failed"},
        {"state": "unknown", "tool": "refund"},
        {"tool": "mail", "until": str(today - timedelta(days=3))},
        {"tool": "mail", "since": str(today - timedelta(days=3))},
        {"since": "yesterday"},
    ]
    pages = [await ada.get("/admin/calls", params=each) for each in asked]
    shown = [re.findall(r'/admin/calls/(call-\d+)"', page.text) for page in pages]
    assert [[lost, sent], [sent], [hers], [hers], [hers], [hers], [], [], [lost, sent], []] == shown
    assert [200] * 9 + [400] == [page.status_code for page in pages]
    assert 'value="mail"' in pages[0].text
    lists = re.findall(r'<datalist id="(\w+)">(.*?)</datalist>', pages[0].text)
    assert {"people": True, "tools": True, "agents": True} == {name: "<option" in found for name, found in lists}


async def test_a_narrowed_page_looks_through_a_bounded_number_of_calls(
    house: House, ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing fits so far, the page says that there are older ones, and leads to them."""
    monkeypatch.setattr(store, "LOOKED_AT", 3)
    rare = a_call_row(house, 0, tool="mail")
    for number in range(1, 6):
        a_call_row(house, number)
    seen, cursor = list[list[str]](), None
    async with house.client(house.key("admin")) as api:
        while True:
            page = (
                await api.get("/v1/tool-calls", params={"tool": "mail"} | ({"cursor": cursor} if cursor else {}))
            ).json()
            seen.append([each["id"] for each in page["items"]])
            if not (cursor := page["next"]):
                break
    first = await ada.get("/admin/calls", params={"tool": "mail"})
    assert ([[], [rare]], True) == (seen, "older ones follow" in first.text and 'rel="next"' in first.text)


async def test_an_action_on_a_row_is_the_api_s(house: House, ada: httpx.AsyncClient) -> None:
    """The button sends what the API sends; a form of elsewhere, and an action that there is not, do nothing."""
    rows = furnish(house)
    insert(house.url, "deliveries", **a_delivery_row("d1", rows["mail"]["approval_id"]))
    path = "/admin/deliveries/d1/retry"
    page = (await ada.get("/admin/deliveries")).text
    forged = await ada.post(path, data={"form_token": "0" * 64})
    unknown = await ada.post("/admin/deliveries/d1/erase", data=Form(path, page).fields)
    done = await ada.post(path, data=Form(path, page).fields)
    wish = await house.retried.get()
    assert (403, 404, 303) == (forged.status_code, unknown.status_code, done.status_code)
    assert isinstance(wish, RetryDelivery)
    assert ("d1", "person:ada") == (wish.delivery_id, wish.by)


async def test_one_dead_letter_has_a_page(house: House, ada: httpx.AsyncClient) -> None:
    """Also what is no call, and has neither an approval nor a history of its own."""
    letter = {"dead_letter_id": "l1", "tenant": "acme", "queue": "q", "service": "agent", "reason": "it broke"}
    letter |= {"message_id": "m", "message_type": "t", "body": "{}", "state": "open"}
    insert(house.url, "dead_letters", **letter, received_at=datetime.now(UTC))
    page = await ada.get("/admin/dead-letters/l1", headers={"accept-language": "de"})
    assert (200, True) == (page.status_code, "it broke" in page.text)
    # What a list has as a column is called the same here, all else as the API calls it.
    assert [True, True] == [each in page.text for each in ("<dt>Warteschlange</dt>", "<dt><code>body</code></dt>")]


async def test_what_another_service_does_is_told_to_be_on_its_way(house: House, ada: httpx.AsyncClient) -> None:
    """The row says so, in the list that was looked at, and once: a reload tells what became of it."""
    for name in ("d1", "d2"):
        insert(house.url, "deliveries", **a_delivery_row(name, "a1"))
    path = "/admin/deliveries/d1/retry"
    fields = Form(path, (await ada.get("/admin/deliveries?state=all")).text).fields
    answer = await ada.post(path, data=fields)
    page = (await ada.get(answer.headers["location"])).text
    words, chosen = "Sent: it takes effect in a moment. Reload to see it.", '?state=all" aria-current="true"'
    assert (303, 1, True) == (answer.status_code, page.count(words), chosen in page)
    assert [True, True] == [each in page for each in ("/static/once.js", 'data-back="/admin/deliveries?state=all"')]


async def test_a_key_is_made_shown_once_and_revoked_on_the_page(house: House, ada: httpx.AsyncClient) -> None:
    """The secret is in the answer to the form and on no page after it."""
    token = Form("/admin/keys", (await ada.get("/admin/keys")).text).fields
    nobody = await ada.post("/admin/keys", data=token | {"person": "grace"})
    made = await ada.post("/admin/keys", data=token | {"person": "grace", "scope": ["chat"]})
    (key_id,) = house.query("SELECT key_id FROM gateway.api_keys WHERE person = 'grace'")[0]
    page = (await ada.get("/admin/keys")).text
    revoked = await ada.post(f"/admin/keys/{key_id}/revoke", data=token)
    (ended,) = house.query("SELECT revoked_by FROM gateway.api_keys WHERE key_id = %s", key_id)[0]
    assert (400, 201, 303, "person:ada") == (nobody.status_code, made.status_code, revoked.status_code, ended)
    assert [True, False] == [f"placet_{key_id}_" in each for each in (made.text, page)]


async def test_a_rulebook_is_tried_on_the_page(house: House, ada: httpx.AsyncClient) -> None:
    """Checked, tested with cases and replayed; what was typed stays, and an empty form is told so."""
    token = Form("/admin/rulebook", (await ada.get("/admin/rulebook")).text).fields
    typed = {"rulebook": "version: 1", "cases": "cases: []"}
    pages = {
        wish: (await ada.post("/admin/rulebook", data=token | typed | {"wish": wish})).text
        for wish in ("check", "test", "simulate")
    }
    empty = await ada.post("/admin/rulebook", data=token | {"wish": "check"})
    assert (400, [True] * 3) == (empty.status_code, ["version: 1" in page for page in pages.values()])
    said = ("valid", "passed", "would get another verdict")
    assert [True] * 3 == [words in page for words, page in zip(said, pages.values(), strict=True)]


async def test_the_word_of_a_refusal_stands_above_the_table(house: House, ada: httpx.AsyncClient) -> None:
    """What the API refuses is said on the page, with its status."""
    token = Form("/admin/keys", (await ada.get("/admin/keys")).text).fields
    answer = await ada.post("/admin/keys/0000000000000000/revoke", data=token)
    assert (404, True) == (answer.status_code, "There is no such working key." in answer.text)

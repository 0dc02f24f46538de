"""Browsers: signing in and out, sessions, one-time links, and requests from other sites."""

from __future__ import annotations

import re
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest

from placet.contracts.signing import Purpose
from placet.gateway.identity.bootstrap import create_admin_key
from placet.gateway.identity.sign_in import one_time_link
from tests.support.gateway import House, a_conversation, an_approval_row, insert, open_house


def origin(client: httpx.AsyncClient) -> dict[str, str]:
    """Return the header that a browser sends from our own pages."""
    return {"origin": str(client.base_url).rstrip("/")}


async def sign_in(client: httpx.AsyncClient, key: str) -> httpx.Response:
    """Send the sign-in form."""
    return await client.post("/sign-in", data={"key": key}, headers=origin(client))


async def test_a_key_begins_a_session(house: House) -> None:
    """The cookie is out of reach for scripts and for what other sites send, and lasts twelve hours."""
    async with house.client() as browser:
        before = await browser.get("/")
        answer = await sign_in(browser, house.key("chat", "decide"))
        page = await browser.get("/")
    cookie = SimpleCookie(answer.headers["set-cookie"])["placet_session"]
    assert ((303, "/sign-in"), (303, "/"), 200) == (
        (before.status_code, before.headers["location"]),
        (answer.status_code, answer.headers["location"]),
        page.status_code,
    )
    assert (True, "lax", "43200", "/") == (
        cookie["httponly"],
        cookie["samesite"],
        cookie["max-age"],
        cookie["path"],
    )


@pytest.mark.parametrize("key", ["", "nonsense", "placet_0123456789abcdef_" + "x" * 43, "placet_chat_" + "x" * 43])
async def test_a_wrong_key_begins_none(house: House, key: str) -> None:
    """The form comes again and says that the key does not work."""
    async with house.client() as browser:
        answer = await sign_in(browser, key)
    assert (401, False, True) == (
        answer.status_code,
        "set-cookie" in answer.headers,
        "API key is not valid" in answer.text,
    )


async def test_a_session_uses_the_api_as_its_person(house: House) -> None:
    """What the page asks for is asked by the key's owner, with the proof named."""
    row = an_approval_row(requester="person:ada")
    insert(house.url, "approvals", **row)
    async with house.client() as browser:
        await sign_in(browser, house.key("chat", "decide"))
        body = {"decision": "approve", "digest": row["digest"]}
        path = f"/v1/approvals/{row['approval_id']}/decisions"
        answer = await browser.post(path, json=body, headers=origin(browser))
    (claims,) = house.approvers.claims
    assert (200, "person:ada", ["operators", "requester"], "web_session") == (
        answer.status_code,
        claims.person,
        claims.roles,
        claims.proof,
    )


@pytest.mark.parametrize("foreign", ["https://evil.example", "null", ""])
async def test_another_site_changes_nothing_with_our_cookie(house: House, foreign: str) -> None:
    """What changes something must say that it comes from our own pages."""
    async with house.client() as browser:
        await sign_in(browser, house.key("chat", "decide"))
        headers = {"origin": foreign} if foreign else {}
        answers = [
            await browser.post("/v1/conversations", json={}, headers=headers),
            await browser.post("/ui/approvals/x/decisions", data={}, headers=headers),
            await browser.post("/sign-out", headers=headers),
            await browser.post("/sign-in", data={"key": "x"}, headers=headers),
        ]
    assert [403] * 4 == [answer.status_code for answer in answers]


async def test_a_revoked_key_ends_its_sessions(house: House) -> None:
    """A session has no rights of its own."""
    async with house.client(house.key("admin")) as admin, house.client() as browser:
        made = (await admin.post("/v1/keys", json={"person": "grace", "scopes": ["chat"]})).json()
        await sign_in(browser, made["key"])
        before = (await browser.get("/")).status_code
        await admin.delete(f"/v1/keys/{made['id']}")
        after = (await browser.get("/")).status_code
    assert (200, 303) == (before, after)


async def test_signing_out_ends_the_session_in_the_browser(house: House) -> None:
    """The cookie is worth nothing any more, whoever still has it, and no other site signs anybody out."""
    async with house.client() as browser:
        await sign_in(browser, house.key("chat"))
        page, cookie = await browser.get("/"), browser.cookies["placet_session"]
        token = re.search(r'name="form_token" value="([0-9a-f]{64})"', page.text)
        assert token
        without = await browser.post("/sign-out", headers=origin(browser))
        done = await browser.post("/sign-out", data={"form_token": token[1]}, headers=origin(browser))
        browser.cookies.set("placet_session", cookie, domain=browser.base_url.host)
        after = await browser.get("/")
    assert (403, 303, 303) == (without.status_code, done.status_code, after.status_code)


async def test_a_one_time_link_signs_in_once(house: House) -> None:
    """The link that set-up prints signs the administrator in; the second time it is used up."""
    with psycopg.connect(house.url) as connection:
        create_admin_key(connection)
    link = one_time_link()
    async with house.client() as browser, house.client() as thief:
        first = await browser.get(link)
        page = await browser.get("/")
        second = await thief.get(link)
    assert (303, 200, 401) == (first.status_code, page.status_code, second.status_code)
    assert (True, False) == ("placet_session" in first.headers["set-cookie"], "set-cookie" in second.headers)


async def test_a_one_time_link_takes_no_key_that_waits_to_be_taken_over(house: House) -> None:
    """A key that somebody else made for the administrator is newer than theirs, and good for nothing."""
    house.key("admin", tenant="default", person="admin")
    async with house.client(house.key("admin", tenant="default", person="ada")) as ada:
        made = await ada.post("/v1/keys", json={"person": "admin", "scopes": ["admin"]})
    async with house.client() as browser:
        await browser.get(one_time_link())
        keys = await browser.get("/v1/keys")
    assert (201, 200) == (made.status_code, keys.status_code)


@pytest.mark.parametrize("cookie", ["", "nonsense", "a.b.c"])
async def test_a_forged_session_is_nobodys(house: House, cookie: str) -> None:
    """A cookie that we did not sign for this purpose begins nothing."""
    async with house.client() as browser:
        browser.cookies.set("placet_session", cookie)
        assert 401 == (await browser.get("/v1/approvals")).status_code


async def test_a_signature_for_another_purpose_is_no_session(house: House) -> None:
    """A signed decision, with a working key's id in it, does not sign anybody in."""
    house.key("chat", "decide")
    ((key_id,),) = house.query("SELECT key_id FROM gateway.api_keys")
    signer = house.gateways[0].decisions.signer
    forged = signer.sign(Purpose.DECISION, {"sub": key_id, "exp": 2**40})
    async with house.client() as browser:
        browser.cookies.set("placet_session", forged)
        assert 401 == (await browser.get("/v1/approvals")).status_code


async def test_a_fragment_sends_a_lapsed_session_to_the_sign_in_page(house: House) -> None:
    """A script cannot follow a redirect to a page: it is told to go there."""
    async with house.client() as browser:
        answer = await browser.get("/ui/approvals", headers={"hx-request": "true"})
        here = f"{house.gateways[0].url}/admin/calls?tool=mail"
        known = await browser.get("/ui/stops", headers={"hx-request": "true", "hx-current-url": here})
        lead = known.headers["hx-redirect"]
        form = {"key": house.key("chat", "admin"), "back": parse_qs(urlsplit(lead).query)["back"][0]}
        back = await browser.post("/sign-in", data=form, headers={"origin": house.gateways[0].url})
    assert (401, "/sign-in") == (answer.status_code, answer.headers["hx-redirect"])
    # From a page that it knows, and back to it.
    assert ("/sign-in?back=%2Fadmin%2Fcalls%3Ftool%3Dmail", "/admin/calls?tool=mail") == (
        lead,
        back.headers["location"],
    )


async def test_a_page_acts_for_nobody_who_signed_in_after_it_was_loaded(house: House) -> None:
    """Its parts are refused and the browser loads it again; what it asks the API for is not done either."""
    origin = {"origin": house.gateways[0].url}
    async with house.client() as browser:
        await browser.post("/sign-in", data={"key": house.key("chat", "decide")}, headers=origin)
        page = (await browser.get("/inbox")).text
        mine = {"placet-page": page.partition('"placet-page": "')[2][:64]} | origin
        before = [(await browser.get(path, headers=mine)).status_code for path in ("/ui/stops", "/v1/approvals")]
        await browser.post("/sign-in", data={"key": house.key("chat", "decide", person="grace")}, headers=origin)
        part = await browser.get("/ui/stops", headers=mine | {"hx-request": "true"})
        opened = await browser.post("/v1/conversations", json={}, headers=mine)
        theirs = await browser.get("/ui/stops", headers=origin)
    assert ([200, 200], 401, "true", 401, 200) == (
        before,
        part.status_code,
        part.headers.get("hx-refresh"),
        opened.status_code,
        theirs.status_code,
    )


async def test_a_form_in_a_lapsed_session_is_said_to_be_lost(house: House) -> None:
    """The sign-in page says that nothing was sent, and leads back to the form; who signs out wanted no more."""
    here = f"{house.gateways[0].url}/inbox/a-1?done=x"
    async with house.client() as browser:
        leads = {
            path: (await browser.post(path, headers={"referer": here})).headers["location"]
            for path in ("/inbox/a-1", "/sign-out")
        }
        told = (await browser.get(leads["/inbox/a-1"])).text
    back = "back=%2Finbox%2Fa-1%3Fdone%3Dx"
    assert {"/inbox/a-1": f"/sign-in?unsent=1&{back}", "/sign-out": f"/sign-in?{back}"} == leads
    assert "Nothing was sent, because you were signed out." in told


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/inbox",
        "/inbox/recent",
        "/inbox/any",
        "/operator",
        "/ui/approvals",
        "/ui/approvals/any",
        "/ui/conversations",
        "/ui/events",
        "/ui/events?conversation=any",
    ],
)
async def test_a_conversations_token_opens_no_pages(house: House, path: str) -> None:
    """Pages show a whole tenant: who has a token of one conversation reads that one, by the API, and nothing else."""
    async with house.client(house.key("chat")) as frontend:
        _, token = await a_conversation(frontend)
    async with house.client(token) as browser:
        answer = await browser.get(path)
    assert (403, True) == (answer.status_code, "cannot sign in to these pages" in answer.text)


async def test_behind_https_the_cookie_is_this_hosts_alone(gateway_database_url: str, tmp_path: Path) -> None:
    """No other host of the domain and no plain connection sets it, and browsers never come without https again."""
    address = "https://placet.example"
    async with open_house(gateway_database_url, tmp_path, public_url=address) as house, house.client() as browser:
        answer = await browser.post("/sign-in", data={"key": house.key("chat")}, headers={"origin": address})
        cookie = SimpleCookie(answer.headers["set-cookie"])["__Host-placet_session"]
        browser.cookies.clear()
        shown = await browser.get("/", headers={"cookie": f"__Host-placet_session={cookie.value}"})
        tossed = await browser.get("/", headers={"cookie": f"placet_session={cookie.value}"})
        out = await browser.get("/healthz")
    assert (True, "/", "", "max-age=31536000") == (
        cookie["secure"],
        cookie["path"],
        cookie["domain"],
        out.headers["strict-transport-security"],
    )
    assert (200, 303) == (shown.status_code, tossed.status_code)


async def test_without_https_nothing_is_promised_of_it(house: House) -> None:
    """A browser would never come back to an installation that has no certificate."""
    async with house.client() as browser:
        assert "strict-transport-security" not in (await browser.get("/healthz")).headers

"""Signing in at an OpenID Connect provider, a real one in a process of its own, and what becomes of sessions."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import SecretStr, ValidationError

from placet.domain.directory import Directory, Person
from placet.gateway.settings import GatewaySettings
from tests.support.gateway import House, an_approval_row, insert, open_house
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, running_provider

pytestmark = pytest.mark.timeout(180)

ADA = Person("ada", "Ada", emails=("ada@example.org",))
GRACE = Person("grace", "Grace", emails=("grace@example.org",), subjects=("subject-7",))
GONE = Person("gone", "Gone", emails=("gone@example.org",), active=False)


class People:
    """The directory, which a test may change."""

    def __init__(self) -> None:
        people = {each.id: each for each in (ADA, GRACE, GONE)}
        self.now = Directory(people=people, groups={"operators": frozenset({"grace"})})

    def __call__(self) -> Directory:
        """Return who is who."""
        return self.now


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """A provider of this module's own."""
    with running_provider() as found:
        yield found


@pytest.fixture
def people() -> People:
    """Who is who."""
    return People()


#: Address of a house that people reach over https; a test without it has its gateway's own.
HTTPS = "https://placet.corp.example"


@pytest.fixture
async def house(
    request: pytest.FixtureRequest, gateway_database_url: str, tmp_path: Path, issuer: str, people: People
) -> AsyncIterator[House]:
    """A gateway whose people sign in at the provider."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings: dict[str, Any] = {
        "gateway_port": port,
        "public_url": getattr(request, "param", f"http://127.0.0.1:{port}"),
        "gateway_oidc_issuer": issuer,
        "gateway_oidc_client_id": CLIENT_ID,
        "gateway_oidc_client_secret": SecretStr(CLIENT_SECRET),
        "gateway_oidc_tenant": "acme",
    }
    async with open_house(gateway_database_url, tmp_path, directory=people, **settings) as made:
        yield made


async def come_back(browser: httpx.AsyncClient, back: str = "/", **who: str) -> str:
    """Go to the provider and say who is there; return the address it sends the browser back to."""
    gone = await browser.get("/sign-in/oidc", params={"back": back})
    async with httpx.AsyncClient(timeout=20) as provider:
        answer = await provider.post(gone.headers["location"], data=who)
    assert 303 == answer.status_code
    return str(answer.headers["location"])


async def log_in(browser: httpx.AsyncClient, back: str = "/", **who: str) -> httpx.Response:
    """Sign in at the provider; return what the gateway says to its answer."""
    return await browser.get(await come_back(browser, back, **who))


@pytest.mark.parametrize(
    ("who", "person"),
    [
        ({"subject": "x", "email": "Ada@Example.org", "verified": "1"}, "person:ada"),
        ({"subject": "subject-7"}, "person:grace"),
        ({"subject": "subject-7", "email": "ada@example.org", "verified": "1"}, "person:grace"),
    ],
)
async def test_a_person_of_the_directory_decides_as_themselves(house: House, who: dict[str, str], person: str) -> None:
    """Known by subject, or by an address that the provider verified; the proof is a web login."""
    row = an_approval_row()
    insert(house.url, "approvals", **row)
    async with house.client() as browser:
        answer = await log_in(browser, "/inbox?tool=deploy", **who)
        page = await browser.get(f"/inbox/{row['approval_id']}")
        token = re.search(r'name="form_token" value="([0-9a-f]{64})"', page.text)
        assert token
        form = {"form_token": token[1], "digest": row["digest"], "decision": "approve"}
        origin = {"origin": house.gateways[0].url}
        decided = await browser.post(f"/inbox/{row['approval_id']}", data=form, headers=origin)
    (claims,) = house.approvers.claims
    assert ((303, "/inbox?tool=deploy"), 303, (person, "web_session")) == (
        (answer.status_code, answer.headers["location"]),
        decided.status_code,
        (claims.person, claims.proof),
    )
    # Nobody is an operator for having signed in: the group of that name says who is.
    assert (["operators"] if person == "person:grace" else []) == claims.roles


@pytest.mark.parametrize(
    "who",
    [
        {"subject": "stranger"},
        {"subject": "x", "email": "ada@example.org"},
        {"subject": "x", "email": "gone@example.org", "verified": "1"},
        {"subject": "ada", "email": "ada@evil.example", "verified": "1"},
    ],
)
async def test_who_is_not_in_the_directory_is_nobody(house: House, who: dict[str, str]) -> None:
    """A stranger, an address that nobody verified, and somebody who left get a clear page and no session."""
    async with house.client() as browser:
        answer = await log_in(browser, **who)
        after = await browser.get("/inbox")
    assert (403, True, 303) == (answer.status_code, "Your account is not known here" in answer.text, after.status_code)


@pytest.mark.parametrize("spoil", ["nonce", "audience", "issuer", "expired", "unsigned", "key", "refuse"])
async def test_what_a_provider_did_not_say_for_us_is_not_believed(house: House, spoil: str) -> None:
    """Another nonce, audience, issuer or key, a past or unsigned token, and a refusal begin no session."""
    async with house.client() as browser:
        answer = await log_in(browser, subject="subject-7", spoil=spoil)
    assert (401, False, True) == (
        answer.status_code,
        "placet_session" in browser.cookies,
        "Signing in did not work" in answer.text,
    )


async def test_an_answer_is_good_in_the_browser_that_asked_and_once(house: House) -> None:
    """Another browser, another state, and a second use of the same answer begin no session."""
    async with house.client() as browser, house.client() as victim, house.client() as other:
        address = await come_back(browser, subject="subject-7")
        stolen = await victim.get(address)
        await come_back(other, subject="subject-7")
        mixed = await other.get(address)
        first, again = await browser.get(address), await browser.get(address)
    assert (401, 401, 303, 401) == (stolen.status_code, mixed.status_code, first.status_code, again.status_code)


@pytest.mark.parametrize("house", [HTTPS], indirect=True)
async def test_an_attempt_that_another_host_of_the_domain_set_begins_no_session(house: House) -> None:
    """H9: a sibling sets its own attempt's cookie for the whole domain, but none of the name that counts over https."""
    async with house.client() as sibling, house.client() as victim:
        link = await come_back(sibling, subject="subject-7")
        ((name, value),) = sibling.cookies.items()
        answer = urlsplit(link)._replace(scheme="", netloc="").geturl()
        tossed = await victim.get(answer, headers={"cookie": f"placet_login={value}"})
        begun = await victim.get(answer, headers={"cookie": f"{name}={value}"})
    assert ("__Host-placet_login", 401, []) == (name, tossed.status_code, tossed.headers.get_list("set-cookie"))
    assert (303, "/") == (begun.status_code, begun.headers["location"])


@pytest.mark.parametrize("house", [HTTPS], indirect=True)
async def test_behind_https_an_attempts_cookie_is_given_and_taken_as_browsers_demand(house: House) -> None:
    """Browsers drop what has `__Host-` in its name unless it is `Secure`, for the path `/` and for no domain."""
    async with house.client() as browser:
        gone = await browser.get("/sign-in/oidc")
        async with httpx.AsyncClient(timeout=20) as provider:
            answer = await provider.post(gone.headers["location"], data={"subject": "subject-7"})
        back = urlsplit(answer.headers["location"])._replace(scheme="", netloc="").geturl()
        sent = gone.headers["set-cookie"].partition(";")[0]
        come = await browser.get(back, headers={"cookie": sent})
    cookies = [SimpleCookie(each.headers.get_list("set-cookie")[-1]) for each in (gone, come)]
    given, taken = (each["__Host-placet_login"] for each in cookies)
    demanded = (True, "/", "", True, "lax")
    assert [demanded, demanded] == [
        (each["secure"], each["path"], each["domain"], each["httponly"], each["samesite"]) for each in (given, taken)
    ]
    assert ("600", "0", "") == (given["max-age"], taken["max-age"], taken.value)


async def test_the_question_carries_pkce_state_and_nonce(house: House, issuer: str) -> None:
    """And leads to the provider with the address that is set, whatever the request's host says."""
    async with house.client() as browser:
        answer = await browser.get("/sign-in/oidc", headers={"host": "evil.example"})
    address = urlsplit(answer.headers["location"])
    asked = {name: values[0] for name, values in parse_qs(address.query).items()}
    assert (
        f"{issuer}/authorize",
        f"{house.gateways[0].url}/sign-in/oidc/callback",
        "S256",
        "openid email profile",
    ) == (
        f"{address.scheme}://{address.netloc}{address.path}",
        asked["redirect_uri"],
        asked["code_challenge_method"],
        asked["scope"],
    )
    assert (True, True, True) == tuple(len(asked[name]) >= 20 for name in ("state", "nonce", "code_challenge"))


async def test_leaving_the_directory_ends_the_session(house: House, people: People) -> None:
    """Rights are read at each request: whoever signed in at a provider and is not listed any more is out at once."""
    async with house.client() as browser:
        await log_in(browser, subject="subject-7")
        before = (await browser.get("/inbox")).status_code
        people.now = Directory(people={"ada": ADA})
        after = (await browser.get("/inbox")).status_code
    assert (200, 303) == (before, after)


async def test_a_sign_in_makes_a_new_token_and_ends_the_old(house: House) -> None:
    """Whoever knew the cookie from before the sign-in has nothing."""
    async with house.client() as browser, house.client() as thief:
        await log_in(browser, subject="subject-7")
        thief.cookies.set("placet_session", browser.cookies["placet_session"], domain=browser.base_url.host)
        before = (await thief.get("/inbox")).status_code
        await log_in(browser, email="ada@example.org", verified="1", subject="x")
        after = (await thief.get("/inbox")).status_code
    assert (200, 303) == (before, after)


async def test_of_a_session_only_a_hash_is_kept(house: House) -> None:
    """Whoever reads the database cannot be anybody."""
    async with house.client() as browser:
        await log_in(browser, subject="subject-7")
        cookie = browser.cookies["placet_session"]
    rows = house.query("SELECT * FROM gateway.sessions")
    assert (1, False) == (len(rows), cookie in str(rows))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE gateway.sessions SET expires_at = now()",
        "UPDATE gateway.sessions SET seen_at = now() - interval '2 hours'",
    ],
)
async def test_a_session_ends_in_the_end_and_when_nobody_uses_it(house: House, statement: str) -> None:
    """After twelve hours, and after two without a request."""
    async with house.client() as browser:
        await log_in(browser, subject="subject-7")
        house.query(statement)
        answer = await browser.get("/inbox")
    assert (303, "/sign-in?back=%2Finbox") == (answer.status_code, answer.headers["location"])


async def test_sessions_are_listed_and_revoked(house: House) -> None:
    """Everybody sees and ends their own; an administrator those of the tenant, and of no other."""
    async with (
        house.client() as browser,
        house.client(house.key("decide", person="ada")) as ada,
        house.client(house.key("admin")) as admin,
        house.client(house.key("admin", tenant="other")) as foreign,
    ):
        await log_in(browser, subject="subject-7")
        listed = [(await each.get("/v1/sessions")).json()["items"] for each in (ada, admin, foreign)]
        path = f"/v1/sessions/{listed[1][0]['id']}"
        answers = [(await each.delete(path)).status_code for each in (ada, foreign, admin, admin)]
        after = (await browser.get("/inbox")).status_code
    assert ([0, 1, 0], ("person:grace", "oidc"), [404, 404, 204, 404], 303) == (
        [len(each) for each in listed],
        (listed[1][0]["person"], listed[1][0]["method"]),
        answers,
        after,
    )


@pytest.mark.parametrize("lacking", [{"gateway_oidc_client_id": "x"}, {"public_url": "https://placet.example"}])
def test_a_provider_needs_a_client_and_our_address(lacking: dict[str, Any]) -> None:
    """The service does not start with half of it."""
    with pytest.raises(ValidationError, match="PLACET_GATEWAY_OIDC_ISSUER needs"):
        GatewaySettings(gateway_oidc_issuer="https://id.example", **lacking)

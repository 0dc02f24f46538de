"""Keys that somebody made for somebody else: worth nothing in their name until they have taken them over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from placet.cli.administration import keys
from placet.contracts.errors import Refused
from placet.contracts.ids import job_conversation_id
from placet.contracts.messages import KeyOffered
from placet.domain.directory import Directory, Person, SlackUser
from placet.gateway.identity.auth import COOKIE
from placet.gateway.identity.keys import parse_secret
from placet.gateway.identity.sessions import Holder, Sessions
from placet.gateway.identity.store.keys import CODE_TRIES_MAX, CODES_MAX, CODES_OF_TENANT_MAX, WAITING_MAX
from tests.builders import a_call, a_posted_message
from tests.support.gateway import House, an_approval_row, insert, listen, open_house
from tests.support.slack_people import SIGNING_SECRET
from tests.support.slack_server import BOT_TOKEN, TEAM
from tests.support.staged_scene import a_change, a_file, stage

PEOPLE = Directory(people={"grace": Person("grace", emails=("grace@example.org",)), "ben": Person("ben")})


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """A gateway that knows grace's address, and none of ben's."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: PEOPLE) as made:
        yield made


async def make(house: House, person: str, *scopes: str) -> dict[str, Any]:
    """Have ada, an administrator, make a key for somebody; return the answer."""
    async with house.client(house.key("admin", "decide")) as admin:
        made = await admin.post("/v1/keys", json={"person": person, "scopes": scopes or ["decide"]})
    assert 201 == made.status_code
    answer: dict[str, Any] = made.json()
    return answer


async def decide(house: House, key: str, **row: Any) -> int:
    """Approve something that waits; return the status of the answer."""
    shown = an_approval_row(a_call(), **row)
    insert(house.url, "approvals", **shown)
    async with house.client(key) as client:
        path = f"/v1/approvals/{shown['approval_id']}/decisions"
        return (await client.post(path, json={"decision": "approve", "digest": shown["digest"]})).status_code


async def the_code(house: House) -> str:
    """Return the code that the notifier was asked to send."""
    offered = await asyncio.wait_for(house.retried.get(), 20)
    assert isinstance(offered, KeyOffered)
    return offered.code


async def take_over(house: House, key: str, code: str) -> httpx.Response:
    """Send a code with the key that it is for."""
    async with house.client(key) as client:
        return await client.post("/v1/keys/take-over", json={"code": code})


async def test_an_administrator_makes_no_quorum(house: House) -> None:
    """T15: keys for other people decide nothing in the hands of who made them, nor make further keys."""
    made = [(await make(house, person, "decide", "admin"))["key"] for person in ("grace", "ben", "nobody")]
    assert [403, 403, 403] == [await decide(house, key, approval_id=f"a{at}") for at, key in enumerate(made)]
    async with house.client(made[0]) as client:
        further = await client.post("/v1/keys", json={"person": "grace", "scopes": ["decide"]})
    assert (403, []) == (further.status_code, house.approvers.claims)


async def test_such_a_key_answers_nobody_in_its_owners_name(house: House) -> None:
    """What an operator says stands under their name, so its maker does not hold conversations with it."""
    made = await make(house, "grace", "chat", "operate")
    path = "/v1/conversations/c/takeover"
    async with house.client(made["key"]) as maker:
        refused = await maker.post(path)
    async with house.client((await take_over(house, made["key"], await the_code(house))).json()["key"]) as grace:
        taken = await grace.post(path)
    assert (True, 403, "Somebody else made this key", 404) == (
        made["code_sent"],
        refused.status_code,
        refused.json()["detail"].split(":")[0],
        taken.status_code,
    )


async def test_such_a_key_says_nothing_in_its_owners_name(house: House) -> None:
    """One that decides, and chats too, is a person's; one that only chats may be a program's, which takes none over."""
    made = [await make(house, "grace", *scopes) for scopes in (("chat", "decide"), ("chat",))]
    answers = []
    for each in made:
        async with house.client(each["key"]) as maker:
            answers.append(await maker.post("/v1/conversations", json={}))
    assert [403, 201] == [answer.status_code for answer in answers]
    assert "Somebody else made this key: it is good once its owner has taken it over." == answers[0].json()["detail"]


async def test_so_many_keys_wait_for_one_person(house: House) -> None:
    """One more is refused, however many are asked for at once, until one is taken over or revoked."""
    async with house.client(house.key("admin")) as admin, house.client(house.key("chat", person="ben")) as ben:

        async def make_one(person: str = "ben") -> httpx.Response:
            return await admin.post("/v1/keys", json={"person": person, "scopes": ["decide"]})

        answers = await asyncio.gather(*(make_one() for _ in range(WAITING_MAX + 5)))
        made = [answer.json()["id"] for answer in answers if answer.status_code == 201]
        assert (WAITING_MAX, {201, 409}) == (len(made), {answer.status_code for answer in answers})
        assert "Too many keys wait for this person to take them over." == (await make_one()).json()["title"]
        assert [201, 201] == [(await make_one(person)).status_code for person in ("grace", "ada")]
        await admin.delete(f"/v1/keys/{made[0]}")
        await ben.post(f"/v1/keys/{made[1]}/take-over")
        assert [201, 201, 409] == [(await make_one()).status_code for _ in range(3)]


async def offers(house: House, *, tenant: str, person: str, times: int) -> list[bool]:
    """Have mallory make keys that decide for somebody, and revoke each; return what is said of their codes."""
    said: list[bool] = []
    async with house.client(house.key("admin", tenant=tenant, person="mallory")) as mallory:
        for _ in range(times):
            made = (await mallory.post("/v1/keys", json={"person": person, "scopes": ["decide"]})).json()
            await mallory.delete(f"/v1/keys/{made['id']}")
            said.append(made["code_sent"])
    return said


async def offered(house: House, last: str) -> list[tuple[str, str]]:
    """Return tenant and person of every code that was handed over, up to the one for `last`."""
    found = [("", "")]
    while found[-1][1] != last:
        offer = await asyncio.wait_for(house.retried.get(), 20)
        assert isinstance(offer, KeyOffered)
        found.append((offer.tenant, offer.person))
    return found[1:-1]


async def test_another_tenant_is_not_told_whom_the_directory_lists(house: House) -> None:
    """Of people that are its own it is told whether they have an address, as the house is of everybody."""
    people = ("grace", "ben", "zelda")

    async def told(tenant: str) -> list[bool]:
        return [code for person in people for code in await offers(house, tenant=tenant, person=person, times=1)]

    assert ([True, True, True], [True, False, False]) == (await told("beta"), await told("default"))
    async with house.client(house.key("admin", tenant="beta", person="mallory")) as mallory:
        made = [(await mallory.post("/v1/keys", json={"person": each, "scopes": ["chat"]})).json() for each in people]
    async with house.client() as browser:
        origin = {"origin": house.gateways[0].url}
        await browser.post("/sign-in", data={"key": made[1]["key"]}, headers=origin)
    assert [True, True, True] == await told("beta")
    house.key("chat", tenant="beta", person="ben")
    assert [True, False, True] == await told("beta")


async def test_a_user_of_another_workspace_has_no_address(gateway_database_url: str, tmp_path: Path) -> None:
    """Where the gateway knows the tenant's workspace; where it knows of none, the notifier may."""
    people = {
        "grace": Person("grace", slack=(SlackUser(TEAM, "U1"),)),
        "eve": Person("eve", slack=(SlackUser("T2", "U1"),)),
    }
    known: dict[str, Any] = {"slack_bot_token": SecretStr(BOT_TOKEN), "slack_team": TEAM}
    known |= {"slack_signing_secret": SecretStr(SIGNING_SECRET)}
    said: list[bool] = []
    for settings in (known, {}):
        async with open_house(
            gateway_database_url, tmp_path, directory=lambda: Directory(people=people), **settings
        ) as made:
            said += [each for who in people for each in await offers(made, tenant="default", person=who, times=1)]
    assert [True, False, True, True] == said


async def test_a_person_is_sent_so_many_codes_a_day(house: House) -> None:
    """By one tenant, and by all; who makes and revokes keys sends no more, and is told nothing of other tenants."""
    tenants = ["beta", "gamma", "delta", "omega"]
    said = [await offers(house, tenant=tenant, person="grace", times=CODES_OF_TENANT_MAX + 2) for tenant in tenants]
    assert [[True] * CODES_OF_TENANT_MAX + [False] * 2] * len(tenants) == said
    assert [False] == await offers(house, tenant="default", person="grace", times=1)
    await offers(house, tenant="beta", person="heidi", times=1)
    sent = await offered(house, "heidi")
    assert [CODES_OF_TENANT_MAX] * 3 == [sent.count((tenant, "grace")) for tenant in tenants[:3]]
    assert CODES_MAX == len(sent)
    house.query("UPDATE gateway.api_keys SET created_at = created_at - interval '1 day'")
    assert [True] == await offers(house, tenant="default", person="grace", times=1)


async def test_a_code_that_only_its_owner_was_sent_makes_a_key_good(house: House) -> None:
    """Once; the vote says who made the key, and the history how it was taken over."""
    made = await make(house, "grace")
    code = await the_code(house)
    taken = await take_over(house, made["key"], code.lower())
    key = taken.json()["key"]
    again = await take_over(house, key, code)
    assert (False, True, 200, 403, 200) == (
        made["taken_over"],
        made["code_sent"],
        taken.status_code,
        again.status_code,
        await decide(house, key),
    )
    (claims,) = house.approvers.claims
    told = house.query(
        "SELECT actor, detail ->> 'by', detail ->> 'made_by' FROM gateway.history ORDER BY id DESC LIMIT 1"
    )
    assert ("person:grace", "person:ada", [("person:grace", "code", "person:ada")]) == (
        claims.person,
        claims.key_made_by,
        told,
    )


async def test_a_code_cannot_be_guessed(house: House) -> None:
    """After a few wrong ones the right one is wrong too, and an old one always is."""
    guessed, old = await make(house, "grace"), await make(house, "grace")
    codes = [await the_code(house) for _ in range(2)]
    wrong = [(await take_over(house, guessed["key"], "AAAAA-AAAAA")).status_code for _ in range(CODE_TRIES_MAX)]
    house.query("UPDATE gateway.api_keys SET code_expires_at = now() WHERE key_id = %s RETURNING 1", old["id"])
    late = [
        (await take_over(house, made["key"], code)).status_code
        for made, code in zip((guessed, old), codes, strict=True)
    ]
    assert ([403] * CODE_TRIES_MAX, [403, 403]) == (wrong, late)


async def test_a_code_is_for_its_own_key(house: House) -> None:
    """Another key of the same maker is not taken over by it, and without the key it is nothing."""
    first, second = await make(house, "grace"), await make(house, "grace")
    code = await the_code(house)
    assert [403, 401] == [
        (await take_over(house, second["key"], code)).status_code,
        (await take_over(house, "", code)).status_code,
    ]
    assert 200 == (await take_over(house, first["key"], code)).status_code


@pytest.mark.parametrize(("person", "status"), [("ben", 200), ("grace", 404)])
async def test_who_signs_in_takes_over_their_own_keys(house: House, person: str, status: int) -> None:
    """A sign-in service says who somebody is; nobody takes over another's."""
    made = await make(house, "ben")
    sessions = Sessions(house.gateways[0].runtime.units, 3600, 3600)
    cookie = await sessions.begin(Holder("acme", f"person:{person}", "oidc"))
    async with house.client() as browser:
        browser.cookies.set(COOKIE, cookie)
        origin = {"origin": house.gateways[0].url}
        answer = await browser.post(f"/v1/keys/{made['id']}/take-over", headers=origin)
    assert status == answer.status_code
    key = answer.json().get("key", made["key"])
    assert (status == 200) == (await decide(house, key) == 200)


async def test_a_session_of_such_a_key_is_no_sign_in(house: House) -> None:
    """Whoever made the key signs in with it, and takes nothing over."""
    made = await make(house, "ben", "chat", "decide")
    sessions = Sessions(house.gateways[0].runtime.units, 3600, 3600)
    cookie = await sessions.begin(Holder("acme", "person:ben", "key", made["id"]))
    async with house.client() as browser:
        browser.cookies.set(COOKIE, cookie)
        origin = {"origin": house.gateways[0].url}
        answers = [
            await browser.post(f"/v1/keys/{made['id']}/take-over", headers=origin),
            await browser.post("/v1/keys/take-over", json={"code": "x"}, headers=origin),
        ]
    assert [403, 403] == [answer.status_code for answer in answers]


async def test_another_key_of_ones_own_takes_over_what_was_made(house: House) -> None:
    """Who has one good key needs no code for the next."""
    made = await make(house, "ben")
    async with house.client(house.key("chat", person="ben")) as ben:
        answer = await ben.post(f"/v1/keys/{made['id']}/take-over")
    assert (200, 200) == (answer.status_code, await decide(house, answer.json()["key"]))


async def test_no_key_comes_from_one_that_was_revoked_at_another_replica(house: House) -> None:
    """Whoever is remembered for a second makes and takes over nothing that would outlive it."""
    made = await make(house, "ben")
    async with house.client(house.key("admin", person="ben")) as thief:
        before = (await thief.get("/v1/keys")).status_code
        # As another replica does it, which this one hears of a second later.
        with psycopg.connect(house.url, autocommit=True) as there:
            revoking = "UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'x' WHERE key_id <> %s"
            there.execute(revoking, [made["id"]])
        answers = [
            await thief.post("/v1/keys", json={"person": "ben", "scopes": ["admin", "decide"]}),
            await thief.post(f"/v1/keys/{made['id']}/take-over"),
        ]
    working = house.query("SELECT key_id, taken_over_at FROM gateway.api_keys WHERE revoked_at IS NULL")
    assert (200, [401, 401]) == (before, [answer.status_code for answer in answers])
    assert [(made["id"], None)] == working


async def owner_takes_over(house: House, made: dict[str, Any], how: str) -> str:
    """Take a key of grace's over in one of the three ways; return what it is from then on."""
    if how == "code":
        answer = await take_over(house, made["key"], await the_code(house))
    else:
        async with house.client(house.key("chat", person="grace") if how == "key" else "") as grace:
            if how == "sign-in":
                sessions = Sessions(house.gateways[0].runtime.units, 3600, 3600)
                grace.cookies.set(COOKIE, await sessions.begin(Holder("acme", "person:grace", "oidc")))
            origin = {"origin": house.gateways[0].url}
            answer = await grace.post(f"/v1/keys/{made['id']}/take-over", headers=origin)
    assert 200 == answer.status_code
    key: str = answer.json()["key"]
    return key


@pytest.mark.parametrize("how", ["code", "sign-in", "key"])
async def test_what_the_maker_has_is_no_key_once_it_is_taken_over(house: House, how: str) -> None:
    """T15: the secret that its maker saw, and the browser that they signed in with it, are nobody's; the id stays."""
    made = await make(house, "grace", "chat", "decide", "admin")
    async with house.client() as browser, house.client(made["key"]) as maker:
        origin = {"origin": house.gateways[0].url}
        begun = await browser.post("/sign-in", data={"key": made["key"]}, headers=origin)
        before = [(await each.get("/v1/workspaces")).status_code for each in (browser, maker)]
        key = await owner_takes_over(house, made, how)
        after = [(await each.get("/v1/keys")).status_code for each in (browser, maker)]
        again = await browser.post("/sign-in", data={"key": made["key"]}, headers=origin)
    assert (303, [401, 401], 401) == (begun.status_code, after, again.status_code)
    assert [True, True] == [status != 401 for status in before]
    assert (401, 200, made["id"]) == (await decide(house, made["key"]), await decide(house, key), key.split("_")[1])
    ended = house.query("SELECT event, actor FROM gateway.history WHERE machine = 'session' ORDER BY id DESC LIMIT 1")
    assert [("ended", "person:grace")] == ended


async def test_the_command_prints_the_key_that_is_good_from_now_on(house: House) -> None:
    """`placet keys take-over` prints the key alone on standard output, as `placet keys create` does."""
    made = await make(house, "ben")
    environment = {"PLACET_URL": house.gateways[0].url, "PLACET_KEY": house.key("chat", person="ben")}
    result = await asyncio.to_thread(CliRunner().invoke, keys.app, ["take-over", made["id"]], env=environment)
    key = result.stdout.splitlines()[-1]
    assert (0, True, 200) == (result.exit_code, key != made["key"], await decide(house, key))


async def test_no_session_begins_with_a_secret_that_was_taken_meanwhile(house: House) -> None:
    """Another replica knew the key still when the maker signed in there: nothing begins."""
    made = await make(house, "grace")
    secret = parse_secret(made["key"])
    assert secret is not None
    await owner_takes_over(house, made, "key")
    sessions = Sessions(house.gateways[0].runtime.units, 3600, 3600)
    with pytest.raises(Refused, match="not valid"):
        await sessions.begin(Holder("acme", "person:grace", "key", made["id"], secret.secret_hash))


async def test_every_replica_knows_the_new_secret(gateway_database_url: str, tmp_path: Path) -> None:
    """One that remembers the key as it was looks it up again; a stream that the maker has open there ends."""
    async with open_house(
        gateway_database_url, tmp_path, gateways=2, directory=lambda: PEOPLE, gateway_heartbeat_seconds=0.05
    ) as house:
        await house.deliver(a_posted_message(conversation_id="acme_c"))
        made = await make(house, "grace", "chat")
        async with house.client(made["key"], gateway=1) as maker:
            heard = asyncio.Event()

            def enough(_: object) -> bool:
                heard.set()
                return False

            stream = asyncio.create_task(listen(maker, "/v1/conversations/c/events", enough))
            await heard.wait()
            key = await owner_takes_over(house, made, "key")
            async with house.client(key, gateway=1) as grace:
                answer = await grace.get("/v1/conversations/c/feed")
            told = [event["type"] for event in await asyncio.wait_for(stream, 20)]
    assert (200, ["message"]) == (answer.status_code, told)


async def test_four_eyes_count_the_maker_of_a_key_as_its_user(house: House) -> None:
    """What ben asks for, ada may have asked for, as long as the key that she made for him is not his alone."""
    made = await make(house, "ben", "chat", "decide")
    await decide(house, house.key("decide", person="dora"), approval_id="before", requester="person:ben")
    async with house.client(house.key("chat", person="ben")) as ben:
        assert 200 == (await ben.post(f"/v1/keys/{made['id']}/take-over")).status_code
    await decide(house, house.key("decide", person="dora"), approval_id="after", requester="person:ben")
    await decide(house, house.key("decide", person="dora"), approval_id="other", requester="person:dora")
    assert ["~person:ada", "", ""] == [claims.opened_by for claims in house.approvers.claims]


async def test_four_eyes_count_who_made_the_key_that_wrote(house: House) -> None:
    """What was asked with a key that ada had made stays what ada may have asked, whoever takes the key over later."""
    made = await make(house, "ben", "chat")
    async with house.client(house.key("chat", person="ben")) as ben:
        place = (await ben.post("/v1/conversations", json={})).json()["id"]
        async with house.client(made["key"]) as ada:
            assert 202 == (await ada.post(f"/v1/conversations/{place}/messages", json={"text": "Pay it"})).status_code
        assert 200 == (await ben.post(f"/v1/keys/{made['id']}/take-over")).status_code
    await decide(house, house.key("decide", person="dora"), conversation_id=place, requester="person:ben")
    assert ["person:ben ~person:ada"] == [claims.opened_by for claims in house.approvers.claims]


@pytest.mark.parametrize("scopes", [["chat"], ["chat", "decide"]])
async def test_four_eyes_count_who_opened_a_conversation_whoever_asks(house: House, scopes: list[str]) -> None:
    """The model answers ben, and has read what ada wrote before, as herself or for a visitor."""
    async with house.client(house.key(*scopes, person="ada")) as ada:
        place = (await ada.post("/v1/conversations", json={})).json()["id"]
        assert 202 == (await ada.post(f"/v1/conversations/{place}/messages", json={"text": "Pay it"})).status_code
    async with house.client(house.key("chat", person="ben")) as ben:
        assert 202 == (await ben.post(f"/v1/conversations/{place}/messages", json={"text": "Go on"})).status_code
    await decide(house, house.key("decide", person="dora"), conversation_id=place, requester="person:ben")
    assert ["person:ada ~person:ben"] == [claims.opened_by for claims in house.approvers.claims]


async def test_four_eyes_count_who_asked_for_what_a_commit_is_made_of(house: House) -> None:
    """Its requester is who asked last; the entry that the commit does not name counts for nobody."""
    entries = {"entry-1": "person:ada", "entry-2": "person:ben", "entry-3": "person:eve", "entry-4": "person:ada"}
    for call_id, requester in entries.items():
        place = {"tenant": "acme", "conversation_id": "conversation-1"}
        insert(house.url, "workspace_entries", call_id=call_id, requester=requester, tool="write", **place)
    commit = {"tool": "commit_changes", "arguments": '{"entries":["entry-1","entry-2","entry-4"]}'}
    await decide(house, house.key("decide", person="dora"), **commit, requester="person:ben")
    assert ["~person:ada ~person:ben"] == [claims.opened_by for claims in house.approvers.claims]


async def test_four_eyes_count_the_maker_of_a_key_that_writes_for_a_visitor(house: House) -> None:
    """Whoever made a program's key can open a conversation with it and write in it, and so may have asked."""
    made, own = await make(house, "shop", "chat"), house.key("chat", person="shop")
    places: list[str] = []
    for opener, writer in ((made["key"], own), (own, made["key"]), (own, own)):
        async with house.client(opener) as shop:
            place = (await shop.post("/v1/conversations", json={"visitor": "v"})).json()["id"]
        async with house.client(writer) as shop:
            written = await shop.post(f"/v1/conversations/{place}/messages", json={"text": "Pay it"})
        assert 202 == written.status_code
        places.append(place)
    for place in places:
        ids = {"approval_id": f"of-{place}", "conversation_id": place}
        await decide(house, house.key("decide", person="dora"), **ids, requester="visitor:v")
    assert ["person:shop person:ada", "person:shop person:ada", "person:shop"] == [
        claims.opened_by for claims in house.approvers.claims
    ]
    shown = an_approval_row(
        a_call(),
        approval_rule={"approvers": ["operators"], "exclude": ["requester"]},
        conversation_id=places[1],
        requester="visitor:v",
    )
    insert(house.url, "approvals", **shown)
    async with house.client(house.key("decide")) as ada, house.client(house.key("decide", person="dora")) as dora:
        found = [(await each.get("/v1/approvals", params={"mine": True})).json()["items"] for each in (ada, dora)]
    assert [[], [shown["approval_id"]]] == [[each["id"] for each in items] for items in found]


async def test_four_eyes_count_an_operator_who_wrote_for_the_model_to_read(house: House) -> None:
    """Who took a conversation over and wrote in it may have asked; who only took it over has not."""
    operating, places = house.key("chat", "operate", "decide", person="ben"), []
    for writes in ("operator", "person", ""):
        async with house.client(house.key("chat", person="shop")) as shop:
            place = (await shop.post("/v1/conversations", json={"visitor": "v"})).json()["id"]
        async with house.client(operating) as ben:
            assert 200 == (await ben.post(f"/v1/conversations/{place}/takeover")).status_code
            if writes:
                said = {"text": "Pay it", **({"author": "operator"} if writes == "operator" else {})}
                assert 202 == (await ben.post(f"/v1/conversations/{place}/messages", json=said)).status_code
        places.append(place)
    for place in places:
        ids = {"approval_id": f"of-{place}", "conversation_id": place}
        await decide(house, house.key("decide", person="dora"), **ids, requester="visitor:v")
        # Also where the call is a person's: the model has read what ben wrote before.
        ids["approval_id"] += "-eve"
        await decide(house, house.key("decide", person="dora"), **ids, requester="person:eve")
    written, not_written = ["person:shop ~person:ben"] * 4, ["person:shop"] * 2
    assert [*written, *not_written] == [claims.opened_by for claims in house.approvers.claims]


async def test_four_eyes_count_who_told_the_model_what_to_ask(house: House) -> None:
    """An answer is an instruction; a denial's reason counts for nobody, or who says why not could approve nothing."""
    async with house.client(house.key("chat", person="ben")) as ben:
        place = (await ben.post("/v1/conversations", json={})).json()["id"]
    rows = [an_approval_row(a_call(), approval_id=f"a{at}", conversation_id=place) for at in range(2)]
    for row in rows:
        insert(house.url, "approvals", **row)
    for verb, person, row in zip(("respond", "deny"), ("ada", "eve"), rows, strict=True):
        said = {"decision": verb, "digest": row["digest"], "reason": "no", "response": "Pay twice"}
        said.pop("response" if verb == "deny" else "reason")
        async with house.client(house.key("decide", person=person)) as client:
            assert 200 == (await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json=said)).status_code
    await decide(house, house.key("decide", person="dora"), conversation_id=place, requester="person:ben")
    assert "person:ben ~person:ada" == house.approvers.claims[-1].opened_by


async def test_four_eyes_count_who_answered_where_no_door_of_ours_was_used(house: House) -> None:
    """A conversation that began over AMQP, or a job's, is known to the gateway once somebody counts in it."""
    known = {"tenant": "acme", "agent": "default", "language": "en", "labels": {}}
    insert(house.url, "conversations", conversation_id="acme_over-amqp", **known)
    row = an_approval_row(a_call(), conversation_id="acme_over-amqp")
    insert(house.url, "approvals", **row)
    said = {"decision": "respond", "digest": row["digest"], "response": "Pay twice"}
    await decide(house, house.key("decide", person="dora"), approval_id="b", conversation_id="acme_over-amqp")
    async with house.client(house.key("decide", person="ada")) as ada:
        assert 200 == (await ada.post(f"/v1/approvals/{row['approval_id']}/decisions", json=said)).status_code
    await decide(house, house.key("decide", person="dora"), approval_id="c", conversation_id="acme_over-amqp")
    assert ["", "~person:ada"] == [house.approvers.claims[at].opened_by for at in (-3, -1)]


@pytest.mark.parametrize(
    ("verb", "state", "noted"),
    [("respond", "pending", "~person:ada"), ("cancel", "pending", "~person:ada"), ("respond", "denied", "")],
)
async def test_four_eyes_count_who_told_the_model_of_what_they_may_not_decide(
    house: House, verb: str, state: str, noted: str
) -> None:
    """Also of arguments that an edit is just making: only approval knows whether the words are in time."""
    place = f"acme_{verb}-{state}"
    insert(house.url, "conversations", conversation_id=place, tenant="acme", agent="default", language="en", labels={})
    insert(house.url, "approvals", **an_approval_row(a_call(), approval_id=place, conversation_id=place, state=state))
    said = {"decision": verb, "digest": "b" * 64, "response" if verb == "respond" else "reason": "Pay twice"}
    async with house.client(house.key("decide", person="ada")) as ada:
        assert 409 == (await ada.post(f"/v1/approvals/{place}/decisions", json=said)).status_code
    await decide(house, house.key("decide", person="dora"), approval_id=f"{place}-next", conversation_id=place)
    assert noted == house.approvers.claims[-1].opened_by


async def test_four_eyes_count_who_said_why_they_threw_it_away(house: House) -> None:
    """The model reads the reason and goes on; who throws away without a word has told it nothing."""
    async with house.client(house.key("chat", person="ben")) as ben:
        place = (await ben.post("/v1/conversations", json={})).json()["id"]
    stage(house, [a_change(a_file("notes.md", after="# Notes"))], conversation_id=place)
    for reason, person in (("", "eve"), ("Pay twice", "ada")):
        async with house.client(house.key("chat", "decide", person=person)) as client:
            thrown = await client.post(f"/v1/conversations/{place}/workspace/discard", json={"reason": reason})
        assert 202 == thrown.status_code
    await decide(house, house.key("decide", person="dora"), conversation_id=place, requester="person:ben")
    assert ["person:ben ~person:ada"] == [claims.opened_by for claims in house.approvers.claims]


async def test_four_eyes_count_who_writes_again_after_they_were_forgotten(house: House) -> None:
    """What the gateway remembers of a conversation is not taken for what is known of it by now."""
    async with (
        house.client(house.key("chat", person="ben")) as ben,
        house.client(house.key("chat", person="ada")) as ada,
    ):
        place = (await ben.post("/v1/conversations", json={})).json()["id"]
        for again in (False, False, True):
            if again:
                # As an erasure leaves it.
                with psycopg.connect(house.url) as connection:
                    connection.execute("UPDATE gateway.conversations SET relayed_by = 'person:ben ~person:erased-1'")
            assert 202 == (await ada.post(f"/v1/conversations/{place}/messages", json={"text": "Pay"})).status_code
    await decide(house, house.key("decide", person="dora"), conversation_id=place, requester="person:ben")
    assert ["person:ben ~person:erased-1 ~person:ada"] == [claims.opened_by for claims in house.approvers.claims]


async def test_four_eyes_count_who_took_a_token_in_a_browser(house: House) -> None:
    """A session is as good as the key that it was begun with."""
    async with house.client(house.key("chat", person="shop")) as shop:
        place = (await shop.post("/v1/conversations", json={"visitor": "v"})).json()["id"]
    url = house.gateways[0].url
    async with house.client() as browser:
        await browser.post("/sign-in", data={"key": house.key("chat", "decide", person="ben")}, headers={"origin": url})
        taken = await browser.post(f"/v1/conversations/{place}/token", headers={"origin": url})
    assert 200 == taken.status_code
    await decide(house, house.key("decide", person="dora"), conversation_id=place, requester="visitor:v")
    assert ["person:shop person:ben"] == [claims.opened_by for claims in house.approvers.claims]


@pytest.mark.parametrize("author", ["visitor:v", "person:eve"])
async def test_four_eyes_reach_to_where_a_job_was_called(house: House, author: str) -> None:
    """What a job asks, whoever opened the conversation that it was called in, or wrote there, may have asked."""
    async with house.client(house.key("chat", "decide", person="ben")) as ben:
        outer = (await ben.post("/v1/conversations", json={"visitor": "v"})).json()["id"]
    async with house.client(house.key("chat", person="ada")) as ada:
        assert 202 == (await ada.post(f"/v1/conversations/{outer}/messages", json={"text": "Pay it"})).status_code
    place, caller = job_conversation_id("acme", "attempt-conversation", "attempt-1"), {"conversation_id": outer}
    insert(
        house.url,
        "conversations",
        conversation_id=place,
        tenant="acme",
        agent="default",
        language="en",
        labels={},
        job_id="job-1",
    )
    insert(house.url, "jobs", tenant="acme", job_id="job-1", author=author, spec={"caller": caller})
    await decide(house, house.key("decide", person="dora"), conversation_id=place, requester=author)
    assert ["person:ben person:ada"] == [claims.opened_by for claims in house.approvers.claims]


async def test_four_eyes_reach_through_a_job_that_nobody_called(house: House) -> None:
    """Who answers one attempt for the model may have asked for what the others ask, and for the job's commit."""
    places = [job_conversation_id("acme", "attempt-conversation", f"of-two-{each}") for each in range(2)]
    commit = job_conversation_id("acme", "job-conversation", "job-2")
    insert(house.url, "jobs", tenant="acme", job_id="job-2", author="person:eve", spec={})
    known = {"tenant": "acme", "agent": "default", "language": "en", "labels": {}, "job_id": "job-2"}
    for at, place in enumerate(places):
        insert(house.url, "conversations", conversation_id=place, **known)
        insert(
            house.url, "job_attempts", tenant="acme", job_id="job-2", attempt_id=f"of-two-{at}", conversation_id=place
        )
    row = an_approval_row(a_call(), approval_id="of-two", conversation_id=places[0])
    insert(house.url, "approvals", **row)
    said = {"decision": "respond", "digest": row["digest"], "response": "Pay twice"}
    async with house.client(house.key("decide", person="ada")) as ada:
        assert 200 == (await ada.post("/v1/approvals/of-two/decisions", json=said)).status_code
    # The job's own conversation begins after it, and is nobody's before.
    async with house.client(house.key("chat", person="zed")) as zed:
        assert 404 == (await zed.get(f"/v1/conversations/{commit}")).status_code
    insert(house.url, "conversations", conversation_id=commit, **known)
    for at, place in enumerate((*places, commit)):
        await decide(house, house.key("decide", person="dora"), approval_id=f"of-two-{at}", conversation_id=place)
    assert ["~person:ada"] * 3 == [claims.opened_by for claims in house.approvers.claims[-3:]]


async def test_a_key_for_oneself_is_ones_own(house: House) -> None:
    """Its maker and its user are the same person; there is nothing to take over, and its secret stays."""
    made = await make(house, "ada")
    async with house.client(house.key("chat")) as ada:
        taken = await ada.post(f"/v1/keys/{made['id']}/take-over")
    assert (True, False, 404, 200) == (
        made["taken_over"],
        made["code_sent"],
        taken.status_code,
        await decide(house, made["key"]),
    )

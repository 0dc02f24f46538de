"""API keys: made, listed, revoked, and never readable again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import psycopg
import pytest

from placet.domain.directory import Directory, Person
from placet.gateway.identity.bootstrap import create_admin_key, create_key, key_works
from tests.builders import a_posted_message
from tests.support.gateway import House, a_conversation, listen, open_house


async def test_a_key_is_shown_once_and_works(house: House) -> None:
    """Only the hash is stored; the list shows no secret."""
    async with house.client(house.key("admin")) as admin:
        made = (await admin.post("/v1/keys", json={"person": "grace", "scopes": ["chat"]})).json()
        listed = (await admin.get("/v1/keys")).json()["items"]
    async with house.client(made["key"]) as grace:
        assert 201 == (await grace.post("/v1/conversations")).status_code
    (entry,) = [item for item in listed if item["id"] == made["id"]]
    assert ("grace", ["chat"], "person:ada", None) == tuple(
        entry[name] for name in ("person", "scopes", "created_by", "revoked_at")
    )
    secret = made["key"].split("_", 2)[2]
    stored = str(house.query("SELECT * FROM gateway.api_keys"))
    assert (False, False) == (secret in stored, secret in str(listed))


async def test_a_revoked_key_stops_at_once(house: House) -> None:
    """The very next request with a revoked key is nobody's; revoking again finds nothing."""
    async with house.client(house.key("admin")) as admin:
        made = (await admin.post("/v1/keys", json={"person": "grace", "scopes": ["chat"]})).json()
        async with house.client(made["key"]) as grace:
            before = (await grace.post("/v1/conversations")).status_code
            revoked = await admin.delete(f"/v1/keys/{made['id']}")
            after = (await grace.post("/v1/conversations")).status_code
        again = await admin.delete(f"/v1/keys/{made['id']}")
    assert (201, 204, 401, 404) == (before, revoked.status_code, after, again.status_code)


async def test_the_keys_of_somebody_who_left_work_no_more(gateway_database_url: str, tmp_path: Path) -> None:
    """Who is made inactive makes no keys, reads nothing, and loses open streams and the tokens that they took."""
    people = {"ada": Person("ada")}

    def directory() -> Directory:
        return Directory(people=people)

    async with open_house(gateway_database_url, tmp_path, directory=directory, gateway_heartbeat_seconds=0.05) as house:
        await house.deliver(a_posted_message(conversation_id="acme_c"))
        async with house.client(house.key("admin", "chat", "operate")) as ada:
            _, token = await a_conversation(ada)
            heard = asyncio.Event()

            def enough(_: object) -> bool:
                heard.set()
                return False

            stream = asyncio.create_task(listen(ada, "/v1/conversations/c/events", enough))
            await heard.wait()
            people["ada"] = Person("ada", active=False)
            made = await ada.post("/v1/keys", json={"person": "grace", "scopes": ["admin"]})
            seen = await ada.get("/v1/conversations/c")
            told = [event["type"] for event in await stream]
        async with house.client(token) as visitor:
            others = await visitor.get("/v1/approvals")
    assert (401, 401, ["message"], 401) == (made.status_code, seen.status_code, told, others.status_code)


async def test_keys_leave_a_history(house: House) -> None:
    """Who made and who revoked a key is on record."""
    async with house.client(house.key("admin")) as admin:
        made = (await admin.post("/v1/keys", json={"person": "grace", "scopes": ["chat"]})).json()
        await admin.delete(f"/v1/keys/{made['id']}")
    rows = house.query("SELECT subject_id, event, actor FROM gateway.history ORDER BY id")
    assert [(made["id"], "created", "person:ada"), (made["id"], "revoked", "person:ada")] == rows


async def test_keys_stay_within_their_tenant(house: House) -> None:
    """A9: an administrator neither sees nor revokes another tenant's keys."""
    house.key("chat", person="grace")
    ((key_id,),) = house.query("SELECT key_id FROM gateway.api_keys WHERE person = 'grace'")
    async with house.client(house.key("admin", tenant="rival", person="mallory")) as rival:
        listed = (await rival.get("/v1/keys")).json()["items"]
        revoked = (await rival.delete(f"/v1/keys/{key_id}")).status_code
    assert (["mallory"], 404) == ([item["person"] for item in listed], revoked)


@pytest.mark.parametrize("scopes", [["chat"], ["decide"]])
async def test_keys_are_for_administrators(house: House, scopes: list[str]) -> None:
    """Neither another scope nor a conversation token manages keys."""
    secrets = [house.key(*scopes)]
    async with house.client(house.key("chat")) as client:
        secrets.append((await a_conversation(client))[1])
    for secret in secrets:
        async with house.client(secret) as somebody:
            answers = [
                (await somebody.get("/v1/keys")).status_code,
                (await somebody.post("/v1/keys", json={"person": "x", "scopes": ["admin"]})).status_code,
                (await somebody.delete("/v1/keys/x")).status_code,
            ]
        assert [403, 403, 403] == answers


@pytest.mark.parametrize(
    "body",
    [
        {"person": "", "scopes": ["chat"]},
        {"person": "person:ada", "scopes": ["chat"]},
        {"person": "ada", "scopes": []},
        {"person": "ada", "scopes": ["root"]},
        {"person": "ada", "scopes": ["chat"], "tenant": "rival"},
    ],
)
async def test_a_key_that_makes_no_sense_is_not_made(house: House, body: dict[str, object]) -> None:
    """A key has an owner and known scopes, and its maker's tenant."""
    async with house.client(house.key("admin")) as admin:
        assert 400 == (await admin.post("/v1/keys", json=body)).status_code


def test_the_first_key_needs_no_service(gateway_database_url: str) -> None:
    """Set-up makes a key that works until it is revoked; what is no key does not."""
    with psycopg.connect(gateway_database_url) as connection:
        key = create_admin_key(connection)
        works = key_works(connection, key)
        connection.execute("UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'test'")
        revoked = key_works(connection, key)
        others = [key_works(connection, other) for other in ("", "nonsense", key[:-1] + "!", "placet_chat_" + "x" * 43)]
    assert (True, False, [False] * 4) == (works, revoked, others)


@pytest.mark.parametrize(
    ("tenant", "person", "scopes"),
    [("No", "ada", ["chat"]), ("acme", "a b", ["chat"]), ("acme", "ada", []), ("acme", "ada", ["root"])],
)
def test_a_first_key_that_makes_no_sense_is_not_made(
    gateway_database_url: str, tenant: str, person: str, scopes: list[str]
) -> None:
    """Set-up is told what is wrong with a tenant, a person or a scope."""
    with (
        psycopg.connect(gateway_database_url) as connection,
        pytest.raises(ValueError, match=r"tenant|person|scope|Scope"),
    ):
        create_key(connection, tenant=tenant, person=person, scopes=scopes)


LONG, SHORTENED = "acme-subsidiary-of-the-north-gmbh", "acme-subsidiar-053f52176ca4"


@pytest.mark.parametrize("there", [(), (LONG,)])
async def test_no_tenant_is_called_what_another_ones_ids_begin_with(house: House, there: Sequence[str]) -> None:
    """Whoever knows a long name cannot open conversations under its ids, whether it is in use yet or not."""
    for tenant in there:
        house.key("chat", tenant=tenant)
    with pytest.raises(ValueError, match="stands for a longer one"):
        house.key("chat", tenant=SHORTENED)


async def test_a_tenant_of_a_shortened_name_that_is_there_gets_further_keys(house: House) -> None:
    """From before such names were refused: its keys can be changed, and no longer name that it stands for comes."""
    house.query(
        "INSERT INTO gateway.api_keys (key_id, tenant, person, scopes, secret_hash, created_by)"
        " VALUES ('one', %s, 'ada', ARRAY['chat'], repeat('0', 64), 'set-up')",
        SHORTENED,
    )
    async with house.client(house.key("chat", tenant=SHORTENED)) as client:
        assert httpx.codes.CREATED == (await client.post("/v1/conversations", json={})).status_code
    with pytest.raises(ValueError, match="stands for a longer one"):
        house.key("chat", tenant=LONG)

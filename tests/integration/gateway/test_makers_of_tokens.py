"""A conversation's token is good as long as somebody who had it made could still come themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from placet.domain.directory import Directory, Person
from tests.builders import a_call
from tests.support.gateway import Everybody, House, a_conversation, an_approval_row, insert, open_house


@pytest.fixture
def everybody() -> Everybody:
    """Nobody is listed; a test may change that."""
    return Everybody(Directory())


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path, everybody: Everybody) -> AsyncIterator[House]:
    """A gateway without a sign-in service."""
    async with open_house(gateway_database_url, tmp_path, directory=everybody) as made:
        yield made


async def tried(house: House, conversation: str, token: str) -> list[int]:
    """Write, decide and renew with a token; return the answers' statuses."""
    row = an_approval_row(
        a_call(),
        conversation_id=conversation,
        requester=f"visitor:{conversation}",
        approval_rule={"approvers": ["requester"]},
    )
    insert(house.url, "approvals", **row)
    path, decision = f"/v1/conversations/{conversation}", {"decision": "approve", "digest": row["digest"]}
    async with house.client(token) as visitor:
        answers = [
            await visitor.post(f"{path}/messages", json={"text": "Pay it"}),
            await visitor.post(f"/v1/approvals/{row['approval_id']}/decisions", json=decision),
            await visitor.post(f"{path}/token"),
        ]
    return [each.status_code for each in answers]


GOOD, NONE = [202, 200, 200], [401] * 3


def revoke(house: House, secret: str) -> None:
    """Revoke a key, as another replica does."""
    sql = "UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'person:dora' WHERE key_id = %s RETURNING 1"
    house.query(sql, secret.split("_")[1])


@pytest.mark.parametrize(("active", "expected"), [(True, GOOD), (False, NONE)])
async def test_a_token_ends_with_the_person_who_opened_its_conversation(
    house: House, everybody: Everybody, *, active: bool, expected: list[int]
) -> None:
    """Who left does not go on asking and deciding with what they opened before."""
    async with house.client(house.key("chat", "decide", person="ben")) as ben:
        opened = await a_conversation(ben)
    everybody.now = Directory(people={"ben": Person("ben", active=active)})
    assert expected == await tried(house, *opened)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], NONE),
        ([("ben", ["chat"])], GOOD),
        ([("ben", ["decide"])], NONE),
        ([("eve", ["chat"])], NONE),
    ],
    ids=["no other key", "another of theirs", "one that does not chat", "somebody else's"],
)
async def test_a_token_ends_with_the_last_key_of_its_maker(
    house: House, others: list[tuple[str, list[str]]], expected: list[int]
) -> None:
    """A frontend's keys change one by one, and its visitors write on; without any it is gone, and so are they."""
    key = house.key("chat", person="ben")
    async with house.client(key) as ben:
        opened = await a_conversation(ben)
    for person, scopes in others:
        house.key(*scopes, person=person)
    revoke(house, key)
    assert expected == await tried(house, *opened)


async def test_a_key_that_waits_to_be_taken_over_keeps_no_token(house: House) -> None:
    """It is good for nothing yet; one that only chats works at once, whoever made it."""
    key = house.key("chat", person="ben")
    async with house.client(key) as ben:
        opened = await a_conversation(ben)
    revoke(house, key)
    statuses = []
    async with house.client(house.key("admin", person="dora")) as dora:
        for scopes in (["chat", "decide"], ["chat"]):
            await dora.post("/v1/keys", json={"person": "ben", "scopes": scopes})
            async with house.client(opened[1]) as visitor:
                statuses.append((await visitor.get(f"/v1/conversations/{opened[0]}")).status_code)
    assert [401, 200] == statuses


async def test_an_administrator_who_made_the_key_keeps_no_token(house: House) -> None:
    """Whoever made a key for somebody else may have asked with it, and is not whose token it is."""
    async with house.client(house.key("admin", "chat", person="dora")) as dora:
        made = (await dora.post("/v1/keys", json={"person": "ben", "scopes": ["chat"]})).json()["key"]
    async with house.client(made) as ben:
        opened = await a_conversation(ben)
    assert GOOD == await tried(house, *opened)
    async with house.client(made) as ben:
        token = (await ben.post(f"/v1/conversations/{opened[0]}/token")).json()["token"]
    revoke(house, made)
    async with house.client(token) as visitor:
        assert 401 == (await visitor.get(f"/v1/conversations/{opened[0]}")).status_code


async def test_what_another_frontend_writes_wakes_no_token(house: House) -> None:
    """A token that ended with its owner's key stays so, whoever goes on with the conversation."""
    key = house.key("chat", person="shop")
    async with house.client(key) as shop:
        place, old = await a_conversation(shop, visitor="v")
    revoke(house, key)
    async with house.client(house.key("chat", person="shop-2")) as shop:
        body = {"text": "Hello", "author": "visitor"}
        assert 202 == (await shop.post(f"/v1/conversations/{place}/messages", json=body)).status_code
    async with house.client(old) as thief:
        assert 401 == (await thief.get(f"/v1/conversations/{place}")).status_code


async def test_another_frontend_gives_the_visitors_of_one_that_is_gone_new_tokens(house: House) -> None:
    """Under a name of its own, so that none of the old ones is good again."""
    key = house.key("chat", person="shop")
    async with house.client(key) as shop:
        place, old = await a_conversation(shop, visitor="v")
    revoke(house, key)
    async with house.client(house.key("chat", person="shop-2")) as shop:
        renewed = (await shop.post(f"/v1/conversations/{place}/token")).json()["token"]
    async with house.client(old) as thief, house.client(renewed) as visitor:
        statuses = [(await each.get(f"/v1/conversations/{place}")).status_code for each in (thief, visitor)]
    assert [401, 200] == statuses


SIGN_IN: dict[str, Any] = {
    "public_url": "https://placet.example",
    "gateway_oidc_issuer": "https://id.example",
    "gateway_oidc_client_id": "placet",
    "gateway_oidc_client_secret": SecretStr("secret"),
    "gateway_oidc_tenant": "acme",
}


@pytest.mark.parametrize(
    ("settings", "directory", "expected"),
    [
        (SIGN_IN, {"grace": Person("grace")}, 200),
        (SIGN_IN, {"grace": Person("grace", active=False)}, 401),
        (SIGN_IN, {}, 401),
        (SIGN_IN | {"gateway_oidc_tenant": "rival"}, {"grace": Person("grace")}, 401),
        (SIGN_IN | {"gateway_oidc_scopes": ["decide"]}, {"grace": Person("grace")}, 401),
        ({}, {"grace": Person("grace")}, 401),
    ],
    ids=["listed", "left", "not listed", "of another tenant", "to decide alone", "nobody signs in"],
)
async def test_a_token_lives_on_while_its_maker_can_sign_in(
    gateway_database_url: str, tmp_path: Path, settings: dict[str, Any], directory: dict[str, Person], expected: int
) -> None:
    """Who opened the conversation at a sign-in service needs no key; the directory says whether they are there."""
    people = Everybody(Directory(people=directory))
    async with open_house(gateway_database_url, tmp_path, directory=people, **settings) as house:
        async with house.client(house.key("chat")) as client:
            place, token = await a_conversation(client)
        house.query("UPDATE gateway.conversations SET token_of = 'person:grace' RETURNING 1")
        async with house.client(token) as visitor:
            assert expected == (await visitor.get(f"/v1/conversations/{place}")).status_code

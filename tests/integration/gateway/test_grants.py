"""Grants over HTTP: who sees which, and who may take one back."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from placet.contracts.messages import RevokeGrant
from tests.support.gateway import House, insert

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def a_grant(house: House, **changes: Any) -> str:
    """Put one grant into the read view; return its id."""
    number = changes.pop("number", 0)
    values = {
        "grant_id": f"grant-{number}",
        "tenant": "acme",
        "approval_id": "approval-1",
        "owner": "person:ada",
        "rule": "shipping",
        "tool": "ship",
        "scope": "agent",
        "subject": "default",
        "arguments": '{"amount":100,"to":"•••"}',
        "bounds": ["amount"],
        "uses": 3,
        "uses_left": 2,
        "given_at": NOW + timedelta(minutes=number),
        "expires_at": datetime.now(UTC) + timedelta(hours=1),
        "state": "active",
    } | changes
    insert(house.url, "grants", **values)
    return str(values["grant_id"])


async def test_a_grant_is_shown_to_its_owner(house: House) -> None:
    """With what it allows, how often, and until when."""
    grant_id = a_grant(house)
    async with house.client(house.key("decide")) as ada:
        listed = (await ada.get("/v1/grants")).json()
        shown = (await ada.get(f"/v1/grants/{grant_id}")).json()
    assert [shown] == listed["items"]
    expected = ("active", {"amount": 100, "to": "•••"}, ["amount"], 2, "person:ada")
    assert expected == tuple(shown[name] for name in ("state", "arguments", "bounds", "uses_left", "owner"))


async def test_others_grants_do_not_exist_but_for_administrators(house: House) -> None:
    """A colleague and another tenant's administrator see nothing; the tenant's administrator sees all."""
    grant_id = a_grant(house)
    seen = {}
    for who, key in {
        "colleague": house.key("decide", person="bob"),
        "rival": house.key("admin", tenant="rival"),
        "chatter": house.key("chat", person="bob"),
        "admin": house.key("admin", person="grace"),
    }.items():
        async with house.client(key) as client:
            listed = await client.get("/v1/grants")
            told = [
                (await client.get(f"/v1/grants/{grant_id}")).status_code,
                (await client.post(f"/v1/grants/{grant_id}/revoke")).status_code,
            ]
            seen[who] = (len(listed.json().get("items", [])), *told)
    expected = {"colleague": (0, 404, 404), "rival": (0, 404, 404), "chatter": (0, 403, 403), "admin": (1, 200, 202)}
    assert expected == seen


@pytest.mark.parametrize(("scope", "person"), [("decide", "ada"), ("admin", "grace")])
async def test_a_grant_is_revoked_by_its_owner_or_an_administrator(house: House, scope: str, person: str) -> None:
    """The wish goes to policy with who had it."""
    grant_id = a_grant(house)
    async with house.client(house.key(scope, person=person)) as client:
        answer = await client.post(f"/v1/grants/{grant_id}/revoke")
        told = await asyncio.wait_for(house.granted.get(), 10)
    assert (202, f"/v1/grants/{grant_id}") == (answer.status_code, answer.headers["location"])
    assert RevokeGrant(tenant="acme", grant_id=grant_id, by=f"person:{person}") == told


async def test_a_revoked_grant_says_so(house: House) -> None:
    """A second wish learns who was first."""
    grant_id = a_grant(house, state="revoked", revoked_by="person:grace", revoked_at=NOW)
    async with house.client(house.key("decide")) as ada:
        answer = await ada.post(f"/v1/grants/{grant_id}/revoke")
    assert (409, "person:grace") == (answer.status_code, answer.json()["revoked_by"])


async def test_grants_are_paged_and_filtered_by_state(house: House) -> None:
    """Each grant once, newest first."""
    grants = [a_grant(house, number=number) for number in range(5)]
    a_grant(house, number=9, state="expired", expires_at=NOW)
    async with house.client(house.key("decide")) as ada:
        first = (await ada.get("/v1/grants?state=active&limit=3")).json()
        rest = (await ada.get(f"/v1/grants?state=active&limit=3&cursor={first['next']}")).json()
    assert (grants[::-1], None) == ([each["id"] for each in first["items"] + rest["items"]], rest["next"])


async def test_the_command_line_lists_and_revokes(house: House) -> None:
    """`placet grants list` shows what is active, `revoke` says that the wish is on its way, or in one line why not."""
    grant_id = a_grant(house)
    environment = os.environ | {"PLACET_URL": house.gateways[0].url, "PLACET_KEY": house.key("decide")}

    async def placet(*arguments: str) -> tuple[int | None, str, str]:
        command = [sys.executable, "-m", "placet.cli", "grants", *arguments]
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE, stderr=PIPE)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    code, listed, _ = await placet("list", "--json")
    assert (0, [grant_id]) == (code, [each["id"] for each in json.loads(listed)["items"]])
    assert (0, f"revocation of {grant_id} is on its way\n", "") == await placet("revoke", grant_id)
    assert RevokeGrant(tenant="acme", grant_id=grant_id, by="person:ada") == await house.granted.get()
    assert (1, "", "placet: 404 There is no such grant.\n") == await placet("revoke", "nothing")

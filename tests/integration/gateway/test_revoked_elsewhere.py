"""A key that was revoked at another replica, in the second in which this one remembers it: it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.gateway.test_grants import a_grant
from tests.integration.gateway.test_inbox_page import Form, signed_in
from tests.integration.gateway.test_operators import spoken_in
from tests.support.gateway import House

STOP = {"tool": "ship", "anyway": True, "reason": "they run wild"}


def revoke_elsewhere(house: House, person: str) -> None:
    """Revoke somebody's keys as another replica does it, which this one hears of a second later."""
    house.query("UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'x' WHERE person = %s", person)


def recorded(house: House) -> int:
    """Return how many changes were recorded by now."""
    ((count,),) = house.query("SELECT count(*) FROM gateway.history")
    return int(count)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/stops", STOP),
        ("POST", "/v1/stops/{stop}/resume", {}),
        ("POST", "/v1/erasures", {"who": "grace"}),
        ("DELETE", "/v1/keys/{key}", None),
        ("DELETE", "/v1/sessions/{session}", None),
        ("POST", "/v1/grants/{grant}/revoke", None),
        ("POST", "/v1/jobs", {"task": "x"}),
        ("POST", "/v1/conversations", None),
        ("POST", "/v1/conversations/{conversation}/takeover", None),
        ("POST", "/v1/conversations/{conversation}/end", None),
        ("POST", "/v1/conversations/{conversation}/token", None),
        ("DELETE", "/v1/conversations/{conversation}/token", None),
        ("POST", "/v1/rulebook/check", {"rulebook": "rules: []"}),
    ],
)
async def test_a_key_that_was_revoked_elsewhere_changes_nothing(
    house: House, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """What it asked for would stand for good: each is a 401, and nothing is recorded."""
    tenant = "default" if "erasures" in path else "acme"
    conversation, _ = await spoken_in(house)
    async with house.client(house.key("admin", person="carl")) as carl, signed_in(house, "dora"):
        stop = (await carl.post("/v1/stops", json=STOP)).json()["id"]
    ((key,),) = house.query("SELECT key_id FROM gateway.api_keys WHERE person = 'carl'")
    ((session,),) = house.query("SELECT session_id FROM gateway.sessions")
    at = path.format(conversation=conversation, stop=stop, key=key, session=session, grant=a_grant(house))
    async with house.client(house.key("admin", "chat", "decide", "operate", tenant=tenant, person="bob")) as bob:
        known = await bob.get("/v1/keys")
        revoke_elsewhere(house, "bob")
        before = recorded(house)
        answer = await bob.request(method, at, json=body)
    assert (200, 401, before) == (known.status_code, answer.status_code, recorded(house))


async def test_a_session_of_such_a_key_saves_no_view(house: House) -> None:
    """Pages go through the same door."""
    async with signed_in(house, "bob") as browser:
        form = Form("/inbox/views", (await browser.get("/inbox?tool=ship")).text).fields
        revoke_elsewhere(house, "bob")
        answer = await browser.post("/inbox/views", data=form | {"name": "mine"})
    assert (401, []) == (answer.status_code, house.query("SELECT 1 FROM gateway.saved_views"))

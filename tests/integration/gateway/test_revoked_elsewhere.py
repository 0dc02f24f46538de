"""What was revoked while a caller is remembered, or while their request comes in: it changes nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.builders import a_call
from tests.integration.gateway.test_grants import a_grant
from tests.integration.gateway.test_inbox_page import Form, signed_in
from tests.integration.gateway.test_operators import spoken_in
from tests.support.gateway import House, an_approval_row, insert
from tests.support.late import post_late
from tests.support.system import until

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


async def test_what_comes_late_in_a_revoked_session_decides_nothing(house: House) -> None:
    """The head came while it was good: whoever was signed out meanwhile is nobody when the decision is sent."""
    row = an_approval_row(a_call(), approval_rule={"approvers": ["person:ada"]})
    insert(house.url, "approvals", **row)
    body, sent = json.dumps({"decision": "approve", "digest": row["digest"]}).encode(), asyncio.Event()
    async with signed_in(house, "ada", "decide") as browser, house.client(house.key("admin")) as admin:
        house.query("UPDATE gateway.sessions SET seen_at = now() - interval '5 minutes'")
        head = {"content-type": "application/json", "origin": house.gateways[0].url}
        path = f"/v1/approvals/{row['approval_id']}/decisions"
        late = asyncio.create_task(post_late(browser, path, body, head, sent))

        async def is_seen() -> bool:
            return bool(house.query("SELECT 1 FROM gateway.sessions WHERE seen_at > now() - interval '1 minute'"))

        await until(is_seen, "the head has come")
        (session,) = (await admin.get("/v1/sessions")).json()["items"]
        await admin.delete(f"/v1/sessions/{session['id']}")
        sent.set()
        answer = await late
    assert (401, []) == (answer.status_code, house.approvers.claims)

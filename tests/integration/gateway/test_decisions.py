"""Deciding over HTTP: signed, answered, late, refused, and by the right people only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.contracts.messages import DecisionAnswered
from tests.builders import a_call
from tests.support.gateway import RESTORED, House, a_conversation, an_approval_row, insert, open_house


def a_waiting(house: House, **changes: Any) -> dict[str, Any]:
    """Put an approval that waits into the read view and return its row."""
    row = an_approval_row(a_call(), **changes)
    insert(house.url, "approvals", **row)
    return row


async def decide(client: httpx.AsyncClient, row: dict[str, Any], verb: str = "approve", **more: Any) -> httpx.Response:
    """Send a decision about a row as it was shown."""
    body = {"decision": verb, "digest": row["digest"], **more}
    return await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json=body)


async def test_a_decision_is_answered_with_the_approvals_new_state(house: House) -> None:
    """200 carries the approval as it is now, with who decided and why."""
    row = a_waiting(house)
    async with house.client(house.key("decide", person="grace")) as client:
        answer = await decide(client, row, "deny", reason="not now", revision=1)
    told = answer.json()
    assert (200, "denied", "person:grace", "not now") == (
        answer.status_code,
        told["state"],
        told["decided_by"],
        told["decision_reason"],
    )


async def test_a_decision_is_signed_with_when_it_was_made(house: House) -> None:
    """By the database clock: a restore makes void what is not younger."""
    row = a_waiting(house)
    async with house.client(house.key("decide")) as client:
        await decide(client, row)
    ((now,),) = house.query("SELECT clock_timestamp()")
    (claims,) = house.approvers.claims
    assert claims.at == pytest.approx(now.timestamp(), abs=60)


async def test_the_answer_to_a_decision_is_what_the_approval_shows(house: House) -> None:
    """Whoever looks again sees the same as who decided, to the microsecond."""
    row = a_waiting(house)
    async with house.client(house.key("decide")) as client:
        told = (await decide(client, row, reason="fine")).json()
        shown = (await client.get(f"/v1/approvals/{row['approval_id']}")).json()
    moments = [datetime.fromisoformat(each.pop("closed_at")) for each in (told, shown)]
    assert (told, moments[0]) == ({name: shown[name] for name in told}, moments[1])


async def test_a_decision_is_signed_with_what_was_proved(house: House) -> None:
    """The claims name tenant, approval, digest, person, role and proof; a key's owner is an operator."""
    row = a_waiting(house)
    async with house.client(house.key("decide", person="grace")) as client:
        await decide(client, row, reason="fine", revision=1)
    (claims,) = house.approvers.claims
    assert ("acme", row["approval_id"], "approve", row["digest"], 1, "fine") == (
        claims.tenant,
        claims.approval_id,
        claims.verb,
        claims.digest,
        claims.revision,
        claims.reason,
    )
    assert ("person:grace", ["operators"], None, "api_key") == (
        claims.person,
        claims.roles,
        claims.conversation_id,
        claims.proof,
    )


async def test_a_conversation_token_decides_as_the_requester(house: House) -> None:
    """A6: the token's holder proves to be the conversation's requester, and nothing else."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="v-42")
    row = a_waiting(house, conversation_id=conversation, requester="v-42")
    async with house.client(token) as visitor:
        answer = await decide(visitor, row)
    (claims,) = house.approvers.claims
    assert (200, "v-42", ["requester"], conversation, "conversation_token") == (
        answer.status_code,
        claims.person,
        claims.roles,
        claims.conversation_id,
        claims.proof,
    )


async def test_a_key_owner_who_asked_is_requester_and_operator(house: House) -> None:
    """Both roles are claimed only where both are the same person."""
    row = a_waiting(house, requester="person:grace")
    async with house.client(house.key("decide", person="grace")) as client:
        await decide(client, row)
    assert ["operators", "requester"] == house.approvers.claims[0].roles


async def test_a_second_decision_is_told_who_was_first(house: House) -> None:
    """409 with who decided, when, and the state; twenty at once have one winner."""
    row = a_waiting(house)
    async with house.client(house.key("decide", person="grace")) as client:
        answers = await asyncio.gather(*(decide(client, row) for _ in range(20)))
    codes = sorted(answer.status_code for answer in answers)
    lost = next(answer.json() for answer in answers if answer.status_code == 409)
    assert [200, *[409] * 19] == codes
    assert ("urn:placet:problem:already-decided", "approved", "person:grace") == (
        lost["type"],
        lost["state"],
        lost["decided_by"],
    )
    decided_at = lost["decided_at"]
    assert (True, "Z") == (datetime.fromisoformat(decided_at).tzinfo is not None, decided_at[-1])


async def test_a_stale_card_cannot_decide(house: House) -> None:
    """A digest that is not the approval's is told to be stale, with the one that is right."""
    row = a_waiting(house)
    async with house.client(house.key("decide")) as client:
        answer = await decide(client, {**row, "digest": "0" * 64})
    assert (409, "urn:placet:problem:stale-card", row["digest"]) == (
        answer.status_code,
        answer.json()["type"],
        answer.json()["digest"],
    )


@pytest.mark.parametrize("verb", ["approve", "edit"])
async def test_what_was_sent_before_a_restore_approves_nothing(house: House, verb: str) -> None:
    """A program's yes of then does not know of the restore; who says which one the card told of approves it."""
    row = a_waiting(house)
    house.query(RESTORED)
    more = {"arguments": {"amount": 1}} if verb == "edit" else {}
    another = datetime.now(UTC).isoformat()
    async with house.client(house.key("decide")) as client:
        told = (await client.get(f"/v1/approvals/{row['approval_id']}")).json()["restored_at"]
        item = {"id": row["approval_id"], "decision": verb, "digest": row["digest"], **more}
        (batch,) = (await client.post("/v1/approvals/decisions", json={"items": [item]})).json()["items"]
        before = [await decide(client, row, verb, **more, **seen) for seen in ({}, {"restored_at": another})]
        after = await decide(client, row, verb, **more, restored_at=told)
    assert (409, [409, 409], "urn:placet:problem:restored", 200) == (
        batch["status"],
        [answer.status_code for answer in before],
        before[0].json()["type"],
        after.status_code,
    )


async def test_what_was_sent_before_a_restore_denies(house: House) -> None:
    """A no lets nothing run."""
    row = a_waiting(house)
    house.query(RESTORED)
    async with house.client(house.key("decide")) as client:
        assert 200 == (await decide(client, row, "deny")).status_code


@pytest.mark.parametrize(("outcome", "status"), [("not_allowed", 403), ("not_found", 404)])
async def test_a_refused_decision_says_so(house: House, outcome: str, status: int) -> None:
    """Not being among the approvers is 403; an approval that went away meanwhile is 404."""
    row = a_waiting(house)
    house.approvers.outcome = outcome
    async with house.client(house.key("decide")) as client:
        assert status == (await decide(client, row)).status_code


async def test_an_answer_that_takes_its_time_is_told_where_to_look(gateway_database_url: str, tmp_path: Path) -> None:
    """202 with the approval's address; the decision itself was sent."""
    async with open_house(gateway_database_url, tmp_path, gateway_answer_seconds=0.05) as house:
        house.approvers.silent = True
        row = a_waiting(house)
        async with house.client(house.key("decide")) as client:
            answer = await decide(client, row)
        assert (202, f"/v1/approvals/{row['approval_id']}") == (answer.status_code, answer.headers["location"])
        assert 1 == len(house.approvers.claims)


async def test_an_answer_nobody_waits_for_is_dropped(house: House) -> None:
    """A late answer, or one for another instance, changes nothing."""
    row = a_waiting(house)
    late = DecisionAnswered(
        tenant="acme", approval_id="a", decision_id="gone", answer_to="somebody", outcome="accepted", state="approved"
    )
    house.gateways[0].decisions.answered(late)
    async with house.client(house.key("decide")) as client:
        assert 200 == (await decide(client, row)).status_code


async def test_each_instance_gets_its_own_answers(gateway_database_url: str, tmp_path: Path) -> None:
    """Decisions through two gateways at once are each answered where they were asked."""
    async with open_house(gateway_database_url, tmp_path, gateways=2) as house:
        rows = [a_waiting(house) for _ in range(6)]
        key = house.key("decide")
        async with house.client(key) as one, house.client(key, gateway=1) as other:
            answers = await asyncio.gather(*(decide([one, other][i % 2], row) for i, row in enumerate(rows)))
        assert [200] * 6 == [answer.status_code for answer in answers]


@pytest.mark.parametrize("scopes", [("chat",), ("admin",)])
async def test_a_key_without_the_scope_decides_nothing(house: House, scopes: tuple[str, ...]) -> None:
    """Deciding needs the scope decide; nothing is sent."""
    row = a_waiting(house)
    async with house.client(house.key(*scopes)) as client:
        answer = await decide(client, row)
    assert (403, "urn:placet:problem:scope-missing", []) == (
        answer.status_code,
        answer.json()["type"],
        house.approvers.claims,
    )
    assert f"the scopes {scopes[0]};" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["", "/decisions"])
async def test_a_foreign_approval_does_not_exist(house: House, path: str) -> None:
    """A9: another tenant's approval is 404, as is one of another conversation for a token."""
    row = a_waiting(house)
    async with house.client(house.key("chat")) as client:
        _, token = await a_conversation(client)
    rival = house.key("decide", tenant="rival")
    for secret in (rival, token):
        async with house.client(secret) as stranger:
            address = f"/v1/approvals/{row['approval_id']}{path}"
            body = {"decision": "approve", "digest": row["digest"]}
            answer = await (stranger.post(address, json=body) if path else stranger.get(address))
            assert 404 == answer.status_code
    assert [] == house.approvers.claims


async def test_an_approval_shows_the_call_as_it_would_run(house: House) -> None:
    """The arguments come as a value and as the very bytes that the digest covers."""
    row = a_waiting(house)
    async with house.client(house.key("decide")) as client:
        told = (await client.get(f"/v1/approvals/{row['approval_id']}")).json()
    assert ({"amount": 299, "currency": "TRY"}, '{"amount":299,"currency":"TRY"}') == (
        told["call"]["arguments"],
        told["call"]["arguments_text"],
    )
    assert (row["digest"], 1, ["requester", "operators"]) == (told["digest"], told["revision"], told["approvers"])


async def test_pages_of_approvals_show_each_once_newest_first(house: House) -> None:
    """Following `next` shows every approval once, also when several were opened at the same moment."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [a_waiting(house, created_at=start + timedelta(seconds=number // 3)) for number in range(10)]
    a_waiting(house, tenant="rival")
    a_waiting(house, state="approved", closed_at=start)
    seen: list[dict[str, Any]] = []
    async with house.client(house.key("decide")) as client:
        query: dict[str, Any] = {"state": "pending", "limit": 4}
        while True:
            page = (await client.get("/v1/approvals", params=query)).json()
            seen += page["items"]
            if page["next"] is None:
                break
            query["cursor"] = page["next"]
    expected = sorted(rows, key=lambda row: (row["created_at"], row["approval_id"]), reverse=True)
    assert [row["approval_id"] for row in expected] == [item["id"] for item in seen]


async def test_a_token_lists_its_own_conversations_approvals(house: House) -> None:
    """What waits elsewhere is not shown to a visitor."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client)
    mine = a_waiting(house, conversation_id=conversation)
    a_waiting(house)
    async with house.client(token) as visitor:
        items = (await visitor.get("/v1/approvals")).json()["items"]
    assert [mine["approval_id"]] == [item["id"] for item in items]


async def test_a_stopping_gateway_lets_waiting_people_go(
    gateway_database_url: str, tmp_path: Path, fresh_database: Callable[..., str]
) -> None:
    """Who waits for an answer when the gateway stops is told where to look, at once."""
    async with open_house(gateway_database_url, tmp_path, gateway_answer_seconds=30) as house:
        house.approvers.silent = True
        row = a_waiting(house)
        async with house.client(house.key("decide")) as client:
            waiting = asyncio.create_task(decide(client, row))
            await house.approvers.heard.wait()
            house.gateways[0].decisions.close()
            assert 202 == (await waiting).status_code

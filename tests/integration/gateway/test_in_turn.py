"""Calls of one answer that are approved by one request: in the order in which the model proposed them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from placet.gateway.store.read import Row
from tests.support.gateway import House, open_house
from tests.support.inbox_scene import proposed


async def decide(client: httpx.AsyncClient, rows: Sequence[Row], decision: str = "approve") -> list[dict[str, Any]]:
    """Decide all in one request; return what became of each."""
    items = [{"id": row["approval_id"], "decision": decision, "digest": row["digest"]} for row in rows]
    return list((await client.post("/v1/approvals/decisions", json={"items": items})).json()["items"])


def sent(house: House) -> list[str]:
    """Return the approvals that were decided, in that order."""
    return [claims.approval_id for claims in house.approvers.claims]


async def test_approvals_of_one_answer_are_sent_in_its_order(house: House) -> None:
    """Whatever the order of the request, which lists show newest first; outcomes stay in the order of the request."""
    rows = proposed(house, 1, 8)
    async with house.client(house.key("decide")) as client:
        outcomes = await decide(client, rows[::-1])
    assert [row["approval_id"] for row in rows] == sent(house)
    assert [(row["approval_id"], 200) for row in rows[::-1]] == [(each["id"], each["status"]) for each in outcomes]


async def test_each_is_sent_when_the_one_before_it_was_answered(gateway_database_url: str, tmp_path: Path) -> None:
    """Where nobody answers the first, the others are not sent: they would begin beside it. Other answers go on."""
    async with open_house(gateway_database_url, tmp_path, gateway_answer_seconds=0.05) as house:
        house.approvers.silent = True
        rows, others = proposed(house, 1, 3), proposed(house, 2, 1)
        async with house.client(house.key("decide")) as client:
            outcomes = await decide(client, [*rows, *others])
        assert [202, 503, 503, 202] == [each["status"] for each in outcomes]
        assert {rows[0]["approval_id"], others[0]["approval_id"]} == set(sent(house))
        assert "urn:placet:problem:unavailable" == outcomes[1]["problem"]["type"]


async def test_denials_wait_for_nothing(gateway_database_url: str, tmp_path: Path) -> None:
    """A call that is denied does not run, so it has no place in an order."""
    async with open_house(gateway_database_url, tmp_path, gateway_answer_seconds=0.05) as house:
        house.approvers.silent = True
        rows = proposed(house, 1, 3)
        async with house.client(house.key("decide")) as client:
            outcomes = await decide(client, rows, "deny")
        assert [202] * 3 == [each["status"] for each in outcomes]

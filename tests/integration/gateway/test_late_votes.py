"""Votes and ends that the log tells of late, or not yet: the broker may bring the result of a call before them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from placet.contracts.messages import ApprovalClosed
from tests.builders import a_call
from tests.support.gateway import House, a_conversation, an_approval_row, insert, items_of, said, tool_call, turn


async def a_denied_call(house: House, client: httpx.AsyncClient, closed: str) -> tuple[str, str, int]:
    """Have a call denied by another person; return its conversation, its approval, and the number of its card.

    Its end is told of `first`, `last`, behind all that clients were told, or `never`.
    """
    conversation, _ = await a_conversation(client)
    call = a_call(conversation_id=conversation)
    row = an_approval_row(call, state="denied", decided_by="person:hopper")
    insert(house.url, "approvals", **row)
    card = {name: row[name] for name in ("approval_id", "call_id", "turn_id", "digest", "tool", "summary", "reason")}
    card |= {"state": "pending", "revision": 1, "approvers": [], "arguments": {}, "expires_at": "2100-01-01T00:00:00Z"}
    end = ApprovalClosed(
        tenant="acme",
        conversation_id=conversation,
        approval_id=row["approval_id"],
        call_id=call.call_id,
        revision=1,
        state="denied",
        decided_by="person:hopper",
        closed_at=datetime.now(UTC),
    )
    shown = [
        ("message", {"role": "user", "message_id": "m1", "text": "deploy"}),
        turn("started", call.turn_id, message_id="m1"),
        tool_call(call),
        tool_call(call, "pending_confirmation"),
        ("approval", card),
    ]
    ended = [
        ("tool_call", {"call_id": call.call_id, "tool": call.tool, "kind": "denied", "status": "error"}),
        said("a1", "It was not deployed.", call.turn_id),
        turn("finished", call.turn_id, message_id="m1"),
    ]
    first, last = (list(items_of(end)) if closed == when else [] for when in ("first", "last"))
    await house.append(conversation, *shown, *first, *ended)
    house.query("UPDATE gateway.conversations SET told_seq = %s RETURNING 1", len(shown + first + ended))
    await house.append(conversation, *last)
    return conversation, row["approval_id"], len(shown)


@pytest.mark.parametrize("closed", ["first", "last", "never"])
@pytest.mark.parametrize(("voter", "told"), [("person:ada", True), ("person:grace", False)])
async def test_who_has_voted_is_told_the_outcome(house: House, voter: str, closed: str, *, told: bool) -> None:
    """Behind the response that voted, whoever gave the last vote was told already; nobody else is told again."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation, approval_id, shown = await a_denied_call(house, client, closed)
        vote: dict[str, Any] = {"tenant": "acme", "verb": "deny", "outcome": "accepted", "proof": "api_key"}
        vote |= {"decision_id": "d", "approval_id": approval_id, "person": voter, "reason": ""}
        vote |= {"digest": "0" * 64, "arguments_revision": 1, "counted_revision": 1, "decided_at": datetime.now(UTC)}
        insert(house.url, "decisions", **vote)
        body = {"model": "default", "previous_response_id": f"resp_{shown}_0_{conversation}", "input": "was it?"}
        seen = ""
        async with client.stream("POST", "/v1/responses", json=body | {"stream": True}) as answer:
            async for text in answer.aiter_text():
                seen += text
                if "still here" in seen or "It was not deployed." in seen:
                    break
    assert told == ("It was not deployed." in seen)

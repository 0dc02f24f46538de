"""What the AI SDK's door answers where there is nothing to stream, or in an order that seldom happens.

What it streams else is in the end-to-end tests.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.messages import ApprovalOpened, ConversationEvent, ToolCallProposed
from tests.builders import NOON, a_call, a_posted_message, an_approval_rule
from tests.integration.gateway.test_resting import a_waiting_turn
from tests.support.gateway import House


def answered(approval_id: str) -> dict[str, Any]:
    """Return a part that answers an approval request."""
    approval = {"id": approval_id, "approved": True, "descriptor": {"digest": "0" * 64}}
    return {"type": "dynamic-tool", "toolCallId": "k", "state": "approval-responded", "approval": approval}


@pytest.mark.parametrize(
    ("chat", "parts", "title"),
    [
        ("c", [answered("foreign")], "There is no such approval"),
        ("c", [], "There is no such message in this chat."),
        ("other", [], "There is no such conversation."),
    ],
)
async def test_a_404_says_what_is_missing(house: House, chat: str, parts: list[Any], title: str) -> None:
    """An approval of somebody else's, a message that the chat never had, or the chat itself."""
    await house.deliver(a_posted_message(conversation_id="c"))
    body = {"id": chat, "message": {"id": "made-up", "role": "assistant", "parts": parts}}
    async with house.client(house.key("chat", "decide")) as client:
        found = await client.post("/api/chat", json=body)
    assert (404, title) == (found.status_code, found.json()["title"][: len(title)])


async def test_a_stream_waits_for_the_words_that_came_with_the_call(house: House) -> None:
    """They take another way than the card, and may come behind it: only then people are asked."""
    place = {"tenant": "acme", "conversation_id": "c"}
    began = ConversationEvent(**place, turn_id="t", kind="turn_started", payload={"message_id": "m"})
    words = {"message_id": "said", "step": 1, "text": "Deploying."}
    said = ConversationEvent(**place, turn_id="t", kind="assistant_message", payload=words)
    call = a_call(call_id="k", conversation_id="c", turn_id="t")
    opened = {"approval_id": "a", "revision": 1, "summary": "?", "rule": "r", "reason": "", "expires_at": NOON}
    a_waiting_turn(house, "wait", "")
    await house.deliver(a_posted_message(conversation_id="c", message_id="m"))
    await house.deliver(began)
    await house.deliver(ToolCallProposed(tenant="acme", call=call))
    await house.deliver(ApprovalOpened(tenant="acme", **opened, call=call, approval=an_approval_rule()))
    body = {"id": "c", "message": {"id": "t", "role": "assistant", "parts": []}}
    told: list[dict[str, Any]] = []
    async with (
        house.client(house.key("chat")) as client,
        client.stream("POST", "/api/chat", json=body) as stream,
    ):
        async for line in stream.aiter_lines():
            if line.startswith("data: {"):
                told.append(json.loads(line.removeprefix("data: ")))
                if told[-1]["type"] == "tool-approval-request":
                    await house.deliver(said)
    assert ["Deploying."] == [chunk["delta"] for chunk in told if chunk["type"] == "text-delta"]
    assert "finish" == told[-1]["type"]

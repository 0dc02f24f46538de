"""What the AI SDK's door answers where there is nothing to stream; what it streams is in the end-to-end tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import a_posted_message
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

"""A stream that meets what nobody foresaw ends in its dialect's own words: a client knows that this was not all."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.gateway import House, a_conversation

HELLO = {"role": "user", "content": "Hello"}
#: An item as no agent writes it.
NONSENSE = ("tool_call", {"status": "proposed"})
POSTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "AG-UI": ("/agui", {"threadId": "{id}", "runId": "r", "messages": [HELLO | {"id": "m1"}]}, "RUN_ERROR"),
    "AI SDK": (
        "/api/chat",
        {"id": "{id}", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}]},
        '"type":"error"',
    ),
    "Responses": (
        "/v1/responses",
        {"model": "default", "conversation": "{id}", "input": "Hello", "stream": True},
        "event: error",
    ),
    "Completions": (
        "/v1/chat/completions",
        {"model": "default", "metadata": {"conversation_id": "{id}"}, "messages": [HELLO], "stream": True},
        '"error":',
    ),
}


def named(value: Any, conversation: str) -> Any:
    """Return a body with the conversation's id where it belongs."""
    if isinstance(value, dict):
        return {name: named(each, conversation) for name, each in value.items()}
    return conversation if value == "{id}" else value


@pytest.mark.parametrize("dialect", POSTS)
async def test_a_stream_that_breaks_off_says_so(house: House, dialect: str) -> None:
    """By the event that its SDK takes for an error; and the log says why."""
    path, body, ending = POSTS[dialect]
    with capture_logs() as logs:
        async with house.client(house.key("chat")) as client:
            conversation, _ = await a_conversation(client)
            async with client.stream("POST", path, json=named(body, conversation)) as answer:
                told = answer.aiter_text()
                begun = await anext(told)
                await house.append(conversation, NONSENSE)
                rest = "".join([begun, *[each async for each in told]])
    assert (200, True) == (answer.status_code, ending in rest), rest
    assert ["http.stream_broke_off"] == [line["event"] for line in logs if line["log_level"] == "error"]

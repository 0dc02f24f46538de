"""The example of an AMQP frontend as a fold: whatever the agent's log tells, and however its pieces of text come."""

from __future__ import annotations

import runpy
from typing import Any

from hypothesis import given

from placet.gateway.conversations.items import Item
from tests.support.conversation_logs import Conversation, conversations
from tests.support.system import ROOT

EXAMPLE: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "amqp_frontend.py"))


def shown(conversation: Conversation, times: int) -> str:
    """Return what the example shows of a conversation, each of whose envelopes comes so many times."""
    screen, output = EXAMPLE["Screen"](conversation.messages[0]), ""
    for entry in conversation.entries:
        for _ in range(times):
            kind, data = ("item", entry.as_json()) if isinstance(entry, Item) else ("delta", entry.data)
            screen, new = EXAMPLE["fold"](screen, kind, data)
            output += new
    return output


@given(conversations())
def test_every_text_is_shown_once_and_lines_stand_by_themselves(conversation: Conversation) -> None:
    """No piece that is early, late or missing costs a word, and none is written into another line."""
    said = [
        item.data["text"]
        for item in conversation.items
        if item.type == "message" and item.data["role"] == "assistant" and not item.data.get("while_waiting")
        if item.data["text"]
    ]
    lines = [line.removeprefix("(begins again) ") for line in shown(conversation, 1).splitlines()]
    assert said == [line for line in lines if line in said]
    assert shown(Conversation(list(conversation.items)), 1) == shown(Conversation(list(conversation.items)), 2)

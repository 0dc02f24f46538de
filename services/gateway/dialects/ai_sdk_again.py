"""Asking an AI SDK's chat for another answer, `regenerate()`: which of the user's messages that is about. Pure.

The SDK posts the message once more, under the id that it has on that page. Each time its newest answer is over another
message is written, whose id is made of the one before: so the newest answer is found from any of these messages, on
every page, and pages that ask at the same time ask for the same one.
"""

from __future__ import annotations

from collections.abc import Iterable

from placet.contracts.ids import derived_id
from placet.gateway.conversations.items import Item
from placet.gateway.dialects.ai_sdk import AiSdkState


def edited_id(chat_id: str, message_id: str, text: str) -> str:
    """Return the id of a message whose own was used for another text: the first one keeps it."""
    return derived_id("ai-sdk-edited", chat_id, message_id, text)


def following_id(chat_id: str, message_id: str) -> str:
    """Return the id of the message that asks for another answer to one whose answer is over."""
    return derived_id("ai-sdk-again", chat_id, message_id)


def newest_id(chat_id: str, message_id: str, text: str, items: Iterable[Item]) -> tuple[str, bool]:
    """Return the id of the message that asked last for an answer to a text, and whether the log has it."""
    said = {
        item.data["message_id"]: item.data["text"]
        for item in items
        if item.type == "message" and item.data["role"] == "user"
    }
    if said.get(message_id, text) != text:
        message_id = edited_id(chat_id, message_id, text)
    while (another := following_id(chat_id, message_id)) in said:
        message_id = another
    return message_id, message_id in said


def needs_somebody(state: AiSdkState) -> bool:
    """Tell whether an answer is being made or waits: a second one beside it would propose the same payment twice."""
    is_over = state.done and bool(state.reply_id) and not state.waiting
    return state.log.knows(state.goal.message_id) and not is_over

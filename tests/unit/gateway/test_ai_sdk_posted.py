"""What an AI SDK's chat posts: the user's text, and nothing that no agent would read."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import Refused
from placet.gateway.dialects.ai_sdk_posted import ChatIn

TEXT = {"type": "text", "text": "Read this."}
FILE = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="}


def posted(*parts: dict[str, Any]) -> ChatIn:
    """Return a chat whose newest message has these parts, behind an older one with a file."""
    messages = [{"id": "u0", "role": "user", "parts": [FILE]}, {"id": "u1", "role": "user", "parts": list(parts)}]
    return ChatIn.model_validate({"id": "chat", "messages": messages})


def test_the_text_of_the_newest_message_is_written() -> None:
    """Data parts are the page's own, and so are older messages."""
    assert "Read this." == posted(TEXT, {"type": "data-mood", "data": 1}).written().text


def test_a_file_is_refused_and_not_dropped() -> None:
    """Its sender would believe that the agent has seen it."""
    with pytest.raises(Refused) as refused:
        posted(TEXT, FILE).written()
    assert 400 == refused.value.status

"""What `GET /v1/conversations/{id}` says of messages, described as the feed's items are."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from placet.gateway.conversations.item_models import AssistantMessage, OperatorMessage, UserMessage
from placet.gateway.dialects.native_schemas import MessageOut


@pytest.mark.parametrize("of_feed", [UserMessage, AssistantMessage, OperatorMessage])
def test_every_member_of_a_message_is_described(of_feed: type[BaseModel]) -> None:
    """What the feed tells of it stands in the conversation too: generated clients have it typed."""
    assert set() == of_feed.model_fields.keys() - MessageOut.model_fields.keys()

"""Conversations of very long messages: what is read of them at once is bounded by bytes, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from placet.gateway.conversations.store import TAIL_BYTES_MAX
from placet.gateway.dialects.ag_ui_routes import RunIn
from tests.support.gateway import House, a_conversation, open_house

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway."""
    async with open_house(gateway_database_url, tmp_path) as made:
        yield made


async def long_talk(house: House, client: httpx.AsyncClient, messages: int) -> str:
    """Return a conversation in which so many of the longest messages were written."""
    conversation, _ = await a_conversation(client)
    said = {"role": "user", "text": "\U0001f4a5" * 32_000}
    await house.append(conversation, *(("message", {**said, "message_id": f"m{number}"}) for number in range(messages)))
    return conversation


async def test_history_of_the_longest_messages_is_bounded_by_bytes(house: House) -> None:
    """Three hundred of 128 kB were one answer of 109 MB: it has the newest, and says that there are older ones."""
    async with house.client(house.key("chat", "decide")) as client:
        conversation = await long_talk(house, client, 60)
        answer = await client.get(f"/api/chat/{conversation}")
        short = await client.get(f"/api/chat/{await long_talk(house, client, 2)}")
        status = await client.get(f"/v1/conversations/{conversation}")
    told = answer.json()
    kept = [each["id"] for each in told["messages"]]
    assert ([f"m{number}" for number in range(60)][-len(kept) :], True) == (kept, told["older"])
    assert (2, None) == (len(short.json()["messages"]), short.json().get("older"))
    assert len(answer.content) < 2 * TAIL_BYTES_MAX
    assert len(status.content) < 2 * TAIL_BYTES_MAX


async def test_snapshot_of_the_longest_messages_is_bounded_by_bytes(house: House) -> None:
    """The first frame of a run has the newest, and its metadata say that there are older ones."""
    async with house.client(house.key("chat", "decide")) as client:
        found = []
        for messages in (60, 2):
            conversation = await long_talk(house, client, messages)
            run = RunIn(threadId=conversation, runId="r", messages=[]).model_dump(exclude_none=True)
            async with client.stream("POST", "/agui", json=run) as stream:
                frame = await anext(line async for line in stream.aiter_lines() if "MESSAGES_SNAPSHOT" in line)
            found.append((len(frame) < 4 * TAIL_BYTES_MAX, '"placet":{"older":true}' in frame))
    assert [(True, True), (True, False)] == found

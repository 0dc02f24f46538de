"""Words that a model gave up, on pages whose real client is told of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from placet.gateway.conversations.items import Delta, Item
from placet.gateway.conversations.sse import data_frames
from placet.gateway.dialects.ag_ui import AgUiState, Goal
from placet.gateway.dialects.conversation_state import Entry, fold
from tests.support.conversation_logs import AT
from tests.support.node_client import node_client

GIVEN_UP, SAID = "half of it", "Not any more."
#: A model call that breaks off behind its first words, and is repeated.
ENTRIES: list[Entry] = [
    Item(1, "message", AT, {"role": "user", "message_id": "u1", "text": "hello"}),
    Item(2, "turn", AT, {"state": "started", "turn_id": "t1", "message_id": "u1"}),
    Delta("t1", 1, "m1", 0, GIVEN_UP),
    Delta("t1", 1, "m1", 0, "", reset=True),
    Delta("t1", 1, "m1", 0, SAID[:4]),
    Item(3, "message", AT, {"role": "assistant", "turn_id": "t1", "message_id": "m1", "step": 1, "text": SAID}),
    Item(4, "turn", AT, {"state": "finished", "turn_id": "t1", "reason": "", "open": [], "idle": True}),
]


@asynccontextmanager
async def a_server(body: bytes) -> AsyncIterator[str]:
    """Answer every request with a stream that is `body`; yield the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = re.search(rb"(?i)content-length: (\d+)", await reader.readuntil(b"\r\n\r\n"))
        await reader.readexactly(int(length[1]) if length else 0)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    async with server:
        host, port = server.sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"


async def test_an_ag_ui_client_keeps_nothing_of_what_was_given_up() -> None:
    """It was told the words, its verifier finds no fault, and its messages are those that the conversation has."""
    state, told = AgUiState(Goal("thread", "run", message_id="u1")), b""
    for entry in ENTRIES:
        state, events = fold(state, entry)
        told += data_frames(*events)
    async with a_server(told) as url, node_client("ag_ui.mjs", url, "token", "thread") as page:
        said = await page.do("say", text="hello", id="u1")
    heard = [event["delta"] for event in said["events"] if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert (None, [], [GIVEN_UP, SAID[:4], SAID[4:]]) == (said["error"], said["noted"], heard)
    assert [("u1", "hello"), ("m1", SAID)] == [(each["id"], each["content"]) for each in said["messages"]]

"""What the client holds open: a connection for each conversation that is followed, and one for what is asked beside."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from placet.client import AsyncClient

#: More than the library's own limit.
FOLLOWED = 120


async def test_following_many_conversations_keeps_no_question_waiting() -> None:
    """However many streams are open, the next request is sent at once."""
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n\r\n{}")
        await writer.drain()
        if b"/stream" in head:
            await over.wait()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, AsyncExitStack() as streams:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AsyncClient(url, "key") as client, asyncio.timeout(30):
            opened = [await streams.enter_async_context(client.http.stream("GET", "/stream")) for _ in range(FOLLOWED)]
            asked = await client.http.get("/approvals")
            over.set()
            for each in opened:
                await each.aclose()
    assert (FOLLOWED, 200) == (len(opened), asked.status_code)

"""Requests whose body comes late: the caller is known from the head, and the rest is sent when it is time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx


async def post_late(
    client: httpx.AsyncClient, path: str, body: bytes, headers: Mapping[str, str], now: asyncio.Event
) -> httpx.Response:
    """Post a body that follows its head once it is `now`."""

    async def late() -> AsyncIterator[bytes]:
        await now.wait()
        yield body

    return await client.post(path, content=late(), headers={**headers, "content-length": str(len(body))})

"""What somebody holds of a server before it is known who that is: few bytes, whatever they are bytes of."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from placet.gateway.app import BODY_BYTES_MAX
from placet.gateway.http.protocol import BoundedHttp, sender_is_known
from placet.runtime.connections import Bounds
from placet.runtime.health import serving
from tests.support.ports import free_port

POST = b"POST /%b HTTP/1.1\r\nhost: here\r\n"
CHUNKED = POST % b"" + b"transfer-encoding: chunked\r\n\r\n"
LARGE = 60_000
#: Ways to hold that many bytes; the last two are answered before.
WAYS = {
    "body": POST % b"" + b"content-length: 200000\r\n\r\n" + b"a" * LARGE,
    "chunks": CHUNKED + b"%x\r\n" % 200_000 + b"a" * LARGE,
    "headers": POST % b"" + b"a:b\r\n" * (LARGE // 67),
    "header": POST % b"" + b"a:" + b"b" * LARGE,
    "request behind": POST % b"" + b"content-length: 9\r\n\r\n123456789" + POST % b"" + b"a:" + b"b" * LARGE,
    "answered head": POST % b"early" + b"a:" + b"b" * (LARGE - 1000) + b"\r\n\r\n",
    "trailers": POST % b"early" + b"transfer-encoding: chunked\r\n\r\n0\r\na:" + b"b" * LARGE,
}
#: Has room for some of them.
FEW = Bounds(in_all=99, by_address=99, seconds=60.0, bytes_by_address=4 * LARGE)


#: Far more than kernels keep of what nobody takes.
LONG = b"x" * 8_000_000
GET = b"GET /%b HTTP/1.1\r\nhost: here\r\n\r\n"
LAST = b"GET /brief HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n"


async def long(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answer at length, or briefly where the path says so; somebody is known where it says so."""
    if scope["path"] == "/known":
        sender_is_known(scope)
    answer = b"ok" if scope["path"] == "/brief" else LONG
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]})
    await send({"type": "http.response.body", "body": answer})


async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answer once the body is whole, or early; somebody is known where the path says so."""
    if scope["path"] == "/known":
        sender_is_known(scope)
    while scope["path"] != "/early" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Held:
    """Connections of one address to the app, each of which has sent something and then stopped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._all: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def more(self, sent: bytes) -> None:
        """Send something on a new connection."""
        self._all.append(await asyncio.open_connection("127.0.0.1", self._port))
        self._all[-1][1].write(sent)
        await self._all[-1][1].drain()

    async def rest(self, number: int, sent: bytes = b"") -> bytes:
        """Send more on a connection; return all that it was answered until its end."""
        reader, writer = self._all[number]
        writer.write(sent)
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""

    async def is_answered(self, number: int, sent: bytes) -> bool:
        """Send a request on a connection; tell whether it is answered."""
        reader, writer = self._all[number]
        writer.write(sent)
        return (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

    async def send(self, number: int, sent: bytes) -> None:
        """Send more on a connection."""
        self._all[number][1].write(sent)
        await self._all[number][1].drain()

    async def begin(self, number: int) -> None:
        """Take the first line of an answer."""
        await self._all[number][0].readline()

    def reset(self, number: int) -> None:
        """End a connection without a word."""
        sock = self._all[number][1].get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._all[number][1].transport.abort()

    def close(self) -> None:
        """Hang up."""
        for _, writer in self._all:
            writer.transport.abort()


@asynccontextmanager
async def holding(asked: Any = app, bounds: Bounds = FEW, http: type[BoundedHttp] = BoundedHttp) -> AsyncIterator[Held]:
    """Yield connections to the app, for a while."""
    port = free_port()
    async with serving(asked, host="127.0.0.1", port=port, http=http, bounds=bounds), asyncio.timeout(20):
        held = Held(port)
        try:
            yield held
        finally:
            held.close()


@pytest.mark.parametrize("way", WAYS)
async def test_who_holds_bytes_for_longest_goes(way: str) -> None:
    """Of one address so many bytes are held; beyond that the oldest connection ends, and who comes newly is served."""
    async with holding() as held:
        for _ in range(6):
            await held.more(WAYS[way])
        assert b"HTTP/1.1 400" not in await held.rest(0)
        await held.more(POST % b"" + b"content-length: 5000\r\n\r\n" + b"a" * 4_999)
        assert (await held.rest(-1, b"a" + POST % b"" + b"connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_bytes_of_whom_we_know_are_not_counted() -> None:
    """However many they send, nobody is let go of."""
    async with holding() as held:
        for _ in range(12):
            await held.more(WAYS["body"].replace(b"POST /", b"POST /known"))
        last = b"a" * (200_000 - LARGE) + POST % b"" + b"connection: close\r\n\r\n"
        assert [2] * 12 == [(await held.rest(number, last)).count(b"200 OK") for number in range(12)]


async def test_an_answer_lets_go_of_its_body() -> None:
    """Many large requests on one connection, each sent after the answer to the last, hold no more than one of them."""
    async with holding() as held:
        await held.more(b"")
        whole = POST % b"" + b"content-length: %d\r\n\r\n" % LARGE + b"a" * LARGE
        assert [True] * 8 == [await held.is_answered(0, whole) for _ in range(8)]


async def test_an_answer_lets_go_of_a_body_that_nobody_read() -> None:
    """What was refused before it was read stays nowhere."""
    kept: list[RequestResponseCycle] = []

    async def refusing(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        kept.append(receive.__self__)
        await long({**scope, "path": "/brief"}, receive, send)

    async with holding(refusing) as held:
        await held.more(b"")
        assert await held.is_answered(0, POST % b"" + b"content-length: 4\r\n\r\nbody")
    assert [b""] == [each.body for each in kept]


@pytest.mark.parametrize("asked", [GET % b"brief", POST % b"slow" + b"content-length: 8\r\n\r\nbody"])
async def test_a_connection_leaves_nothing_behind(asked: bytes) -> None:
    """Where it is reset neither a body that nobody read stays nor a timer that would keep all of it."""
    left = asyncio.get_running_loop().create_future()

    class Watched(BoundedHttp):
        """Tells what it has when it is lost."""

        def connection_lost(self, exc: Exception | None) -> None:
            """Tell it."""
            super().connection_lost(exc)
            left.set_result((self.timeout_keep_alive_task, self.cycle.body))

    async def waiting(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await long({**scope, "path": "/brief"}, receive, send)
        if scope["path"] == "/slow":
            await left

    async with holding(waiting, http=Watched) as held:
        await held.more(b"")
        assert await held.is_answered(0, asked)
        held.reset(0)
        assert (None, b"") == await left


async def test_answers_that_nobody_takes_count() -> None:
    """Who was asked for them first goes, and who takes theirs has them whole."""
    async with holding(long, replace(FEW, bytes_by_address=2 * len(LONG))) as held:
        for _ in range(4):
            await held.more(GET % b"")
        assert len(await held.rest(0)) < len(LONG)
        assert (await held.rest(3, LAST)).endswith(b"ok")


async def test_an_answer_is_taken_before_the_next_request() -> None:
    """Nothing is begun for a client that takes nothing; once it does, all that it asked for comes."""
    begun = []

    async def counting(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        await long(scope, receive, send)

    async with holding(counting, replace(FEW, bytes_by_address=2 * len(LONG))) as held:
        await held.more(GET % b"long")
        await held.more(b"")
        assert await held.is_answered(1, GET % b"brief")
        await held.send(0, GET % b"behind" + LAST)
        assert await held.is_answered(1, GET % b"brief")
        assert ["/brief", "/brief", "/long"] == sorted(begun)
        assert 2 == (await held.rest(0)).count(LONG)


async def test_what_a_closing_connection_holds_counts() -> None:
    """It ends when its last answer is taken, and until then holds what was sent behind."""
    broken = CHUNKED + b"%x\r\n" % LARGE + b"a" * LARGE + b"\r\nno length\r\n"
    async with holding(long) as held:
        for number in range(6):
            await held.more(GET % b"known")
            await held.begin(number)
            await held.send(number, broken)
        assert len(await held.rest(0)) < len(LONG)
        assert (await held.rest(5)).endswith(LONG)


def test_bounds_are_the_servers() -> None:
    """All together hold no more than a thousand largest requests could, and one address a quarter of that."""
    bounds = Bounds(in_all=1, by_address=1, seconds=1.0)
    assert (1024 * BODY_BYTES_MAX, 256 * BODY_BYTES_MAX) == (bounds.bytes_in_all, bounds.bytes_by_address)

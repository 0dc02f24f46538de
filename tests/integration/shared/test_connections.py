"""Bounds of connections: how many there may be, and how long each may keep a server waiting."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from placet.gateway.http.protocol import BoundedHttp
from placet.runtime.connections import DESCRIPTORS_MAX, Bounded, BoundedH11, Bounds
from placet.runtime.health import serving
from tests.support.ports import free_port

#: More than any test has.
MANY = Bounds(in_all=9, by_address=9, seconds=60.0)
HOST = "127.0.0.1"
GET = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 9\r\n\r\n"
#: What a client may send and then stop; the first is nothing at all.
STOPPED = {"nothing": b"", "half a head": GET[:9], "half a body": POST + b"half"}
READERS = pytest.mark.parametrize("http", [BoundedHttp, BoundedH11])


async def echo(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answer once the body is whole."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def reached(app: Any, http: type[Bounded], bounds: Bounds, proxies: tuple[str, ...] = ()) -> AsyncIterator[int]:
    """Serve `app` while the block runs, which must not take long; yield the port."""
    port = free_port()
    async with serving(app, host=HOST, port=port, http=http, bounds=bounds, proxies=proxies):
        async with asyncio.timeout(20):
            yield port


async def is_answered(port: int) -> bool:
    """Tell whether a new connection is answered."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(GET)
    try:
        answer = await reader.readuntil(b"ok")
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    finally:
        writer.close()
    return answer.startswith(b"HTTP/1.1 200")


@READERS
@pytest.mark.parametrize("how", STOPPED)
async def test_a_request_that_does_not_become_whole_ends(how: str, http: type[Bounded]) -> None:
    """Whoever sends a part of a request, or nothing, is let go of without an answer."""
    async with reached(echo, http, replace(MANY, seconds=0.2)) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(STOPPED[how])
        assert b"" == await reader.read()
        writer.close()


@READERS
async def test_a_trickle_gives_no_more_time(http: type[Bounded]) -> None:
    """Each byte comes in good time, and the request never."""
    sent = 0
    async with reached(echo, http, replace(MANY, seconds=0.3)) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        ended = asyncio.create_task(reader.read())
        while not (await asyncio.wait({ended}, timeout=0.05))[0]:
            writer.write(GET[sent : sent + 1])
            sent += 1
        with suppress(ConnectionResetError):
            assert b"" == await ended
        assert sent < len(GET)
        writer.close()


@READERS
async def test_an_answer_may_take_as_long_as_it_likes(http: type[Bounded]) -> None:
    """A stream with pauses far beyond the time for a request arrives whole, and so does the answer after it."""
    pauses = asyncio.Event()

    async def streaming(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pauses.wait(), 0.4)
            await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with reached(streaming, http, replace(MANY, seconds=0.2)) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        for _ in range(2):
            writer.write(GET)
            assert (await reader.readuntil(b"okokok")).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_what_comes_behind_a_request_takes_no_time_from_its_answer() -> None:
    """The beginning of the next one may stand in the same bytes; its own time begins once it is its turn."""

    async def slow(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        whole = await receive()
        if scope["method"] == "GET":
            with suppress(TimeoutError):
                # A connection that ends is told.
                await asyncio.wait_for(receive(), 0.6)

        async def once() -> Any:
            return whole

        await echo(scope, once if scope["method"] == "GET" else receive, send)

    async with reached(slow, BoundedHttp, replace(MANY, seconds=0.2)) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(GET + POST + b"half")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert b"" == await reader.read()
        writer.close()


@READERS
async def test_a_request_that_was_answered_early_leaves_an_idle_connection(http: type[Bounded]) -> None:
    """Once the rest of its body is there, the time for it is over: the next request may come later."""

    async def early(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with reached(early, http, replace(MANY, seconds=0.5)) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(POST + b"half")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.write(b" more")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 1.0)
        writer.write(GET)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.close()


@READERS
async def test_an_answer_that_nobody_takes_ends(http: type[Bounded]) -> None:
    """A client that asks for much and reads nothing is let go of, and the app goes on."""
    done = asyncio.Event()

    async def much(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        done.set()

    async with reached(much, http, replace(MANY, seconds=0.2)) as port:
        _, writer = await asyncio.open_connection(HOST, port)
        writer.write(GET)
        await done.wait()
        writer.close()


@READERS
async def test_an_address_has_so_many_connections(http: type[Bounded]) -> None:
    """One more is ended at once, and let in as soon as another has gone."""
    async with reached(echo, http, replace(MANY, by_address=2)) as port:
        held = [await asyncio.open_connection(HOST, port) for _ in range(2)]
        assert not await is_answered(port)
        held[0][1].close()
        while not await is_answered(port):
            pass
        held[1][1].close()


@pytest.mark.parametrize(("proxies", "in_all", "answered"), [(("127.0.0.0/8",), 9, True), (("127.0.0.1",), 2, False)])
async def test_a_trusted_proxy_speaks_for_many(proxies: tuple[str, ...], in_all: int, *, answered: bool) -> None:
    """Its connections count for no address, only among all."""
    async with reached(echo, BoundedHttp, replace(MANY, in_all=in_all, by_address=1), proxies) as port:
        held = [await asyncio.open_connection(HOST, port) for _ in range(2)]
        assert answered == await is_answered(port)
        for _, writer in held:
            writer.close()


async def test_a_server_may_open_as_many_files_as_its_process() -> None:
    """The soft limit is raised to the hard one at the start, or to many where that has no end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = hard == resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_000 if endless else min(1_000, hard), hard))
    try:
        async with reached(echo, BoundedHttp, MANY):
            assert (DESCRIPTORS_MAX if endless else min(hard, DESCRIPTORS_MAX), hard) == resource.getrlimit(
                resource.RLIMIT_NOFILE
            )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

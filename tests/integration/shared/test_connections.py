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


@pytest.mark.parametrize(
    ("how", "http"), [*((how, BoundedHttp) for how in STOPPED), ("nothing", BoundedH11), ("half a head", BoundedH11)]
)
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


async def test_a_request_that_was_answered_early_leaves_an_idle_connection() -> None:
    """Once the rest of its body is there, the time for it is over: the next request may come later."""

    async def early(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async with reached(early, BoundedHttp, replace(MANY, seconds=0.5)) as port:
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


class Counting(BoundedH11):
    """A probe's connection that counts what reaches it, and what its parser takes."""

    came = parsed = 0

    def data_received(self, data: bytes) -> None:
        """Count some bytes, which are parsed unless the connection is over."""
        type(self).came += len(data)
        super().data_received(data)
        if not self.transport.is_closing():
            type(self).parsed += len(data)


@pytest.fixture
def counting() -> type[Counting]:
    """Return a reader that has counted nothing."""
    return type("Counted", (Counting,), {})


async def refused(begin: bytes, rest: bytes, http: type[Bounded]) -> tuple[bytes, int]:
    """Send a request that never ends, as far as it is taken; return the answer and how often the app was asked."""
    asked: list[str] = []

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await echo(scope, receive, send)

    async with reached(app, http, MANY) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        answer = b""
        with suppress(ConnectionError):
            writer.write(begin)
            answer = await reader.read() if begin.endswith(b"\r\n\r\n") else b""
            while True:
                writer.write(rest)
                await writer.drain()
        writer.close()
    return answer, len(asked)


@pytest.mark.parametrize("framing", [b"transfer-encoding: chunked", b"content-length: 9000000000"])
async def test_a_probe_has_no_body(framing: bytes, counting: type[Counting]) -> None:
    """Who announces one is refused at once; of what they go on sending nothing is parsed, and soon nothing taken."""
    begin = b"POST /healthz HTTP/1.1\r\nhost: here\r\n" + framing + b"\r\n\r\n"
    answer, asked = await refused(begin, b"1\r\na\r\n" * 10_000, counting)
    assert (b"HTTP/1.1 400", 0, len(begin), 0) == (answer[:12], asked, counting.came, counting.parsed)


@pytest.mark.parametrize("end", [b"", b"\r\n"], ids=["no end", "an end"])
async def test_a_probe_has_a_small_head(end: bytes, counting: type[Counting]) -> None:
    """What is beyond 8 kB is not parsed, also where all of it comes at once."""
    _, asked = await refused(b"GET / HTTP/1.1\r\nhost: here\r\n" + b"a:\r\n" * 3_000 + end, b"a:\r\n" * 1_000, counting)
    assert (0, True) == (asked, counting.parsed <= 8_192)


async def test_probes_behind_each_other_are_answered(counting: type[Counting]) -> None:
    """A length of nothing is no body, and what was answered counts no more."""
    get = GET.replace(b"\r\n\r\n", b"\r\ncontent-length: 0\r\n\r\n")
    async with reached(echo, counting, MANY) as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        for _ in range(8_192 // len(get)):
            writer.write(get * 3)
            for _ in range(3):
                assert (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
        writer.close()


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

"""What the gateway reads of a connection before it knows who is there: heads have bounds, however they come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from placet.gateway.http.protocol import HEAD_MAX, PIPELINED_MAX, BoundedHttp
from placet.runtime.health import serving
from tests.support.gateway import open_house
from tests.support.ports import free_port

BEGIN = b"POST / HTTP/1.1\r\nhost: here\r\n"
CHUNKED = BEGIN + b"transfer-encoding: chunked\r\n\r\n"
#: How a request begins that never ends, and what it goes on with: far more than a head may have.
ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "many headers": (BEGIN, b"a:b\r\n"),
    "one header": (BEGIN + b"a: ", b"b"),
    "one name": (BEGIN, b"a"),
    "target": (b"GET /", b"a"),
    "trailers": (CHUNKED + b"1\r\na\r\n0\r\n", b"a:b\r\n"),
    "one trailer": (CHUNKED + b"1\r\na\r\n0\r\na: ", b"b"),
    "extension": (CHUNKED + b"1;a=", b"b"),
}


async def cookies(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answer with what came as cookies, once the body is there."""
    while (await receive()).get("more_body"):
        pass
    found = b"".join(value for name, value in scope["headers"] if name == b"cookie")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(found))]})
    await send({"type": "http.response.body", "body": found})


async def echo(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """Answer with the body."""
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), event.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def sent(pieces: Iterable[bytes], app: Any = cookies) -> tuple[bytes, int]:
    """Return what `app` answers to these bytes, and how many of them could be sent."""
    port, count, answer = free_port(), 0, b""
    async with serving(app, host="127.0.0.1", port=port, http=BoundedHttp):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                count += len(piece)
        with suppress(ConnectionError):
            async with asyncio.timeout(20):
                answer = await reader.read()
        writer.close()
    return answer, count


@pytest.mark.parametrize("how", ENDLESS)
async def test_a_head_without_an_end_is_refused(how: str) -> None:
    """The connection ends long before all of it was read."""
    begin, piece = ENDLESS[how]
    pieces = [begin, *[piece * (HEAD_MAX // len(piece))] * 400]
    _, count = await sent(pieces)
    assert (how, True) == (how, count < len(b"".join(pieces)) // 2)


@pytest.mark.parametrize(
    ("line", "header", "times", "expected"),
    [
        # As docs/security.md has them: bounds that grow are to be noticed here.
        (b"GET / HTTP/1.1\r\n", b"a:\r\n", 500, b"HTTP/1.1 200"),
        (b"GET / HTTP/1.1\r\n", b"a:\r\n", 1_024, b"HTTP/1.1 400"),
        (b"GET /%b HTTP/1.1\r\n" % (b"a" * 8_191), b"", 0, b"HTTP/1.1 200"),
        (b"GET /%b HTTP/1.1\r\n" % (b"a" * 8_192), b"", 0, b"HTTP/1.1 400"),
        (b"GET /%b?b HTTP/1.1\r\n" % (b"a" * 8_192), b"", 0, b"HTTP/1.1 400"),
        (b"GET /?%b HTTP/1.1\r\n" % (b"a" * 16_382), b"", 0, b"HTTP/1.1 200"),
        (b"GET /?%b HTTP/1.1\r\n" % (b"a" * 16_383), b"", 0, b"HTTP/1.1 400"),
    ],
    ids=[
        "half of the headers",
        "more headers",
        "longest path",
        "longer path",
        "longer path with a query",
        "longest target",
        "longer target",
    ],
)
async def test_headers_and_target_have_bounds(line: bytes, header: bytes, times: int, expected: bytes) -> None:
    """A header counts for more than its bytes, and a target may be no head's length; a client has all it needs."""
    answer, _ = await sent([line + b"connection: close\r\n" + header * times + b"\r\n"])
    assert expected == answer[:12]


async def test_requests_behind_each_other_have_heads_of_their_own() -> None:
    """A large body between them counts for none, and what a cookie has beside backslashes arrives."""
    body = b"x" * (4 * HEAD_MAX)
    first = BEGIN + b"content-length: %d\r\n\r\n" % len(body) + body
    then = BEGIN + b'connection: close\r\ncookie: a="%b1"\r\n\r\n' % (b"\\" * (HEAD_MAX // 2))
    answer, _ = await sent([first * 3 + then])
    assert (4, True) == (answer.count(b"HTTP/1.1 200 OK"), answer.endswith(b'a="1"'))


async def test_a_flood_of_requests_behind_each_other_is_refused() -> None:
    """Of what one connection sends before its first answer no more is taken on than a handful."""
    begun = 0

    async def counting(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        nonlocal begun
        begun += 1
        await cookies(scope, receive, send)

    answer, _ = await sent([b"GET / HTTP/1.1\r\n\r\n" * 10_000, BEGIN + b"connection: close\r\n\r\n"], counting)
    assert (True, 0) == (begun <= PIPELINED_MAX + 1, answer.count(b"HTTP/1.1 400"))


async def test_an_answer_ends_with_its_connection_whatever_was_sent_behind() -> None:
    """A stream hears that its client has gone, also where that had sent another request meanwhile."""
    begun, gone = asyncio.Event(), asyncio.Event()

    async def streaming(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    port = free_port()
    async with serving(streaming, host="127.0.0.1", port=port, http=BoundedHttp):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 2)
        await begun.wait()
        writer.close()
        async with asyncio.timeout(5):
            await gone.wait()


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_another_protocol_is_not_taken_up(protocol: str) -> None:
    """The request is answered as any other, and the connection ends: nothing after it could be read."""
    asked = BEGIN + b"connection: upgrade\r\nupgrade: %b\r\nsec-websocket-version: 13\r\n" % protocol.encode()
    answer, _ = await sent([asked + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\ncontent-length: 0\r\n\r\n"])
    head = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert (b"HTTP/1.1 200 OK", True) == (head[0], b"connection: close" in head)


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"content-length: 5\r\n", b"hello"),
        (b"transfer-encoding: chunked\r\n", b"2\r\nhe\r\n3\r\nllo\r\n0\r\nsome: trailer\r\n\r\n"),
        (b"", b""),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_the_body_is_read_of_what_asks_for_another_protocol(framing: bytes, body: bytes, size: int) -> None:
    """Java's client asks so with every request, also with one that has a body; what stands behind is not read."""
    head = BEGIN + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    request = head + framing + b"\r\n" + body + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    answer, _ = await sent([request[at : at + size] for at in range(0, len(request), size)], echo)
    status, _, rest = answer.partition(b"\r\n")
    expected = b"hello" if body else b""
    assert (b"HTTP/1.1 200 OK", expected) == (status, rest.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("framing", [b"transfer-encoding: gzip\r\n", b"transfer-encoding: chunked\r\n"])
async def test_a_body_without_measure_of_what_asks_for_another_protocol_is_none(framing: bytes) -> None:
    """The connection ends, as it does without that wish."""
    head = BEGIN + b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    answer, _ = await sent([head + framing + b"\r\nhello"], echo)
    assert b"200 OK" not in answer


@pytest.mark.parametrize(
    ("settings", "opened"),
    [
        ({"gateway_connections": 1}, 2),
        ({"gateway_address_connections": 1}, 2),
        ({"gateway_request_seconds": 0.2}, 1),
    ],
)
async def test_settings_bound_connections(
    gateway_database_url: str, tmp_path: Path, settings: dict[str, Any], opened: int
) -> None:
    """The last connection ends without an answer: it is one too many, or asks for nothing in its time."""
    async with open_house(gateway_database_url, tmp_path, **settings) as house, asyncio.timeout(20):
        where = urlsplit(house.gateways[0].url)
        connections = [await asyncio.open_connection(where.hostname, where.port) for _ in range(opened)]
        assert b"" == await connections[-1][0].read()
        for _, writer in connections:
            writer.close()

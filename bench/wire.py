"""A counting wire: stands between each service and its database and broker, and notes what crosses.

It is a process of its own, so that its work is nobody's in the figures; still it slows what it watches, so that runs
which are timed go without it. It reads PostgreSQL's and AMQP's frames and changes nothing. Statements are counted here
and not by `pg_stat_statements`, which a running server must be restarted for.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Literal, cast
from urllib.parse import quote, urlsplit

import uvloop
from psycopg.conninfo import conninfo_to_dict

Protocol = Literal["postgres", "amqp"]
HOST = "127.0.0.1"
#: What PostgreSQL's clients ask before they say who they are: for TLS, for GSSAPI.
_ASKED_FIRST = frozenset({80877103, 80877104})
_AMQP_HELLO = 8
_METHOD, _HEADER, _BODY = 1, 2, 3
_PUBLISH, _DELIVER, _ACK = (60, 40), (60, 60), (60, 80)


@dataclass(frozen=True)
class Route:
    """One service's way to one server."""

    label: str
    protocol: Protocol
    host: str
    """A name, or the folder of a Unix socket."""
    port: int


@dataclass
class Tally:
    """What crossed of one service."""

    numbers: Counter[str] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    """Executions by text."""
    messages: Counter[str] = field(default_factory=Counter)
    """Publishes and deliveries by where they went."""
    chain: list[tuple[float, str]] = field(default_factory=list)
    """What happened when, by the machine's monotonic clock; empty unless it is asked for."""


Note = Callable[[str], None]


class PostgresClient:
    """Counts what a client of PostgreSQL sends."""

    def __init__(self, tally: Tally, note: Note) -> None:
        self._tally, self._note = tally, note
        self._buffer = bytearray()
        self._greeting = True
        self._texts: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}

    def feed(self, data: bytes) -> None:
        """Take what was sent."""
        self._tally.numbers["database_bytes"] += len(data)
        self._buffer += data
        head = 4 if self._greeting else 5
        while len(self._buffer) >= head:
            size = int.from_bytes(self._buffer[head - 4 : head]) + head - 4
            if len(self._buffer) < size:
                return
            kind, body = bytes(self._buffer[: head - 4]), bytes(self._buffer[head:size])
            del self._buffer[:size]
            if self._greeting:
                self._greeting = int.from_bytes(body[:4]) in _ASKED_FIRST
                head = 4 if self._greeting else 5
            else:
                self._take(kind, body)

    def _take(self, kind: bytes, body: bytes) -> None:
        match kind:
            case b"P":
                name, text = body.split(b"\0", 2)[:2]
                self._texts[name] = " ".join(text.decode(errors="replace").split())
            case b"B":
                portal, name = body.split(b"\0", 2)[:2]
                self._portals[portal] = self._texts.get(name, "?")
            case b"E":
                self._execute(self._portals.get(body.split(b"\0", 1)[0], "?"))
            case b"Q":
                self._execute(" ".join(body.rstrip(b"\0").decode(errors="replace").split()))
                self._tally.numbers["round_trips"] += 1
            case b"S":
                self._tally.numbers["round_trips"] += 1

    def _execute(self, text: str) -> None:
        self._tally.numbers["statements"] += 1
        self._tally.statements[text] += 1
        self._note(f"asks    {text[:100]}")


class PostgresServer:
    """Notes when PostgreSQL has answered."""

    def __init__(self, tally: Tally, note: Note) -> None:
        self._tally, self._note = tally, note

    def feed(self, data: bytes) -> None:
        """Take what was sent. It ends with "ready for the next" whenever an answer is whole."""
        self._tally.numbers["database_bytes"] += len(data)
        if data[-6:-1] == b"Z\0\0\0\5":
            self._note("answered")


class Amqp:
    """Counts the messages of one direction."""

    def __init__(self, tally: Tally, note: Note, *, from_client: bool) -> None:
        self._tally, self._note = tally, note
        self._from_client = from_client
        self._skip = _AMQP_HELLO if from_client else 0
        self._buffer = bytearray()
        self._coming: dict[int, _Message] = {}

    def feed(self, data: bytes) -> None:
        """Take what was sent."""
        self._tally.numbers["broker_bytes"] += len(data)
        self._buffer += data
        if self._skip:
            if len(self._buffer) < self._skip:
                return
            del self._buffer[: self._skip]
            self._skip = 0
        while len(self._buffer) >= 7:  # noqa: PLR2004  # type, channel, size
            kind, channel, size = struct.unpack_from(">BHI", self._buffer)
            if len(self._buffer) < size + 8:
                return
            self._take(kind, channel, bytes(self._buffer[7 : 7 + size]))
            del self._buffer[: size + 8]

    def _take(self, kind: int, channel: int, body: bytes) -> None:
        if kind == _METHOD:
            self._method(channel, body)
        elif (message := self._coming.get(channel)) is not None:
            if kind == _HEADER:
                message.missing = struct.unpack_from(">Q", body, 4)[0]
            elif kind == _BODY:
                message.body += body
                message.missing -= len(body)
            if not message.missing:
                self._whole(self._coming.pop(channel))

    def _method(self, channel: int, body: bytes) -> None:
        method = struct.unpack_from(">HH", body)
        if self._from_client and method == _PUBLISH:
            exchange, rest = _short(body[6:])
            self._coming[channel] = _Message("published", f"{exchange or 'queue'} {_short(rest)[0]}")
        elif not self._from_client and method == _DELIVER:
            exchange, rest = _short(_short(body[4:])[1][9:])
            self._coming[channel] = _Message("delivered", f"{exchange or 'queue'} {_short(rest)[0]}")
        elif method == _ACK:
            what = "acknowledged" if self._from_client else "confirmed"
            self._tally.numbers[what] += 1
            self._note(what)

    def _whole(self, message: _Message) -> None:
        events = _events(bytes(message.body))
        self._tally.numbers[message.what] += 1
        self._tally.numbers[f"events_{message.what}"] += len(events)
        self._tally.messages[f"{message.what} {message.where}"] += 1
        self._note(f"{message.what} {message.where}: {', '.join(events)} ({len(message.body)} bytes)")


@dataclass
class _Message:
    """A message on its way over one channel."""

    what: str
    where: str
    missing: int = 0
    body: bytearray = field(default_factory=bytearray)


def _events(body: bytes) -> list[str]:
    try:
        events: Any = json.loads(body)
        return [str(event["type"]) for event in (events if isinstance(events, list) else [events])]
    except (ValueError, KeyError, TypeError):
        return []


def _short(body: bytes) -> tuple[str, bytes]:
    return body[1 : 1 + body[0]].decode(), body[1 + body[0] :]


class _Pipe(asyncio.Protocol):
    """One end of a connection: passes on to the other what it gets, then has it counted."""

    def __init__(self, feed: Callable[[bytes], None]) -> None:
        self._feed = feed
        self._held: list[bytes] = []
        self.transport: asyncio.Transport | None = None
        self.other: _Pipe | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def join(self, other: _Pipe) -> None:
        """Begin to pass on."""
        self.other = other
        for data in self._held:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._held.append(data)
            return
        self.other.transport.write(data)
        self._feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Routes:
    """The wire's own process."""

    def __init__(self, *, chain: bool) -> None:
        self.tallies: dict[str, Tally] = {}
        self._chain = chain
        self._joining: set[asyncio.Task[None]] = set()

    async def open(self, route: Route) -> int:
        """Listen for one service; returns the port."""
        loop = asyncio.get_running_loop()
        tally = self.tallies.setdefault(route.label, Tally())

        def accept() -> _Pipe:
            client, server = self._parsers(route, tally)
            near, far = _Pipe(client), _Pipe(server)
            task = loop.create_task(self._join(route, near, far))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)
            return near

        listening = await loop.create_server(accept, HOST, 0)
        return int(listening.sockets[0].getsockname()[1])

    def _parsers(self, route: Route, tally: Tally) -> tuple[Callable[[bytes], None], Callable[[bytes], None]]:
        def note(what: str) -> None:
            if self._chain:
                tally.chain.append((time.perf_counter(), what))

        if route.protocol == "postgres":
            return PostgresClient(tally, note).feed, PostgresServer(tally, note).feed
        return Amqp(tally, note, from_client=True).feed, Amqp(tally, note, from_client=False).feed

    async def _join(self, route: Route, near: _Pipe, far: _Pipe) -> None:
        loop = asyncio.get_running_loop()
        if route.host.startswith("/"):
            await loop.create_unix_connection(lambda: far, f"{route.host}/.s.PGSQL.{route.port}")
        else:
            await loop.create_connection(lambda: far, route.host, route.port)
        far.join(near)
        near.join(far)

    def take(self) -> dict[str, Tally]:
        """Return what was counted since the last time."""
        taken = {label: Tally(**vars(tally)) for label, tally in self.tallies.items()}
        for tally in self.tallies.values():
            tally.__init__()  # type: ignore[misc]
        return taken


def _serve(routes: Sequence[Route], pipe: Connection, *, chain: bool) -> None:
    uvloop.run(_serving(routes, pipe, chain=chain))


async def _serving(routes: Sequence[Route], pipe: Connection, *, chain: bool) -> None:
    house, ended = _Routes(chain=chain), asyncio.Event()
    pipe.send([await house.open(route) for route in routes])

    def asked() -> None:
        # The loop has made it such that a long answer would not fit.
        os.set_blocking(pipe.fileno(), True)
        try:
            pipe.recv()
            pipe.send(house.take())
        except EOFError:
            ended.set()

    asyncio.get_running_loop().add_reader(pipe.fileno(), asked)
    await ended.wait()


class Wire:
    """The wire, seen from the benchmark."""

    def __init__(self, pipe: Connection, ports: dict[tuple[str, Protocol], int]) -> None:
        self._pipe, self._ports = pipe, ports

    def database_url(self, label: str, url: str) -> str:
        """Return `url` by way of the wire."""
        parts = conninfo_to_dict(url)
        user = quote(str(parts.get("user") or "postgres"))
        password = f":{quote(str(parts['password']))}" if parts.get("password") else ""
        port = self._ports[label, "postgres"]
        return f"postgresql://{user}{password}@{HOST}:{port}/{parts['dbname']}?sslmode=disable"

    def broker_url(self, label: str, url: str) -> str:
        """Return `url` by way of the wire."""
        parts = urlsplit(url)
        login = parts.netloc.rpartition("@")[0]
        return parts._replace(netloc=f"{login}@{HOST}:{self._ports[label, 'amqp']}").geturl()

    def take(self) -> dict[str, Tally]:
        """Return what crossed since the last time, by service."""
        self._pipe.send("take")
        taken: dict[str, Tally] = self._pipe.recv()
        return taken


@contextmanager
def a_wire(labels: Sequence[str], database_url: str, broker_url: str, *, chain: bool = False) -> Iterator[Wire]:
    """Run a wire between the services called `labels` and their servers until the block ends."""
    database, broker = conninfo_to_dict(database_url), urlsplit(broker_url)
    routes = [
        route
        for label in labels
        for route in (
            Route(label, "postgres", str(database.get("host") or HOST), int(database.get("port") or 5432)),
            Route(label, "amqp", broker.hostname or HOST, broker.port or 5672),
        )
    ]
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(routes, theirs), kwargs={"chain": chain}, daemon=True)
    process.start()
    theirs.close()
    try:
        ports: list[int] = ours.recv()
        yield Wire(ours, {(route.label, route.protocol): port for route, port in zip(routes, ports, strict=True)})
    finally:
        ours.close()
        process.join(10)

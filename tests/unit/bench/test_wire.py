"""What the counting wire reads of the two protocols, however the bytes are cut."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest

from bench.wire import Amqp, PostgresClient, PostgresServer, Tally


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """Yield `data` in pieces."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


def a_request(kind: bytes, body: bytes) -> bytes:
    """Return a message of PostgreSQL's protocol."""
    return kind + struct.pack(">I", len(body) + 4) + body


HELLO = struct.pack(">II", 8, 80877103) + struct.pack(">II", 17, 196608) + b"user\0me\0\0"
PREPARE = a_request(b"P", b"one\0SELECT  $1\n\0\0\0")
RUN = a_request(b"B", b"\0one\0\0\0\0\0\0\0") + a_request(b"E", b"\0\0\0\0\0") + a_request(b"S", b"")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_statements_are_counted_by_text_however_they_are_run(size: int) -> None:
    """A prepared statement counts each time it runs, a simple query too, and each wait for an answer."""
    tally, chain = Tally(), list[str]()
    client = PostgresClient(tally, chain.append)
    for piece in cut(HELLO + PREPARE + RUN + RUN + a_request(b"Q", b"COMMIT\0"), size):
        client.feed(piece)
    assert {"SELECT $1": 2, "COMMIT": 1} == tally.statements
    assert (3, 3) == (tally.numbers["statements"], tally.numbers["round_trips"])
    assert ["asks    SELECT $1", "asks    SELECT $1", "asks    COMMIT"] == chain


def test_an_answer_is_noted_when_it_is_whole() -> None:
    """PostgreSQL says so with its last bytes."""
    chain = list[str]()
    server = PostgresServer(Tally(), chain.append)
    server.feed(b"D\0\0\0\4")
    server.feed(b"C\0\0\0\4Z\0\0\0\5I")
    assert ["answered"] == chain


def a_frame(kind: int, body: bytes, channel: int = 1) -> bytes:
    """Return a frame of AMQP."""
    return struct.pack(">BHI", kind, channel, len(body)) + body + b"\xce"


def a_short(text: str) -> bytes:
    """Return a short string of AMQP."""
    return bytes([len(text)]) + text.encode()


def a_message(method: bytes, body: bytes) -> bytes:
    """Return what a message is on its way: method, header, body in two frames."""
    header = struct.pack(">HHQH", 60, 0, len(body), 0)
    return a_frame(1, method) + a_frame(2, header) + a_frame(3, body[:5]) + a_frame(3, body[5:])


BODY = json.dumps([{"type": "said"}, {"type": "done"}]).encode()
PUBLISH = struct.pack(">HHH", 60, 40, 0) + a_short("talk") + a_short("a.b") + b"\0"
DELIVER = struct.pack(">HH", 60, 60) + a_short("tag") + struct.pack(">QB", 1, 0) + a_short("") + a_short("mine")
ACK = struct.pack(">HHQB", 60, 80, 1, 0)


@pytest.mark.parametrize("size", [1, 9, 10_000])
def test_messages_are_counted_with_their_events(size: int) -> None:
    """Of what a client sends: publishes by where they go, the events in them, acknowledgements."""
    tally, chain = Tally(), list[str]()
    amqp = Amqp(tally, chain.append, from_client=True)
    for piece in cut(b"AMQP\0\0\x09\x01" + a_message(PUBLISH, BODY) + a_frame(1, ACK), size):
        amqp.feed(piece)
    numbers = {"published": 1, "events_published": 2, "acknowledged": 1}
    assert numbers == {name: tally.numbers[name] for name in numbers}
    assert {"published talk a.b": 1} == tally.messages
    assert [f"published talk a.b: said, done ({len(BODY)} bytes)", "acknowledged"] == chain


def test_the_broker_delivers_and_confirms() -> None:
    """Of what a broker sends: deliveries by where they came from, confirms."""
    tally = Tally()
    Amqp(tally, lambda _: None, from_client=False).feed(a_message(DELIVER, BODY) + a_frame(1, ACK))
    assert {"delivered queue mine": 1} == tally.messages
    assert (1, 1) == (tally.numbers["delivered"], tally.numbers["confirmed"])

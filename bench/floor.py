"""The floor: the least a durable gated call costs on RabbitMQ and PostgreSQL, with nothing of Placet in it.

Four quorum queues, four persistent messages, each published with a confirm, four durable commits: bare
aio-pika and psycopg on uvloop, as anybody would write them by hand. It checks, signs and logs nothing.
One call: a proposal travels and is committed as pending; a decision from outside travels and is committed;
the permit travels, the tool runs, its outcome is committed; the result travels and is committed.
Whoever claims to be fast must say how far from this they are. A call that needs no decision does without that hop.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from time import perf_counter
from urllib.parse import urlsplit

import aio_pika
import psycopg
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from pamqp.common import FieldTable
from psycopg import sql

from bench.measurement import Measurement, WrongCountError, percentile, verify
from bench.processor import POSTGRES_URL, RABBITMQ_URL, ProcessorTime

ARGUMENTS = {"product": "red shoes", "quantity": 2, "note": "by the door, please"}
CONNECTIONS = 16
"""Database connections; enough for commits to be flushed together."""
PREFETCH = 64
QUORUM: FieldTable = {"x-queue-type": "quorum"}
STALL_SECONDS = 60
"""A single call that takes longer ends the run."""

CREATE = "CREATE TABLE calls (id TEXT PRIMARY KEY, state TEXT NOT NULL, call TEXT NOT NULL, result TEXT)"
PERMIT = "INSERT INTO calls (id, state, call) VALUES (%(id)s, 'approved', %(call)s)"
PEND = "INSERT INTO calls (id, state, call) VALUES (%(id)s, 'pending', %(call)s)"
DECIDE = "UPDATE calls SET state = 'approved' WHERE id = %(id)s AND state = 'pending'"
SETTLE = "UPDATE calls SET state = 'executed', result = 'done' WHERE id = %(id)s AND state = 'approved'"
RECORD = "UPDATE calls SET state = 'answered' WHERE id = %(id)s AND state = 'executed'"
ANSWERED = "SELECT count(*) FROM calls WHERE state = 'answered'"


class Floor:
    """The four hops, and what the outside world waits for."""

    schema = CREATE

    def __init__(self, connections: list[psycopg.AsyncConnection], channel: AbstractChannel) -> None:
        self.hops = self.hops_of()
        self.prefix = f"bench.{secrets.token_hex(4)}"
        self.tool_runs: Counter[str] = Counter()
        self._idle: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
        for connection in connections:
            self._idle.put_nowait(connection)
        self._channel = channel
        self.pending: dict[str, asyncio.Future[None]] = {}
        self.answered: dict[str, asyncio.Future[None]] = {}

    def hops_of(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        """Return what handles each hop."""
        return {
            "proposals": self.hold,
            "decisions": self.decide,
            "executions": self.execute,
            "results": self.answer,
        }

    async def one_call(self, call: str) -> float:
        """Take one call all the way; returns the seconds from the decision to the recorded result."""
        loop = asyncio.get_running_loop()
        pending, answered = loop.create_future(), loop.create_future()
        self.pending[call], self.answered[call] = pending, answered
        async with asyncio.timeout(STALL_SECONDS):
            await self.publish("proposals", call)
            await pending
            decided = perf_counter()
            await self.publish("decisions", call)
            await answered
        return perf_counter() - decided

    async def run(self, call: str) -> float:
        """Take one call all the way that nobody decides; returns the seconds from the proposal to the result."""
        answered = self.answered[call] = asyncio.get_running_loop().create_future()
        proposed = perf_counter()
        async with asyncio.timeout(STALL_SECONDS):
            await self.publish("proposals", call)
            await answered
        return perf_counter() - proposed

    async def hold(self, call: str) -> None:
        """Make a proposed call durably pending, a person's inbox would show it now; or send it on."""
        if call in self.pending:
            await self.commit(PEND, call)
            self.pending.pop(call).set_result(None)
        else:
            await self.commit(PERMIT, call)
            await self.publish("executions", call)

    async def decide(self, call: str) -> None:
        """Make an approved call durably so, and send it on to the executor."""
        await self.commit(DECIDE, call)
        await self.publish("executions", call)

    async def execute(self, call: str) -> None:
        """Run the tool, which does nothing, settle, and send the result back."""
        self.tool_runs[call] += 1
        await self.commit(SETTLE, call)
        await self.publish("results", call)

    async def answer(self, call: str) -> None:
        """Record a result with the agent."""
        await self.commit(RECORD, call)
        self.answered.pop(call).set_result(None)

    async def commit(self, statement: str, call: str) -> None:
        """Run one statement as one durable transaction, and see that it changed one row."""
        parameters = {"id": call, "call": json.dumps(ARGUMENTS)}
        async with self.connection() as connection, connection.transaction():
            self.one_row(await connection.execute(statement.encode(), parameters), statement)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """Lend a database connection."""
        connection = await self._idle.get()
        try:
            yield connection
        finally:
            self._idle.put_nowait(connection)

    def one_row(self, cursor: psycopg.AsyncCursor, statement: str) -> None:
        """Raise unless a statement changed one row."""
        if cursor.rowcount != 1:
            raise WrongCountError(f"{cursor.rowcount} rows changed by {statement}")

    async def publish(self, hop: str, call: str) -> None:
        """Send one persistent message and return when the broker has confirmed it."""
        body = json.dumps({"id": call, "tool": "nothing", "arguments": ARGUMENTS}).encode()
        message = aio_pika.Message(body, message_id=call, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await self._channel.default_exchange.publish(message, self.queue(hop))

    def queue(self, hop: str) -> str:
        """Return the name of this run's queue for `hop`."""
        return f"{self.prefix}.{hop}"

    def consumer(self, hop: str) -> Callable[[AbstractIncomingMessage], Awaitable[None]]:
        """Return what handles a delivery of `hop`: all its work first, the acknowledgement last."""
        handle = self.hops[hop]

        async def consume(message: AbstractIncomingMessage) -> None:
            await handle(json.loads(message.body)["id"])
            await message.ack()

        return consume


async def measure(in_flight: int, count: int, kind: type[Floor] = Floor, *, gated: bool = True) -> Measurement:
    """Drive `count` calls in a closed loop of `in_flight` after a warm-up; each must run exactly once."""
    async with _database(kind.schema) as connections, _running(kind, connections) as floor:
        take = floor.one_call if gated else floor.run
        await _drive(take, in_flight, count // 10 + in_flight)
        with ProcessorTime() as processor:
            started = perf_counter()
            waits = await _drive(take, in_flight, count)
            seconds = perf_counter() - started
        verify(count + count // 10 + in_flight, await _answered(connections[0]), floor.tool_runs)
    recorded = percentile(waits, 0.50) * 1000
    return Measurement(
        in_flight,
        count / seconds,
        recorded,
        percentile(waits, 0.99) * 1000,
        processor.seconds * 1000 / count,
        recorded,
    )


async def measure_ungated(in_flight: int, count: int) -> Measurement:
    """Drive calls that nobody decides."""
    return await measure(in_flight, count, gated=False)


async def _drive(take: Callable[[str], Awaitable[float]], in_flight: int, count: int) -> list[float]:
    calls = islice(iter(lambda: secrets.token_hex(8), ""), count)

    async def one_after_the_other(calls: Iterator[str]) -> list[float]:
        return [await take(call) for call in calls]

    async with asyncio.TaskGroup() as group:
        loops = [group.create_task(one_after_the_other(calls)) for _ in range(in_flight)]
    return [wait for loop in loops for wait in loop.result()]


async def _answered(connection: psycopg.AsyncConnection) -> int:
    row = await (await connection.execute(ANSWERED)).fetchone()
    return int(row[0]) if row else 0


@asynccontextmanager
async def _database(schema: str) -> AsyncIterator[list[psycopg.AsyncConnection]]:
    """Make a database for one run, and connections that wait for nothing but transactions."""
    name = f"placet_bench_{secrets.token_hex(4)}"
    url = urlsplit(POSTGRES_URL)._replace(path=f"/{name}").geturl()
    async with await psycopg.AsyncConnection.connect(POSTGRES_URL, autocommit=True) as admin:
        await admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            async with AsyncExitStack() as stack:
                connections = [await stack.enter_async_context(await _connect(url)) for _ in range(CONNECTIONS)]
                for statement in schema.split(";"):
                    await connections[0].execute(statement.encode())
                yield connections
        finally:
            await admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


async def _connect(url: str) -> psycopg.AsyncConnection:
    return await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=0)


@asynccontextmanager
async def _running(kind: type[Floor], connections: list[psycopg.AsyncConnection]) -> AsyncIterator[Floor]:
    """Declare the queues of one run, consume from them, and delete them afterwards."""
    async with await aio_pika.connect_robust(RABBITMQ_URL) as broker:
        floor = kind(connections, await broker.channel())
        consuming = await broker.channel()
        await consuming.set_qos(prefetch_count=PREFETCH)
        consumers: list[tuple[AbstractQueue, str]] = []
        try:
            for hop in floor.hops:
                queue = await consuming.declare_queue(floor.queue(hop), durable=True, arguments=QUORUM)
                consumers.append((queue, await queue.consume(floor.consumer(hop))))
            yield floor
        finally:
            for consumed, tag in consumers:
                await consumed.cancel(tag)
                await consumed.delete(if_unused=False, if_empty=False)

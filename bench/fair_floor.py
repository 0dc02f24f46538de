"""The fair floor: the flow that Placet has, by hand, with the promises that it makes about messages and nothing more.

Agent, policy, approval, people, approval, executor, agent, and people again, whose card closes: seven messages, one
event in each, none gathered. Every step is one transaction with its inbox row, its state, its line of history and its
outbox rows; what the outbox has is sent after the commit and deleted when the broker has confirmed it. The executor
claims before it runs a tool and settles after. Bare aio-pika and psycopg on uvloop in one process; it checks, signs,
shows and logs nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter

from bench.floor import ARGUMENTS, STALL_SECONDS, Floor
from bench.floor import measure as measure_floor
from bench.measurement import Measurement

CREATE = """
    CREATE TABLE calls (id TEXT PRIMARY KEY, state TEXT NOT NULL, call TEXT NOT NULL, result TEXT);
    CREATE TABLE verdicts (id TEXT PRIMARY KEY, verdict TEXT NOT NULL);
    CREATE TABLE approvals (id TEXT PRIMARY KEY, state TEXT NOT NULL, call TEXT NOT NULL);
    CREATE TABLE cards (id TEXT PRIMARY KEY, call TEXT NOT NULL);
    CREATE TABLE executions (id TEXT PRIMARY KEY, state TEXT NOT NULL, call TEXT NOT NULL);
    CREATE TABLE history (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, call_id TEXT NOT NULL, step TEXT NOT NULL,
        at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp());
    CREATE TABLE inbox (id TEXT PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now());
    CREATE TABLE outbox (id TEXT PRIMARY KEY, event TEXT NOT NULL, at TIMESTAMPTZ NOT NULL DEFAULT now())
"""
PROPOSE = "INSERT INTO calls (id, state, call) VALUES (%(id)s, 'proposed', %(call)s)"
JUDGE = "INSERT INTO verdicts (id, verdict) VALUES (%(id)s, 'require_approval')"
PEND = "INSERT INTO approvals (id, state, call) VALUES (%(id)s, 'pending', %(call)s)"
SHOW = "INSERT INTO cards (id, call) VALUES (%(id)s, %(call)s)"
DECIDE = "UPDATE approvals SET state = 'approved' WHERE id = %(id)s AND state = 'pending'"
CLOSE = "DELETE FROM cards WHERE id = %(id)s"
CLAIM = "INSERT INTO executions (id, state, call) VALUES (%(id)s, 'running', %(call)s)"
SETTLE = "UPDATE executions SET state = 'executed' WHERE id = %(id)s AND state = 'running'"
RECORD = "UPDATE calls SET state = 'answered', result = 'done' WHERE id = %(id)s AND state = 'proposed'"
TAKE = "INSERT INTO inbox (id) VALUES (%(message)s)"
REMEMBER = "INSERT INTO history (call_id, step) VALUES (%(id)s, %(message)s)"
SEND = "INSERT INTO outbox (id, event) VALUES (%(sent)s, %(call)s)"
FORGET = "DELETE FROM outbox WHERE id = %(sent)s"


class FairFloor(Floor):
    """Seven hops, each of which keeps its promises."""

    schema = CREATE

    def hops_of(self) -> dict[str, Callable[[str], Awaitable[None]]]:
        """Return what handles each hop."""
        return {
            "proposals": partial(self.step, JUDGE, "proposals", ["requests"]),
            "requests": partial(self.step, PEND, "requests", ["opened"]),
            "opened": self.show,
            "decisions": partial(self.step, DECIDE, "decisions", ["executions", "closed"]),
            "executions": self.execute,
            "results": self.answer,
            "closed": partial(self.step, CLOSE, "closed", []),
        }

    async def one_call(self, call: str) -> float:
        """Take one call all the way; returns the seconds from the decision to the recorded result."""
        loop = asyncio.get_running_loop()
        pending, answered = loop.create_future(), loop.create_future()
        self.pending[call], self.answered[call] = pending, answered
        async with asyncio.timeout(STALL_SECONDS):
            await self.step(PROPOSE, "", ["proposals"], call)
            await pending
            decided = perf_counter()
            await self.step("", "", ["decisions"], call)
            await answered
        return perf_counter() - decided

    async def show(self, call: str) -> None:
        """Put a card before people."""
        await self.step(SHOW, "opened", [], call)
        self.pending.pop(call).set_result(None)

    async def execute(self, call: str) -> None:
        """Claim, run the tool, which does nothing, settle, and send the result back."""
        await self.step(CLAIM, "executions", [], call)
        self.tool_runs[call] += 1
        await self.step(SETTLE, "", ["results"], call)

    async def answer(self, call: str) -> None:
        """Record a result with the agent."""
        await self.step(RECORD, "results", [], call)
        self.answered.pop(call).set_result(None)

    async def step(self, statement: str, taken: str, sent: Sequence[str], call: str) -> None:
        """Commit what was taken from a hop, its state and what is sent to others; then send that and forget it."""
        parameters = {"id": call, "call": json.dumps(ARGUMENTS), "message": f"{taken}.{call}"}
        sending = [parameters | {"sent": f"{hop}.{call}"} for hop in sent]
        async with self.connection() as connection, connection.transaction():
            if taken:
                await connection.execute(TAKE.encode(), parameters)
            if statement:
                self.one_row(await connection.execute(statement.encode(), parameters), statement)
                await connection.execute(REMEMBER.encode(), parameters)
            for each in sending:
                await connection.execute(SEND.encode(), each)
        for hop, each in zip(sent, sending, strict=True):
            await self.publish(hop, call)
            async with self.connection() as connection:
                await connection.execute(FORGET.encode(), each)


async def measure(in_flight: int, count: int) -> Measurement:
    """Drive `count` calls in a closed loop of `in_flight` after a warm-up; each must run exactly once."""
    return await measure_floor(in_flight, count, FairFloor)

"""One executor on a real database and the in-process bus, with everything that leaves it caught.

Permits are signed with real keys, so a test that is let through was let through by the real check.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from placet.contracts.messages import (
    CallResolved,
    Event,
    Message,
    ToolCall,
    ToolCallFinished,
    ToolCallPermitted,
    ToolCallRefused,
)
from placet.contracts.permit import Consent, issue_permit
from placet.contracts.signing import create_keys, load_signer
from placet.contracts.topology import DEAD_LETTERS, Destination, QueueSpec, executor_queue, queue
from placet.domain.catalog import Catalog, load_catalog
from placet.executor.service import build
from placet.executor.settings import ExecutorSettings
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope
from placet.runtime.database import async_url
from placet.runtime.in_process import InProcessBus
from placet.runtime.service import Service, runtime_on
from tests.builders import a_call, an_envelope, an_event
from tests.support.executor_tools import RULEBOOK
from tests.support.house import create_tables

Answer = ToolCallFinished | ToolCallRefused | CallResolved
#: How long an answer or a dead letter may take before its test has failed, in seconds.
ANSWER_SECONDS = 30.0


def make_schema(url: str) -> None:
    """Create the executor's tables in the database at `url`."""
    create_tables("executor")(url)
    engine = sa.create_engine(async_url(url))
    with engine.begin() as connection:
        # What the gateway shows of its keys and stops, policy of its verdicts, and approval and the agent of calls.
        connection.execute(sa.text('CREATE SCHEMA "read"'))
        connection.execute(sa.text('CREATE TABLE "read".api_keys (key_id text, tenant text, revoked_at timestamptz)'))
        stops = "stop_id text, tenant text, tool text, agent text, reason text"
        connection.execute(sa.text(f'CREATE TABLE "read".stops ({stops})'))
        connection.execute(sa.text('CREATE TABLE "read".verdicts (call_id text, effect text)'))
        connection.execute(sa.text('CREATE TABLE "read".answered_calls (call_id text)'))
        connection.execute(sa.text('CREATE TABLE "read".approved_calls (call_id text)'))
    engine.dispose()


@dataclass(frozen=True)
class Premises:
    """What all executors of one test share: a database, keys, a rulebook."""

    url: str
    folder: Path

    @property
    def keys(self) -> Path:
        """The folder of signing keys."""
        return self.folder / "keys"

    @property
    def rulebook(self) -> Path:
        """The rulebook's path."""
        return self.folder / "rulebook.yaml"

    @property
    def catalog(self) -> Catalog:
        """The tools of the rulebook."""
        return load_catalog(self.rulebook)

    def settings(self, **changes: Any) -> ExecutorSettings:
        """Return settings under which no lease runs out by itself."""
        fields: dict[str, Any] = {
            "database_url": SecretStr(self.url),
            "database_pool_size": 3,
            "rulebook": self.rulebook,
            "keys": self.keys,
            "executor_pools": "default",
            "executor_slots": 4,
            "executor_lease_seconds": 3600,
            "executor_sweep_seconds": 0.2,
            "executor_worker": "worker-1",
            "drain_seconds": 0.2,
        }
        return ExecutorSettings(**(fields | changes))

    def call(self, tool: str, /, **arguments: Any) -> ToolCall:
        """Return a call of `tool` that fits its schema."""
        return a_call(tool=tool, schema_digest=self.catalog[tool].schema_digest, arguments=arguments)

    def permitted(self, call: ToolCall, **changes: Any) -> ToolCallPermitted:
        """Return the message that permits `call`; its times, issuer, pool and consent may differ.

        `mode` and `plan` are for calls that are staged, or commit.
        """
        pool, lifetime = changes.get("pool", "default"), changes.get("lifetime_seconds", 300)
        signer = load_signer(changes.get("keys", self.keys), changes.get("issuer", "policy"))
        at = changes.get("at", datetime.now(UTC))
        more = {"reference": "verdict-1", "now": at, "lifetime_seconds": lifetime}
        after, by, keys = (changes.get(name, ()) for name in ("after", "by", "said_with"))
        names = ("groups", "listed", "conditions", "answer", "position")
        own = {name: changes[name] for name in names if name in changes}
        consent = Consent(after, by, keys, **own)
        permit = issue_permit(signer, call, pool=pool, mode=changes.get("mode", "run"), **more, consent=consent)
        return ToolCallPermitted(tenant=call.tenant, pool=pool, call=call, permit=permit, plan=changes.get("plan"))

    def sql(self, statement: str, **values: Any) -> list[Any]:
        """Do to the database what no part of the product does; return the rows, if any."""
        engine = sa.create_engine(async_url(self.url))
        with engine.begin() as connection:
            result = connection.execute(sa.text(statement), values)
            rows = list(result) if result.returns_rows else []
        engine.dispose()
        return rows

    def execution(self, call: ToolCall) -> Any:
        """Return the stored execution of `call`, None where there is none."""
        rows = self.sql("SELECT * FROM executor.executions WHERE call_id = :id", id=call.call_id)
        return rows[0] if rows else None

    def history(self, call: ToolCall) -> list[str]:
        """Return the events of the call's history, late ones marked."""
        rows = self.sql(
            "SELECT event, detail FROM executor.history WHERE subject_id = :id ORDER BY id", id=call.call_id
        )
        return [f"{row.event} (late)" if row.detail.get("late") else row.event for row in rows]

    def pass_deadline(self, call: ToolCall) -> None:
        """Let the time of a call's tool run out, wherever it may still run."""
        self.sql(
            "UPDATE executor.executions SET begun_at = now() - interval '1 hour' WHERE call_id = :id", id=call.call_id
        )

    def end_lease(self, call: ToolCall) -> None:
        """Let the lease of a silent worker run out."""
        end = "UPDATE executor.executions SET lease_until = now() - interval '1 second' WHERE call_id = :id"
        self.sql(end, id=call.call_id)


def premises(url: str, folder: Path) -> Premises:
    """Make keys and a rulebook in `folder`."""
    made = Premises(url, folder)
    create_keys(made.keys)
    made.rulebook.write_text(RULEBOOK)
    return made


class NotingBus(InProcessBus):
    """The in-process bus, telling when a delivery is parked to come again."""

    def __init__(self) -> None:
        super().__init__()
        self.retried = asyncio.Event()

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """Park the delivery."""
        await super().retry(delivery, body, attempt=attempt)
        self.retried.set()


@dataclass
class House:
    """One running executor and what left it."""

    premises: Premises
    service: Service
    bus: NotingBus
    answers: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    #: What jobs is told of its workspaces.
    merged: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    #: Reasons of dead letters.
    dead: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def deliver(self, *messages: Message, pool: str = "default") -> None:
        """Bring each message in an envelope of its own; return when they are acknowledged."""
        for message in messages:
            await self.deliver_event(an_event(message), pool=pool)

    async def deliver_event(self, *events: Event, pool: str = "default") -> None:
        """Bring events in one envelope to the queue of a pool."""
        body, destination = an_envelope(*events), Destination("", executor_queue(pool).name)
        await self.bus.publish(destination, body, message_id=events[0].id, mandatory=True)

    async def answer(self) -> Answer:
        """Return the next answer that left; fail where none leaves."""
        async with asyncio.timeout(ANSWER_SECONDS):
            message = (await self.answers.get()).message
        assert isinstance(message, ToolCallFinished | ToolCallRefused | CallResolved)
        return message

    async def buried(self) -> str:
        """Return why the next dead letter is one; fail where none is buried."""
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self.dead.get()

    async def sweep(self, duty: str) -> int:
        """Do one round of a duty; return how much it did."""
        return await next(each for each in self.service.duties if each.name == duty).run_once() or 0

    async def sweep_all(self) -> int:
        """Do one round of every duty at once; return how much they did."""
        return sum(done or 0 for done in await asyncio.gather(*(duty.run_once() for duty in self.service.duties)))

    async def idle(self) -> None:
        """Return when no tool runs and everything that was emitted has left."""
        assert self.service.slots is not None
        await self.service.slots.drain(30)
        await self.service.runtime.outbox.drain()

    async def _catch(self, delivery: Delivery) -> None:
        for event in read_envelope(delivery.body)[0]:
            self.answers.put_nowait(event)

    async def _tell(self, delivery: Delivery) -> None:
        for event in read_envelope(delivery.body)[0]:
            self.merged.put_nowait(event)

    async def _bury(self, delivery: Delivery) -> None:
        self.dead.put_nowait(str(delivery.headers["x-placet-reason"]))

    def catch_all(self) -> None:
        """Catch what leaves."""
        results = QueueSpec("test.results", "test", (Destination("tool-results", "#"),))
        self.bus.subscribe(results, self._catch)
        jobs = QueueSpec("test.jobs", "test", (Destination("jobs", "workspace.merged"),))
        self.bus.subscribe(jobs, self._tell)
        self.bus.subscribe(queue(DEAD_LETTERS), self._bury)


@asynccontextmanager
async def open_house(
    premises: Premises, *, sweeping: bool = False, monotonic: Callable[[], float] = time.monotonic, **settings: Any
) -> AsyncIterator[House]:
    """Run an executor until the block ends; unless `sweeping`, it sweeps only when a test says so."""
    bus = NotingBus()
    chosen = premises.settings(**settings)
    service = build(chosen, runtime_on(chosen, "executor", bus), monotonic=monotonic)
    house = House(premises, service, bus)
    house.catch_all()
    service.subscribe()
    await bus.start()
    running = service if sweeping else replace(service, duties=())
    async with running.running(own_bus=False):
        yield house
    await bus.stop()

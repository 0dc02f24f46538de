"""Agents for tests: real service, real PostgreSQL, a bus inside the process, and a model that follows a script.

Everything is seen from outside: what is published in, what the model is asked, what comes out. Two agents on one
database are two replicas, each on a bus of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from pydantic import SecretStr

from placet.agent.model_answer import ModelAnswer, ProposedCall
from placet.agent.service import build, build_with
from placet.agent.settings import AgentSettings
from placet.contracts.messages import (
    ApprovalOpened,
    ConversationItems,
    Event,
    Message,
    ToolCallFinished,
    ToolCallProposed,
    ToolCallRefused,
)
from placet.contracts.messages.tool_calls import Category
from placet.contracts.topology import DEAD_LETTERS, Destination, QueueSpec, destination_of, queue
from placet.domain.catalog import Catalog, ToolSpec
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope
from placet.runtime.in_process import InProcessBus
from placet.runtime.service import runtime_on
from tests.builders import NOON, an_approval_rule, an_envelope, an_event

M = TypeVar("M", bound=Message)
Said = ModelAnswer | Exception | Callable[[], Awaitable[ModelAnswer]]

#: How long a test waits for something that must come.
PATIENCE_SECONDS = 20.0
RULEBOOK = Path(__file__).parents[2] / "deploy" / "rulebook.yaml"

_OUTGOING = QueueSpec(
    "test.capture", "test", (Destination("tool-calls", "#"), Destination("conversations", "#")), prefetch=1
)

SEARCH = ToolSpec(
    name="search",
    description="Search the shop.",
    parameters={
        "type": "object",
        "properties": {"text": {"type": "string"}, "max_price": {"type": "number"}},
        "required": ["text"],
    },
    category=Category.SAFE_SEARCH,
)
PAY = ToolSpec(
    name="pay",
    description="Make a payment link.",
    parameters={"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
    category=Category.UNSAFE_API,
)
SHOP = Catalog([SEARCH, PAY])


def says(text: str = "", *calls: tuple[str, str], ids: Sequence[str] = ()) -> ModelAnswer:
    """Return a whole answer of a model: a text, and calls as (tool, argument text)."""
    call_ids = ids or [f"call_{place}" for place in range(len(calls))]
    proposed = tuple(ProposedCall(given, *call) for given, call in zip(call_ids, calls, strict=True))
    return ModelAnswer(
        text=text,
        calls=proposed,
        finish_reason="tool_calls" if calls else "stop",
        input_tokens=3,
        output_tokens=5,
        model="scripted/model",
        raw={"role": "assistant", "content": text or None, "origin": "scripted/model"},
    )


def finished(proposed: ToolCallProposed, **changes: Any) -> ToolCallFinished:
    """Return the outcome of a call that ran."""
    fields: dict[str, Any] = {
        "tenant": proposed.tenant,
        "call_id": proposed.call.call_id,
        "conversation_id": proposed.call.conversation_id,
        "tool": proposed.call.tool,
        "kind": "succeeded",
        "data": {"ran": proposed.call.tool},
        "attempt": 1,
        "started_at": NOON,
        "finished_at": NOON,
    }
    return ToolCallFinished(**(fields | changes))


def refused(proposed: ToolCallProposed, **changes: Any) -> ToolCallRefused:
    """Return the refusal of a call that did not run."""
    fields: dict[str, Any] = {
        "tenant": proposed.tenant,
        "call_id": proposed.call.call_id,
        "conversation_id": proposed.call.conversation_id,
        "tool": proposed.call.tool,
        "kind": "denied",
        "reason": "It was not run: too dear.",
        "decided_by": "person:ada",
    }
    return ToolCallRefused(**(fields | changes))


def opened(proposed: ToolCallProposed, **rule: Any) -> ApprovalOpened:
    """Return approval's word that people are asked about a call."""
    return ApprovalOpened(
        tenant=proposed.tenant,
        approval_id=f"approval-{proposed.call.call_id[:8]}",
        revision=1,
        call=proposed.call,
        summary="Do it?",
        rule="held",
        reason="It costs money.",
        approval=an_approval_rule(**rule),
        expires_at=NOON,
    )


#: States of turns that are over.
ENDS = ("finished", "failed", "stopped")


@dataclass(frozen=True)
class LogItem:
    """One item of a conversation's log."""

    conversation_id: str
    id: int
    type: str
    data: dict[str, Any]

    @property
    def what(self) -> str:
        """Its state, status or role."""
        return str(self.data.get("state") or self.data.get("status") or self.data.get("role"))

    @property
    def end(self) -> dict[str, Any]:
        """How a turn ended, and why."""
        return {name: self.data[name] for name in ("state", "reason", "final_answer", "limit") if name in self.data}


@dataclass
class Asked:
    """One question to the model, as it was asked."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    tool_choice: str


@dataclass
class ScriptedModel:
    """Says its lines one after the other, whoever asks; a line may be a failure, or something to wait for."""

    lines: list[Said]
    asked: list[Asked] = field(default_factory=list)

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        *,
        tool_choice: str,
        on_text: Callable[[str], Awaitable[None]],
        on_reset: Callable[[], Awaitable[None]],
    ) -> ModelAnswer:
        """Say the next line."""
        del on_reset
        self.asked.append(Asked([dict(m) for m in messages], [dict(t) for t in tools], tool_choice))
        line = self.lines[len(self.asked) - 1]
        if isinstance(line, Exception):
            raise line
        answer = line if isinstance(line, ModelAnswer) else await line()
        for piece in re.findall(r"\S+\s*", answer.text):
            await on_text(piece)
        return answer


class Pause:
    """A line of a script that waits until the test lets it go on."""

    def __init__(self, answer: ModelAnswer) -> None:
        self._answer = answer
        self._reached = asyncio.Event()
        self._released = asyncio.Event()

    async def __call__(self) -> ModelAnswer:
        """Wait, then answer."""
        self._reached.set()
        await self._released.wait()
        return self._answer

    async def reached(self) -> None:
        """Return when the model has been asked."""
        await asyncio.wait_for(self._reached.wait(), PATIENCE_SECONDS)

    def release(self) -> None:
        """Let the model answer."""
        self._released.set()


class Agent:
    """One running replica, seen from outside."""

    def __init__(self, url: str, bus: InProcessBus, beside: Agent | None) -> None:
        self.url = url
        self.bus = bus
        #: What came out, of this replica and of those it runs beside.
        self.seen: list[Event] = beside.seen if beside else []
        self.dead: list[str] = []
        self._more: asyncio.Condition = beside._more if beside else asyncio.Condition()

    async def post(self, *messages: Message) -> None:
        """Send messages to the agent in one envelope; return when it has handled them."""
        await self.post_events(*(an_event(message) for message in messages))

    async def post_events(self, *events: Event) -> None:
        """Send events in one envelope."""
        destination = destination_of(events[0].message)
        body = an_envelope(*events)
        await self.bus.publish(destination, body, message_id=events[0].id, mandatory=True)

    def of(self, kind: type[M]) -> list[M]:
        """Return the messages of a type that came out so far, in their order."""
        return [event.message for event in self.seen if isinstance(event.message, kind)]

    async def until(self, enough: Callable[[], bool]) -> None:
        """Return when what came out is enough."""
        async with self._more:
            await asyncio.wait_for(self._more.wait_for(enough), PATIENCE_SECONDS)

    async def came(self, kind: type[M], number: int = 1) -> list[M]:
        """Return the first `number` messages of a type, waiting for them."""
        await self.until(lambda: len(self.of(kind)) >= number)
        return self.of(kind)[:number]

    async def ended(self, number: int = 1) -> list[LogItem]:
        """Return the first `number` ends of turns, waiting for them."""
        await self.until(lambda: len(self.items("turn", *ENDS)) >= number)
        return self.items("turn", *ENDS)[:number]

    def items(self, kind: str, *whats: str) -> list[LogItem]:
        """Return the log items of a type that came out so far, those whose state, status or role is one of `whats`."""
        found = [
            LogItem(told.conversation_id, item["id"], item["type"], item["data"])
            for told in self.of(ConversationItems)
            for item in told.items
        ]
        return [each for each in found if each.type == kind and (not whats or each.what in whats)]

    def log(self, conversation_id: str) -> list[LogItem]:
        """Return a conversation's log as it is stored."""
        found = rows(
            self.url,
            "SELECT conversation_id, seq, type, data FROM agent.log WHERE conversation_id = %s ORDER BY seq",
            conversation_id,
        )
        return [LogItem(*row) for row in found]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what the database says."""
        return rows(self.url, statement)

    async def take(self, delivery: Delivery) -> None:
        """Note what came out of the agent."""
        events, _ = read_envelope(delivery.body)
        async with self._more:
            self.seen += events
            self._more.notify_all()

    async def take_dead(self, delivery: Delivery) -> None:
        """Note the reason of a dead letter."""
        self.dead.append(str(delivery.headers["x-placet-reason"]))


@asynccontextmanager
async def an_agent(
    url: str, ask: ScriptedModel | None, *, catalog: Catalog = SHOP, beside: Agent | None = None, **settings: Any
) -> AsyncIterator[Agent]:
    """Run one replica of the agent on the database at `url`; replicas `beside` each other share what is seen.

    Without a scripted model it is wired as in production: the settings' model and the shipped rulebook.
    """
    quick: dict[str, Any] = {
        "agent_sweep_seconds": 0.02,
        "drain_seconds": 0.1,
        "database_pool_size": 4,
        "rulebook": RULEBOOK,
    }
    values = quick | settings
    own = AgentSettings(database_url=SecretStr(url), **values)
    bus = InProcessBus()
    agent = Agent(url, bus, beside)
    runtime = runtime_on(own, "agent", bus)
    service = build_with(own, runtime, ask, catalog) if ask else build(own, runtime)
    service.subscribe()
    bus.subscribe(_OUTGOING, agent.take)
    bus.subscribe(queue(DEAD_LETTERS), agent.take_dead)
    await bus.start()
    async with service.running(own_bus=False):
        yield agent
    await bus.stop()


def rows(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query, if it has any."""
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []


def wait_for_a_blocked_statement(url: str, count: int = 1) -> None:
    """Return when a statement in the database waits for a lock, or so many do; fail when they do not."""
    rows(
        url,
        f"""
        DO $$ BEGIN
          FOR round IN 1..1000 LOOP
            PERFORM pg_stat_clear_snapshot();
            IF {count} <= (
              SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            ) THEN RETURN; END IF;
            PERFORM pg_sleep(0.01);
          END LOOP;
          RAISE EXCEPTION 'nobody waits for a lock, or too few do';
        END $$
        """,  # noqa: S608 - a number
    )


def lose_leases(url: str) -> None:
    """Let every lease be over, as if its holder had died."""
    rows(url, "UPDATE agent.turns SET lease_until = now() - interval '1 second' WHERE state = 'thinking'")

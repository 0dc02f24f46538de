"""What the gateway does with each delivery: keep it in the feed, pass it on to clients, wake who waits.

The feed takes what has arrived as one batch: one transaction at a time, so that it never waits for row locks of its
own. Where a batch fails, the shared consumer shell handles its events one by one and knows what to do with a bad one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from services.gateway.announcing import announce
from services.gateway.decisions import Decisions
from services.gateway.drafts import Drafts
from services.gateway.feed import SOURCES, items_of, storable
from services.gateway.holding import escalate
from services.gateway.live import Advanced, Hub, Topic, Transient
from services.gateway.store.conversations import Opening
from services.gateway.store.feed import append
from services.gateway.trials import Trials
from shared.bus import Delivery
from shared.consumer import EVENTS, Consumer, Handler, read_delivery, read_envelope
from shared.gathering import Gathering
from shared.messages import (
    ConversationDelta,
    DecisionAnswered,
    Event,
    FeedAdvanced,
    Message,
    MessagePosted,
    RulebookTried,
    ToolCallFinished,
)
from shared.outbox import Outbox
from shared.service import Runtime
from shared.topology import queue
from shared.work import Work

log = structlog.get_logger(__name__)

#: Events that one transaction keeps at most.
EVENTS_MAX = 256
#: How the routing keys of FeedAdvanced begin.
_FEED = "feed."
#: What a client is told of a delta; the rest is for routing.
_DELTA_FIELDS = {"turn_id", "message_id", "offset", "text", "reset", "while_waiting"}


@dataclass
class FeedConsumer:
    """Keeps the envelopes of `gateway.feed`."""

    runtime: Runtime
    _alone: Consumer = field(init=False)
    _gathering: Gathering[Sequence[Event]] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare what brings envelopes together, and the shell that handles events one by one."""
        self._gathering = Gathering(self._together, size_max=EVENTS_MAX)
        keep = partial(keep_in_feed, outbox=self.runtime.outbox)
        handlers: dict[type[Message], Handler] = {
            **dict.fromkeys(SOURCES, keep),
            ToolCallFinished: partial(keep_finished, outbox=self.runtime.outbox),
        }
        name = queue("gateway.feed").name
        self._alone = Consumer(name, handlers, units=self.runtime.units, bus=self.runtime.bus)

    async def __call__(self, delivery: Delivery) -> None:
        """Keep one envelope; returning acknowledges it."""
        events, unreadable = read_delivery(delivery)
        # A handover sends messages of its own, which what is kept together does not.
        if unreadable or any(_hands_over(event.message) for event in events):
            await self._alone(delivery)
            return
        try:
            await self._gathering.join(events, size=len(events))
        except Exception as error:  # noqa: BLE001 - each event is judged alone, by its own error
            log.info("envelope.falls_back", queue=delivery.queue, events=len(events), error=type(error).__name__)
            await self._alone(delivery)
            return
        EVENTS.labels(delivery.queue, "handled").inc(len(events))

    async def _together(self, arrived: list[Sequence[Event]]) -> None:
        """Keep what has arrived in one transaction; nobody else here waits for the same conversations meanwhile."""
        events = [event for each in arrived for event in each]
        items = [item for event in events for item in items_of(event.message, event.id)]
        if not items:
            return
        async with self.runtime.database.transaction() as connection:
            stored = await append(connection, items, openings_of(event.message for event in events))
        await announce(self.runtime.outbox, stored)


async def keep_in_feed(message: Message, work: Work, outbox: Outbox) -> None:
    """Keep one message."""
    items = items_of(message, work.cause.id)
    stored = await append(work.connection, items, openings_of([message]))
    work.act(partial(announce, outbox, stored))


async def keep_finished(message: ToolCallFinished, work: Work, outbox: Outbox) -> None:
    """Keep a result; where its tool hands the conversation to people, let it wait for them, once."""
    stored = await append(work.connection, items_of(message, work.cause.id))
    work.act(partial(announce, outbox, stored))
    if stored and _hands_over(message):
        await escalate(work, outbox, message)


def _hands_over(message: Message) -> bool:
    return isinstance(message, ToolCallFinished) and message.handover is not None


def openings_of(messages: Iterable[Message]) -> list[Opening]:
    """Return what messages say about conversations that AMQP frontends began; the first message of each decides."""
    found: dict[tuple[str, str], Opening] = {}
    for message in messages:
        if isinstance(message, MessagePosted):
            opening = Opening(
                message.tenant,
                message.conversation_id,
                agent=message.agent,
                language=message.language,
                labels=storable(message.labels),
                created_by=storable(message.author.id),
            )
            found.setdefault(opening.place, opening)
    return list(found.values())


async def pass_on(delivery: Delivery, hub: Hub, drafts: Drafts) -> None:
    """Hand feed items and deltas to the clients of this instance; keep deltas for who comes while they are written."""
    if delivery.key.startswith(_FEED) and not hub.is_followed and not drafts:
        return
    events, _ = read_envelope(delivery.body)
    for event in events:
        match event.message:
            case FeedAdvanced() as message:
                drafts.kept(Topic(message.tenant, message.conversation_id), message.items)
                _pass_items(hub, message)
            case ConversationDelta() as message:
                topic, data = Topic(message.tenant, message.conversation_id), message.model_dump(include=_DELTA_FIELDS)
                drafts.write(topic, data)
                hub.tell(topic, Transient("delta", data))
            case _:
                log.debug("live.passed_over", type=event.message.type_name)


async def take_answer(delivery: Delivery, decisions: Decisions, trials: Trials) -> None:
    """Wake who waits for an answer."""
    events, _ = read_envelope(delivery.body)
    for event in events:
        match event.message:
            case DecisionAnswered() as message:
                decisions.answered(message)
            case RulebookTried() as message:
                trials.answered(message)
            case _:
                log.debug("answer.passed_over", type=event.message.type_name)


def _pass_items(hub: Hub, message: FeedAdvanced) -> None:
    hub.tell(Topic(message.tenant, message.conversation_id), Advanced(tuple(message.items)))
    for item in message.items:
        if item["type"] in {"holder", "conversation"}:
            hub.tell(Topic(message.tenant), Transient("held", {"conversation_id": message.conversation_id}))
        if item["type"] == "approval":
            changed: dict[str, Any] = {"approval_id": item["data"].get("approval_id")}
            hub.tell(Topic(message.tenant), Transient("approvals", changed))

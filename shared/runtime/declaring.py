"""Declares the topology at a broker, by FastStream: exchanges, retry queues, queues and their bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from placet.contracts.topology import (
    EXCHANGES,
    RETRY_DELAYS_SECONDS,
    QueueSpec,
    queue_arguments,
    retry_arguments,
    retry_name,
)

if TYPE_CHECKING:
    from faststream.rabbit.schemas.queue import QuorumQueueArgs

#: How long the broker may take for one thing before it counts as silent, in seconds; a slow one needs many times that.
ANSWER_SECONDS = 20.0
T = TypeVar("T")


async def in_time(asked: Awaitable[T]) -> T:
    """Return what the broker answers; raise TimeoutError where it is silent."""
    async with asyncio.timeout(ANSWER_SECONDS):
        return await asked


async def declare_topology(url: str, specs: Iterable[QueueSpec]) -> None:
    """Declare every exchange, the retry queues and `specs` with their bindings, by FastStream. Raises AMQPError."""
    # Only who declares pays for importing it.
    from faststream.rabbit import ExchangeType, QueueType, RabbitBroker, RabbitExchange, RabbitQueue  # noqa: PLC0415

    def queue(name: str, arguments: dict[str, Any]) -> RabbitQueue:
        return RabbitQueue(name, queue_type=QueueType.QUORUM, arguments=cast("QuorumQueueArgs", arguments))

    broker = RabbitBroker(url, logger=None)
    try:
        await in_time(broker.connect())
        exchanges = {
            name: await in_time(broker.declare_exchange(RabbitExchange(name, type=ExchangeType.TOPIC, durable=True)))
            for name in EXCHANGES
        }
        for delay in RETRY_DELAYS_SECONDS:
            # Topic, though one queue takes everything: only then can the broker check the key, which names the queue
            # to come back to, against the publisher's rights.
            exchange = RabbitExchange(retry_name(delay), type=ExchangeType.TOPIC, durable=True)
            made = await in_time(broker.declare_exchange(exchange))
            parked = await in_time(broker.declare_queue(queue(retry_name(delay), retry_arguments(delay))))
            await in_time(parked.bind(made, routing_key="#"))
        for spec in specs:
            declared = await in_time(broker.declare_queue(queue(spec.name, queue_arguments(spec))))
            for binding in spec.bindings:
                await in_time(declared.bind(exchanges[binding.exchange], routing_key=binding.key))
    finally:
        await broker.stop()

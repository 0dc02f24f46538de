"""Declares the topology at a broker, by FastStream: exchanges, retry queues, queues and their bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

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

#: How long declaring everything may take before it counts as failed, in seconds.
DECLARE_SECONDS = 20.0


def place_of(url: str) -> str:
    """Return as whom a broker's URL reaches which virtual host, and where, without its password."""
    parts = urlsplit(url)
    return f"{parts.username or 'guest'}@{parts.hostname}:{parts.port or 5672}{parts.path or '/'}"


async def declare_topology(url: str, specs: Iterable[QueueSpec]) -> None:
    """Declare every exchange, the retry queues and `specs` with their bindings, by FastStream. Raises AMQPError."""
    # Only who declares pays for importing it.
    from faststream.rabbit import ExchangeType, QueueType, RabbitBroker, RabbitExchange, RabbitQueue  # noqa: PLC0415

    def queue(name: str, arguments: dict[str, Any]) -> RabbitQueue:
        return RabbitQueue(name, queue_type=QueueType.QUORUM, arguments=cast("QuorumQueueArgs", arguments))

    broker = RabbitBroker(url, logger=None)
    try:
        async with asyncio.timeout(DECLARE_SECONDS):
            await broker.connect()
            exchanges = {
                name: await broker.declare_exchange(RabbitExchange(name, type=ExchangeType.TOPIC, durable=True))
                for name in EXCHANGES
            }
            for delay in RETRY_DELAYS_SECONDS:
                # Topic, though one queue takes everything: only then can the broker check the key, which names the
                # queue to come back to, against the publisher's rights.
                exchange = RabbitExchange(retry_name(delay), type=ExchangeType.TOPIC, durable=True)
                made = await broker.declare_exchange(exchange)
                parked = await broker.declare_queue(queue(retry_name(delay), retry_arguments(delay)))
                await parked.bind(made, routing_key="#")
            for spec in specs:
                declared = await broker.declare_queue(queue(spec.name, queue_arguments(spec)))
                for binding in spec.bindings:
                    await declared.bind(exchanges[binding.exchange], routing_key=binding.key)
    finally:
        await broker.stop()

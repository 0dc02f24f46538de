"""The bus on RabbitMQ, through FastStream.

Every envelope is persistent, mandatory where its route says so, and confirmed. Each subscriber has its own channel
and prefetch, so a channel error or a slow queue stays with its owner; the default channel only publishes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

import structlog
from aio_pika.exceptions import AMQPError
from aiormq.exceptions import ChannelInvalidStateError
from faststream import AckPolicy
from faststream.rabbit import (
    Channel,
    ExchangeType,
    QueueType,
    RabbitBroker,
    RabbitExchange,
    RabbitMessage,
    RabbitQueue,
)

from shared.bus import ATTEMPT_HEADER, Delivery, OnDelivery, PublishFailed
from shared.topology import (
    DEAD_LETTERS,
    EXCHANGES,
    QUEUES,
    RETRY_DELAYS_SECONDS,
    Destination,
    QueueSpec,
    queue_arguments,
    retry_arguments,
    retry_delay,
    retry_name,
)

if TYPE_CHECKING:
    from faststream.rabbit.schemas.queue import QuorumQueueArgs

log = structlog.get_logger(__name__)

#: How long a confirm may take before the publish counts as unknown, in seconds.
CONFIRM_SECONDS = 10.0
#: Pause before a delivery that failed unexpectedly goes back to its queue, in seconds.
GIVE_BACK_SECONDS = 1.0
#: How long readiness may take to be told, in seconds.
READY_SECONDS = 2.0
_ERRORS = (AMQPError, ChannelInvalidStateError, ConnectionError, TimeoutError, RuntimeError, OSError)
_CONTENT_TYPE = "application/cloudevents-batch+json"


class RabbitBus:
    """Carries envelopes over RabbitMQ."""

    outstanding_max = 2

    def __init__(self, url: str, *, service: str, declare: bool, graceful_seconds: float = 20.0) -> None:
        self._declare = declare
        self._service = service
        self._subscribers: list[Any] = []
        self._broker = RabbitBroker(
            url,
            app_id=f"placet-{service}",
            default_channel=Channel(on_return_raises=True),
            fail_fast=False,
            graceful_timeout=graceful_seconds,
            logger=None,
            # Handlers take whole messages: FastStream need neither parse bodies nor resolve arguments (in a thread).
            apply_types=False,
            decoder=_same,
        )
        self._exchanges = {name: _exchange(name, declare=declare) for name in EXCHANGES}
        self._exchanges[""] = RabbitExchange()  # AMQP's default exchange: the key is a queue's name
        self._retries = {delay: _retry_exchange(delay, declare=declare) for delay in RETRY_DELAYS_SECONDS}
        self._specs: list[QueueSpec] = []
        self._private: list[tuple[RabbitQueue, tuple[Destination, ...]]] = []

    def subscribe(self, spec: QueueSpec, on_delivery: OnDelivery) -> None:
        """Consume `spec`; it is declared with its bindings at start."""
        self._specs.append(spec)
        self._consume(_queue(spec, declare=self._declare), spec.name, spec.prefetch, on_delivery)

    def listen(self, name: str, destinations: tuple[Destination, ...], on_delivery: OnDelivery) -> None:
        """Consume a private queue that goes when this connection goes."""
        queue = RabbitQueue(name, queue_type=QueueType.CLASSIC, durable=False, exclusive=True, auto_delete=True)
        self._private.append((queue, destinations))
        self._consume(queue, name, 64, on_delivery)

    def _consume(self, queue: RabbitQueue, name: str, prefetch: int, on_delivery: OnDelivery) -> None:
        subscriber = self._broker.subscriber(
            queue, channel=Channel(prefetch_count=prefetch), ack_policy=AckPolicy.MANUAL, no_reply=True
        )

        async def deliver(message: RabbitMessage) -> None:
            raw = message.raw_message
            delivery = Delivery(name, bytes(raw.body), raw.headers, raw.routing_key or "")
            try:
                await on_delivery(delivery)
            except Exception:
                log.exception("delivery.given_back", queue=name)
                await asyncio.sleep(GIVE_BACK_SECONDS)
                await _settle(message.nack)
            else:
                await _settle(message.ack)

        subscriber(deliver)
        self._subscribers.append(subscriber)

    async def publish(
        self,
        destination: Destination,
        body: bytes,
        *,
        message_id: str,
        mandatory: bool,
        persistent: bool = True,
    ) -> None:
        """Send one envelope and wait for its confirm."""
        await self._send(
            body,
            self._exchanges[destination.exchange],
            destination.key,
            message_id=message_id,
            mandatory=mandatory,
            persist=persistent,
        )

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """Park `body` in the retry queue of its delay; it comes back to the delivery's queue by itself."""
        exchange = self._retries[retry_delay(attempt)]
        await self._send(body, exchange, delivery.queue, headers={ATTEMPT_HEADER: attempt})

    async def dead_letter(self, delivery: Delivery, body: bytes, *, reason: str, message_id: str) -> None:
        """Put `body` among the dead letters."""
        headers = {
            "x-placet-reason": reason,
            "x-placet-message-id": message_id,
        }
        await self._send(body, self._exchanges[DEAD_LETTERS], delivery.queue, headers=headers)

    async def _send(self, body: bytes, exchange: RabbitExchange, key: str, **options: Any) -> None:
        options = {"mandatory": True, "persist": True, **options}
        try:
            async with asyncio.timeout(CONFIRM_SECONDS):
                await self._broker.publish(
                    body, exchange=exchange, routing_key=key, content_type=_CONTENT_TYPE, **options
                )
        except _ERRORS as error:
            raise PublishFailed(f"{exchange.name}/{key}: {type(error).__name__} {error}") from error

    async def start(self) -> None:
        """Connect, waiting as long as it takes, declare the topology where that is ours to do, and consume."""
        await self._connect()
        if self._declare:
            await self._declare_all()
        await self._broker.start()
        for queue, destinations in self._private:
            declared = await self._broker.declare_queue(queue)
            for destination in destinations:
                await declared.bind(destination.exchange, routing_key=destination.key)

    async def _connect(self) -> None:
        pause = 0.5
        while True:
            try:
                await self._broker.connect()
            except _ERRORS as error:
                log.warning("broker.waiting", error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)
            else:
                return

    async def _declare_all(self) -> None:
        exchanges = {name: await self._broker.declare_exchange(ex) for name, ex in self._exchanges.items() if name}
        for delay, retry in self._retries.items():
            exchange = await self._broker.declare_exchange(retry)
            parked = await self._broker.declare_queue(_retry_queue(delay))
            await parked.bind(exchange, routing_key="#")
        for spec in {spec.name: spec for spec in (*QUEUES, *self._specs)}.values():
            declared = await self._broker.declare_queue(_queue(spec, declare=True))
            for binding in spec.bindings:
                await declared.bind(exchanges[binding.exchange], routing_key=binding.key)

    async def stop_consuming(self) -> None:
        """Cancel every consumer; what was delivered ahead goes back to its queue."""
        await asyncio.gather(*(subscriber.stop() for subscriber in self._subscribers))

    async def stop(self) -> None:
        """Stop consuming, wait for running deliveries, disconnect."""
        await self._broker.stop()

    async def connected(self) -> bool:
        """Tell whether the connection is open."""
        return await self._broker.ping(timeout=READY_SECONDS)

    async def ready(self) -> bool:
        """Tell whether the connection is open and every consumer runs."""
        if not await self.connected():
            return False
        try:
            async with asyncio.timeout(READY_SECONDS):
                return all([await _consumes(subscriber) for subscriber in self._subscribers])
        except _ERRORS:
            return False


async def _consumes(subscriber: Any) -> bool:
    """Tell whether a subscriber consumes, by what the broker has told so far: asking costs no round trip.

    The broker cancels a consumer whose queue goes, and the connection stays open.
    """
    queue, tag = subscriber._queue_obj, subscriber._consumer_tag  # noqa: SLF001 - no public name for either
    if queue is None or tag is None:
        return False
    channel = await queue.channel.get_underlay_channel()
    return not channel.is_closed and tag in channel.consumers


async def _same(message: Any) -> Any:
    """Hand a message over as it came: envelopes are read by the consumer shell."""
    return message


async def _settle(settle: Callable[[], Awaitable[None]]) -> None:
    """Acknowledge or give back; where the channel is gone the broker redelivers and the inbox knows."""
    try:
        await settle()
    except _ERRORS as error:
        log.info("delivery.settle_failed", error=type(error).__name__)


def _exchange(name: str, *, declare: bool) -> RabbitExchange:
    return RabbitExchange(name, type=ExchangeType.TOPIC, durable=True, declare=declare)


def _retry_exchange(delay: int, *, declare: bool) -> RabbitExchange:
    # Topic, though one queue takes everything: only then can the broker check the key, which names the queue to
    # come back to, against the publisher's rights.
    return RabbitExchange(retry_name(delay), type=ExchangeType.TOPIC, durable=True, declare=declare)


def _queue(spec: QueueSpec, *, declare: bool) -> RabbitQueue:
    arguments = cast("QuorumQueueArgs", queue_arguments(spec))
    return RabbitQueue(spec.name, queue_type=QueueType.QUORUM, declare=declare, arguments=arguments)


def _retry_queue(delay: int) -> RabbitQueue:
    arguments = cast("QuorumQueueArgs", retry_arguments(delay))
    return RabbitQueue(retry_name(delay), queue_type=QueueType.QUORUM, arguments=arguments)

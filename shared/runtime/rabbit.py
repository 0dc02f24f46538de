"""The bus on RabbitMQ.

FastStream declares the topology, where that is ours to do (see `declaring`); messages go through aiormq's channels (see
ADR 0033). Every envelope is persistent, mandatory where its route says so, and confirmed. Each consumer has a channel
of its own with its prefetch, and publishing has another one, so a channel error or a slow queue stays with its owner.
What goes to an exchange that took nothing has a third one, until that takes something again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import aiormq
import structlog
from aiormq.abc import AbstractBase, AbstractConnection, DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import AMQPError, ChannelClosed, ChannelPreconditionFailed, DeliveryError

from placet.contracts.ids import new_id
from placet.contracts.topology import DEAD_LETTERS, QUEUES, Destination, QueueSpec, retry_delay, retry_name
from placet.runtime.bus import (
    ATTEMPT_HEADER,
    BusStopped,
    Delivery,
    OnDelivery,
    PublishBlocked,
    PublishFailed,
    PublishRefused,
    PublishReturned,
)
from placet.runtime.declaring import declare_topology, in_time
from placet.runtime.driver import Outage
from placet.runtime.outages import Outages
from placet.runtime.urls import redacted_url

log = structlog.get_logger(__name__)

#: How long connecting and confirms may take before they count as failed, in seconds.
CONFIRM_SECONDS = 10.0
#: How long closing a channel may take, in seconds.
CLOSE_SECONDS = 2.0
#: How often a bus looks whether its consumers consume, in seconds.
LOOK_SECONDS = 2.0
#: Pause before a delivery that failed unexpectedly goes back to its queue, or is tried again, in seconds.
GIVE_BACK_SECONDS = 1.0
#: First and longest pause between two tries to reach the broker, in seconds.
PAUSES_SECONDS = (0.25, 5.0)
#: Bodies longer than this, in bytes, are published one by one on a channel of their own, which the broker may close
#: because of them: what it allows is a setting of its operator, 16 MiB where nothing is said.
LARGE_BYTES = 128 * 1024
_CONTENT_TOO_LARGE = 311
#: What aiormq raises; StopAsyncIteration, where a broker hangs up while it is greeted.
_ERRORS = (AMQPError, ConnectionError, TimeoutError, RuntimeError, OSError, StopAsyncIteration)
#: aiormq cancels what waits for an answer of a connection that ends.
_FAILURES = (*_ERRORS, asyncio.CancelledError)


@dataclass
class _Consumer:
    """One queue that is consumed."""

    name: str
    prefetch: int
    on_delivery: OnDelivery
    #: What a private queue is bound to; None for a queue of the topology.
    private: tuple[Destination, ...] | None = None
    channel: Channel | None = None
    running: set[asyncio.Task[Any] | None] = field(default_factory=set)

    @property
    def runs(self) -> bool:
        """Whether it consumes, as far as this process can see: the broker cancels one whose queue goes."""
        return self.channel is not None and not self.channel.is_closed and self.name in self.channel.consumers

    async def open(self, connection: AbstractConnection) -> Channel:
        """Consume on a channel of its own, and return it; leave none open on which nothing is consumed."""
        await _close(self.channel)
        channel = cast("Channel", await connection.channel(publisher_confirms=False))
        try:
            if self.private is not None:
                await channel.queue_declare(self.name, exclusive=True, auto_delete=True)
                for place in self.private:
                    await channel.queue_bind(self.name, place.exchange, place.key)
            await channel.basic_qos(prefetch_count=self.prefetch)
            await channel.basic_consume(self.name, self._deliver, consumer_tag=self.name)
        except BaseException:
            await _close(channel)
            raise
        self.channel = channel
        return channel

    async def _deliver(self, message: DeliveredMessage) -> None:
        """Handle one delivery in aiormq's task for it, then settle it without waiting for the socket."""
        task, tag = asyncio.current_task(), cast("int", message.delivery_tag)
        self.running.add(task)
        headers = message.header.properties.headers or {}
        try:
            try:
                await self._past_outages(Delivery(self.name, message.body, headers, message.routing_key or ""))
            except Exception:
                log.exception("delivery.given_back", queue=self.name)
                await asyncio.sleep(GIVE_BACK_SECONDS)
                await message.channel.basic_nack(tag, wait=False)
            else:
                await message.channel.basic_ack(tag, wait=False)
        except _ERRORS as error:
            # The channel is gone: the broker redelivers and the inbox knows.
            log.info("delivery.settle_failed", error=type(error).__name__)
        finally:
            self.running.discard(task)

    async def _past_outages(self, delivery: Delivery) -> None:
        """Handle one delivery, again and again while the database is away.

        Given back it would come again at once, and be a dead letter when it has come as often as the broker allows.
        """
        while True:
            try:
                return await self.on_delivery(delivery)
            except Outage as error:
                log.debug("delivery.waiting", queue=self.name, error=type(error).__name__)
            await asyncio.sleep(GIVE_BACK_SECONDS)

    async def close(self, seconds: float) -> None:
        """Take nothing more and wait for running deliveries; what was delivered ahead goes back to its queue."""
        if self.runs and self.channel is not None:
            with suppress(*_ERRORS):
                await self.channel.basic_cancel(self.name, timeout=CONFIRM_SECONDS)
        if running := [task for task in self.running if task is not None]:
            await asyncio.wait(running, timeout=seconds)


class RabbitBus:
    """Carries envelopes over RabbitMQ."""

    outstanding_max = 2
    keeps = True

    def __init__(self, url: str, *, service: str, declare: bool, graceful_seconds: float = 20.0) -> None:
        self._url, self._service, self._declare = url, service, declare
        self._graceful_seconds = graceful_seconds
        self._consumers: list[_Consumer] = []
        self._specs: list[QueueSpec] = []
        self._connection: AbstractConnection | None = None
        #: For ordinary bodies, and for those that the broker may refuse, one at a time.
        self._publishers: dict[bool, Channel] = {}
        #: Exchanges that took nothing: what goes there would close the channel of all others.
        self._blocked: set[str] = set()
        self._opening, self._carefully = asyncio.Lock(), asyncio.Lock()
        self._broken = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._consuming, self._stopped = True, False
        self._outages = Outages("broker.away", "broker.back", {"broker": redacted_url(url)})

    def subscribe(self, spec: QueueSpec, on_delivery: OnDelivery) -> None:
        """Consume `spec`; it is declared with its bindings at start."""
        self._specs.append(spec)
        self._consumers.append(_Consumer(spec.name, spec.prefetch, on_delivery))

    def listen(self, name: str, destinations: tuple[Destination, ...], on_delivery: OnDelivery) -> None:
        """Consume a private queue that goes when this connection goes."""
        self._consumers.append(_Consumer(name, 64, on_delivery, destinations))

    async def publish(
        self, destination: Destination, body: bytes, *, message_id: str, mandatory: bool, persistent: bool = True
    ) -> None:
        """Send one envelope and wait for its confirm."""
        await self._send(destination, body, message_id, mandatory=mandatory, persistent=persistent)

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """Park `body` in the retry queue of its delay; it comes back to the delivery's queue by itself."""
        place = Destination(retry_name(retry_delay(attempt)), delivery.queue)
        await self._send(place, body, new_id(), {ATTEMPT_HEADER: attempt})

    async def dead_letter(self, delivery: Delivery, body: bytes, *, reason: str, message_id: str) -> None:
        """Put `body` among the dead letters."""
        headers = {"x-placet-reason": reason, "x-placet-message-id": message_id}
        await self._send(Destination(DEAD_LETTERS, delivery.queue), body, new_id(), headers)

    async def _send(
        self,
        place: Destination,
        body: bytes,
        message_id: str,
        headers: dict[str, Any] | None = None,
        *,
        mandatory: bool = True,
        persistent: bool = True,
    ) -> None:
        async def publish(*, careful: bool) -> None:
            channel = await self._publisher(careful=careful)
            properties = aiormq.spec.Basic.Properties(
                content_type="application/cloudevents-batch+json",
                delivery_mode=2 if persistent else 1,
                message_id=message_id,
                headers=headers,
            )
            await channel.basic_publish(
                body,
                exchange=place.exchange,
                routing_key=place.key,
                properties=properties,
                mandatory=mandatory,
                timeout=CONFIRM_SECONDS,
                wait=False,
            )

        try:
            if len(body) <= LARGE_BYTES and place.exchange not in self._blocked:
                try:
                    await publish(careful=False)
                except ChannelClosed:
                    # One of those on the channel was refused, and all of them went with it.
                    pass
                else:
                    return
            async with self._carefully:
                await publish(careful=True)
            self._blocked.discard(place.exchange)
        except _FAILURES as error:
            _leave_if_told(error)
            failed = BusStopped if self._stopped else _failure(error)
            if failed is PublishBlocked:
                self._blocked.add(place.exchange)
            raise failed(f"{place.exchange}/{place.key}: {type(error).__name__} {error}") from error

    async def _publisher(self, *, careful: bool) -> Channel:
        channel = self._publishers.get(careful)
        if channel is not None and not _closes(channel):
            return channel
        async with self._opening:
            channel = self._publishers.get(careful)
            if channel is None or _closes(channel):
                if self._connection is None or not self._connection.is_opened:
                    raise ConnectionError("there is no connection to the broker")
                channel = cast("Channel", await self._connection.channel(timeout=CONFIRM_SECONDS))
                self._publishers[careful] = channel
            return channel

    async def start(self) -> None:
        """Connect, waiting as long as it takes, declare the topology where that is ours to do, and consume."""
        if self._declare:
            specs = {spec.name: spec for spec in (*QUEUES, *self._specs)}.values()
            # First: FastStream leaves a connection behind, and a warning, where there is no broker.
            await _patiently(self._connect, self._outages)
            await _patiently(partial(declare_topology, self._url, specs), self._outages)
        await _patiently(self._open, self._outages)
        self._keeper = asyncio.create_task(self._keep_open())

    async def _keep_open(self) -> None:
        """Open again what was closed, as long as the bus runs.

        Nobody is told of a consumer that the broker cancelled, because its queue went or changed its leader.
        """
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._broken.wait(), LOOK_SECONDS)
            self._broken.clear()
            if self._consuming and not await self.ready():
                try:
                    await _patiently(self._open, self._outages)
                except Exception:
                    # Whatever it is: a service without a broker must not stay that way.
                    log.exception("broker.open_failed")
                    await asyncio.sleep(LOOK_SECONDS)

    async def _open(self) -> None:
        """Open what is not: the connection, and the channel of each consumer."""
        connection = await self._connect()
        for consumer in self._consumers if self._consuming else ():
            if not consumer.runs:
                channel = await in_time(consumer.open(connection))
                channel.closing.add_done_callback(self._note_closed)

    async def _connect(self) -> AbstractConnection:
        """Connect where it is not; leave what was open on the connection before, which may never tell of its end."""
        if self._connection is not None and self._connection.is_opened:
            return self._connection
        await _close(self._connection)
        self._publishers.clear()
        for consumer in self._consumers:
            consumer.channel = None
        name = {"connection_name": f"placet-{self._service}"}
        self._connection = made = await in_time(aiormq.connect(self._url, client_properties=cast("Any", name)))
        made.closing.add_done_callback(self._note_lost)
        return made

    def _note_lost(self, closing: asyncio.Future[Any]) -> None:
        if not self._stopped:
            error = None if closing.cancelled() else closing.exception()
            self._outages.miss(error=_told(error) if error else "the connection was lost")
        self._note_closed(closing)

    def _note_closed(self, closing: asyncio.Future[Any]) -> None:
        if not closing.cancelled():
            closing.exception()
        self._broken.set()

    async def stop_consuming(self) -> None:
        """Cancel every consumer; what was delivered ahead goes back to its queue."""
        self._consuming = False
        await asyncio.gather(*(consumer.close(self._graceful_seconds) for consumer in self._consumers))

    async def stop(self) -> None:
        """Stop consuming, wait for running deliveries unless that was done, disconnect."""
        if self._consuming:
            await self.stop_consuming()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
        self._stopped = True
        await _close(self._connection)

    async def connected(self) -> bool:
        """Tell whether the connection is open."""
        return self._connection is not None and self._connection.is_opened

    async def depth(self, name: str) -> int | None:
        """Ask the broker, on a channel of its own: a queue that is not there costs the channel."""
        if self._connection is None:
            return None
        with suppress(*_ERRORS):
            channel = await self._connection.channel(publisher_confirms=False, timeout=CONFIRM_SECONDS)
            declared = await channel.queue_declare(name, passive=True, timeout=CONFIRM_SECONDS)
            await channel.close()
            return declared.message_count
        return None

    async def ready(self) -> bool:
        """Tell whether the connection is open and every consumer runs."""
        return await self.connected() and all(consumer.runs for consumer in self._consumers)


def _is_refusal(error: BaseException) -> bool:
    """Tell whether the broker closed a channel because it will not have a message."""
    return isinstance(error, ChannelPreconditionFailed) or (
        isinstance(error, ChannelClosed) and error.args[:1] == (_CONTENT_TOO_LARGE,)
    )


def _closes(channel: Channel) -> bool:
    """Tell whether a channel is closed, or the broker has said that it closes it.

    aiormq says so a moment later, and what is published then ends the connection.
    """
    return channel.is_closed or getattr(channel, "_close_exception", None) is not None


def _failure(error: BaseException) -> type[PublishFailed]:
    """Return what a failure means for what was published."""
    if _is_refusal(error):
        return PublishRefused
    if isinstance(error, DeliveryError):
        return PublishReturned
    return PublishBlocked if isinstance(error, ChannelClosed) else PublishFailed


async def _close(opened: AbstractBase | None) -> None:
    """Close a channel or connection that may be closed already, or whose broker may be gone."""
    if opened is not None and not opened.is_closed:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await opened.close()
        except _FAILURES as error:
            _leave_if_told(error)


def _leave_if_told(error: BaseException) -> None:
    """Raise a cancellation that this task was told; one of something that it waited for is a failure like others."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
        raise error


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error) or 'no answer in time'}"


async def _patiently(reach: Callable[[], Awaitable[object]], outages: Outages) -> None:
    """Do what needs the broker, again and again while it is away or says no, which the log says once."""
    pause, longest = PAUSES_SECONDS
    while True:
        try:
            await reach()
        except _FAILURES as error:
            _leave_if_told(error)
            refused = "; is the virtual host there, for this user?" if "Connection.Close" in str(error) else ""
            outages.miss(error=f"{_told(error)}{refused}")
        else:
            outages.meet()
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2, longest)

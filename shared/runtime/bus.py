"""The port between Placet and whatever carries its envelopes.

Two implementations: `rabbit` (RabbitMQ) and `in_process` (the embedded footing). Both promise the same:
`publish` returns only when every bound queue has the envelope safely, a delivery comes at least once, and what is
neither acknowledged nor given back when the process dies comes again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from placet.contracts.errors import PlacetError
from placet.contracts.topology import Destination, QueueSpec

#: Header that counts how often an event has been retried.
ATTEMPT_HEADER = "x-placet-attempt"


class PublishFailed(PlacetError):
    """The envelope may or may not have arrived: send it again with the same ids."""


class PublishRefused(PublishFailed):
    """The carrier will never take this body: it is too large."""


class BusStopped(PublishFailed):
    """It failed because this process stops in order: nothing is away, and what is stored is sent by whoever runs on."""


class PublishBlocked(PublishFailed):
    """The carrier is there and its exchange takes nothing now: there is no such exchange, or no right to it."""


class PublishReturned(PublishFailed):
    """The exchange is there, and no queue took what goes by this key now: none is bound to it, or it takes no more."""


class PublishPutOff(PublishFailed):
    """Whoever reads it, in this process, has no room for it now: nothing is away, and what is stored comes again."""


class ComesAgain(PlacetError):
    """A delivery that is kept elsewhere could not be handled yet; whoever keeps it brings it again."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One envelope as it came from a queue."""

    queue: str
    body: bytes
    headers: Mapping[str, object] = field(default_factory=dict)
    #: Routing key it was published with, as the broker saw it.
    key: str = ""
    #: Whether it is kept elsewhere until it was handled, and so is never given to the bus to come again.
    kept: bool = False

    @property
    def attempt(self) -> int:
        """How often this envelope was retried before; 0 for the first delivery."""
        value = self.headers.get(ATTEMPT_HEADER, 0)
        return value if isinstance(value, int) else 0


#: Returning acknowledges; raising gives the delivery back to its queue.
OnDelivery = Callable[[Delivery], Awaitable[None]]


class Bus(Protocol):
    """Carries envelopes."""

    #: Envelopes of one destination that may await their confirm at the same time; more events gather behind them.
    outstanding_max: int
    #: Whether what is confirmed is kept by the carrier; else its readers have handled it, which takes longer.
    keeps: bool

    async def publish(
        self,
        destination: Destination,
        body: bytes,
        *,
        message_id: str,
        mandatory: bool,
        persistent: bool = True,
    ) -> None:
        """Send one envelope; raise PublishFailed unless it is confirmed, PublishRefused where it never will be."""

    async def retry(self, delivery: Delivery, body: bytes, *, attempt: int) -> None:
        """Bring `body` back to the delivery's queue after the attempt's delay, safely stored meanwhile."""

    async def dead_letter(self, delivery: Delivery, body: bytes, *, reason: str, message_id: str) -> None:
        """Put `body` among the dead letters with its reason; raise PublishFailed unless it is safe there."""

    def subscribe(self, spec: QueueSpec, on_delivery: OnDelivery) -> None:
        """Consume `spec` from `start` on."""

    def listen(self, name: str, destinations: tuple[Destination, ...], on_delivery: OnDelivery) -> None:
        """Consume transient envelopes on a private queue that lives as long as this process."""

    async def start(self) -> None:
        """Connect and begin to consume."""

    async def stop_consuming(self) -> None:
        """Take no more deliveries and wait a while for the running ones; publishing goes on."""

    async def stop(self) -> None:
        """Stop consuming, then disconnect."""

    async def connected(self) -> bool:
        """Tell whether envelopes can be published now."""

    async def depth(self, name: str) -> int | None:
        """Return how many envelopes wait in a queue; None where that cannot be told now."""

    async def ready(self) -> bool:
        """Tell whether the bus is connected and every consumer runs, as far as this process can see."""

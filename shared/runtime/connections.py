"""Bounds of what strangers hold of a server: so many connections, bytes, and so much time for what they owe it.

A connection that is answered owes nothing: event streams and long polls last as long as they like. Bytes count until it
is known who sent them.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

import h11
import prometheus_client
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Longer than clients keep an idle connection: it must not close under a request on its way.
IDLE_SECONDS = 75
#: Descriptors that stay for database, broker and files: a quarter, and no more than this.
KEPT_MAX = 1_024
#: Where the system names no limit of descriptors.
DESCRIPTORS_MAX = 65_536
#: Bytes that count for nothing: an ordinary request that is on its way or was answered has fewer.
FEW_BYTES = 4_096
#: Bytes of a probe's requests that are not answered yet.
PROBE_BYTES = 8_192

ENDED = prometheus_client.Counter(
    "placet_connections_ended_total", "Connections that a bound has ended: all, address, time, bytes.", ["bound"]
)


@dataclass(frozen=True)
class Bounds:
    """What one server lets strangers hold."""

    in_all: int
    by_address: int
    #: For a whole request, and for any progress with its answer.
    seconds: float
    #: Bytes of requests of which nobody knows who sent them.
    bytes_in_all: int = 256 * 2**20
    bytes_by_address: int = 64 * 2**20


class Held:
    """How many bytes connections hold of us, in the order in which they began to."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sizes: OrderedDict[Bounded, int] = OrderedDict()
        self._total = 0

    def put(self, connection: Bounded, size: int) -> None:
        """Note how many bytes a connection holds now."""
        before = self._sizes.get(connection, 0)
        self._total += size - before
        if size:
            self._sizes[connection] = size
        elif before:
            del self._sizes[connection]

    @property
    def oldest_beyond(self) -> Bounded | None:
        """Which connection has held some for longest, where all hold too many: who is known soon holds none."""
        return next(iter(self._sizes)) if self._total > self._bytes_max else None

    def __bool__(self) -> bool:
        """Tell whether anybody holds any."""
        return bool(self._sizes)


class Door:
    """Counts who is inside; `trusted` proxies speak for many, and are counted among all alone."""

    def __init__(self, bounds: Bounds, trusted: Sequence[str] = ()) -> None:
        self.bounds = bounds
        self._trusted = ProxyHeadersMiddleware(_nobody, ",".join(trusted)).trusted_hosts
        self._inside = 0
        self._inside_of: Counter[str] = Counter()
        self._held = Held(bounds.bytes_in_all)
        self._held_of: dict[str, Held] = {}

    def let_in(self, address: str) -> str | None:
        """Return as whom a connection from `address` is counted; None, and it is not, where that is one too many."""
        if self._inside >= self.bounds.in_all:
            ENDED.labels("all").inc()
            return None
        whom = "" if address in self._trusted else whoever_has(address)
        if whom and self._inside_of[whom] >= self.bounds.by_address:
            ENDED.labels("address").inc()
            return None
        self._inside += 1
        self._inside_of[whom] += 1
        return whom

    def let_out(self, whom: str) -> None:
        """Count a connection no more that was let in."""
        self._inside -= 1
        self._inside_of[whom] -= 1
        if not self._inside_of[whom]:
            del self._inside_of[whom]

    def hold(self, connection: Bounded, whom: str, size: int) -> None:
        """Note how many bytes a connection holds; where these are too many, end those that have held some for longest.

        Whoever is known is so within moments, so those are strangers that take their time.
        """
        shares = [self._held, *([self._held_of.setdefault(whom, Held(self.bounds.bytes_by_address))] if whom else [])]
        for share in shares:
            share.put(connection, size)
        for share in shares:
            while (oldest := share.oldest_beyond) is not None:
                oldest.end("bytes")
        if whom and not self._held_of.get(whom):
            self._held_of.pop(whom, None)


class Bounded(asyncio.Protocol):
    """The part of a connection that keeps the bounds; the other part is uvicorn's, whose attributes these are."""

    client: tuple[str, int] | None
    cycle: Any
    flow: FlowControl
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    def __init__(self, *given: Any, door: Door, **named: Any) -> None:
        super().__init__(*given, **named)
        self._door = door
        self._whom: str | None = None
        self._held = 0
        self._ended = False
        self._owed: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let it in, or end it without a word."""
        super().connection_made(transport)
        self._whom = self._door.let_in(self.client[0] if self.client else "")
        if self._whom is None:
            self.transport.abort()
            return
        self._await_request(self._door.bounds.seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let it out."""
        super().connection_lost(exc)
        self.hold(0)
        if self._whom is not None:
            self._door.let_out(self._whom)
            self._whom = None
        self._stop_waiting()
        self._hear_taking()
        # uvicorn's own timer, which would keep all of it for as long as an idle connection.
        self._unset_keepalive_if_required()  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Read some bytes; they give no more time, unless the request is whole."""
        super().data_received(data)
        if self._answering():
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Await the next request; what is left of this one has no more time than before."""
        super().on_response_complete()  # type: ignore[misc]  # uvicorn's
        if self._owed is not None or self._answering():
            return
        if self.cycle.response_complete:
            self._await_next()
        else:
            # The next one has begun behind it.
            self._await_request(self._door.bounds.seconds)

    def pause_writing(self) -> None:
        """Await that the client takes what it was answered."""
        super().pause_writing()
        self._await_taking()

    def resume_writing(self) -> None:
        """Wait no more: it does."""
        super().resume_writing()
        self._hear_taking()

    def hold(self, size: int) -> None:
        """Hold so many bytes of a sender who is not known."""
        size = size if size > FEW_BYTES and not self._ended else 0
        if size != self._held and self._whom is not None:
            self._held = size
            self._door.hold(self, self._whom, size)

    def end(self, bound: str) -> None:
        """End it because of a bound; closing would wait until all was taken."""
        ENDED.labels(bound).inc()
        self._ended = True
        self.transport.abort()
        self.hold(0)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _await_next(self) -> None:
        self._stop_waiting()
        self._await_request(IDLE_SECONDS + self._door.bounds.seconds)

    def _await_request(self, seconds: float) -> None:
        if self._whom is None:
            # It has gone before its answer was made.
            return
        left = self.transport.get_write_buffer_size()
        self._owed = self.loop.call_later(seconds, self._late, left)

    def _stop_waiting(self) -> None:
        if self._owed is not None:
            self._owed.cancel()
            self._owed = None

    def _late(self, left: int) -> None:
        if self.flow.read_paused or self.transport.get_write_buffer_size() < left:
            # It is we who do not read on yet, or it still takes a long answer.
            self._await_request(self._door.bounds.seconds)
        else:
            self.end("time")

    def _await_taking(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stuck = self.loop.call_later(self._door.bounds.seconds, self._untaken, left)

    def _hear_taking(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _untaken(self, left: int) -> None:
        if self.transport.get_write_buffer_size() < left:
            self._await_taking()
        else:
            self.end("time")


class WithoutBodies(h11.Connection):
    """Reads requests of which none may have a body."""

    def next_event(self) -> Any:
        """Return what was read; raise RemoteProtocolError where a request says that a body follows."""
        event = super().next_event()
        if isinstance(event, h11.Request) and any(map(_announces_body, event.headers)):
            raise h11.RemoteProtocolError("no body is taken here", error_status_hint=413)
        return event


class BoundedH11(Bounded, H11Protocol):
    """A connection of a probe, which sends few bytes and no body: the parser is dear, and takes any number of chunks.

    Whoever sends more is refused, and nothing is read of it.
    """

    #: Bytes since the last answer.
    _unanswered = 0

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn = WithoutBodies(h11.SERVER, PROBE_BYTES)

    def data_received(self, data: bytes) -> None:
        """Read some bytes, unless they are too many."""
        self._unanswered += len(data)
        if self._unanswered > PROBE_BYTES:
            self.end("bytes")
            return
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Count what stands behind the request, and is read now."""
        self._unanswered = len(self.conn.trailing_data[0])
        super().on_response_complete()


def that_fit(bounds: Bounds, *, descriptors: int) -> Bounds:
    """Return the bounds as far as there are descriptors; no address may have more than half of what fits."""
    fit = min(bounds.in_all, descriptors - kept(descriptors))
    return replace(bounds, in_all=fit, by_address=min(bounds.by_address, max(fit // 2, 1)))


def kept(descriptors: int) -> int:
    """Return how many descriptors stay for what is no connection of a stranger."""
    return min(descriptors // 4, KEPT_MAX)


def raise_limit() -> int:
    """Let this process have as many descriptors as it may; return how many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def _announces_body(header: tuple[bytes, bytes]) -> bool:
    name, value = header
    return name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0") != b"")


def whoever_has(address: str) -> str:
    """Return who is counted for an address: whoever has one of IPv6 has the whole /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or ip_network((int(parsed), 64), strict=False))


async def _nobody(*_: Any) -> None:
    """Stand where an app would: only who is trusted is asked here."""

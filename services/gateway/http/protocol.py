"""HTTP/1.1 as the gateway reads it from strangers: with bounds to what stands before and behind a body.

The parser has none: it gathers a head of any length, in a callback of the connection where no task could be ended. What
is held of a request counts for its connection until it is known who sent it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, MutableMapping
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from placet.runtime.connections import FEW_BYTES, Bounded

#: Bytes of a request's line, headers and trailers, and of anything that the parser gathers without a word.
HEAD_MAX = 65_536
#: What a header weighs beside its bytes: what is made of it takes more room and time than a few of these.
HEADER_WEIGHT = 64
#: Bytes of a target. Every filter of the inbox at once needs so many, where each letter of theirs is written as twelve.
TARGET_MAX = 16_384
#: Bytes of a target's path; what looks for a file does so in a time that grows with the square of them.
PATH_MAX = 8_192
#: Requests of one connection that wait behind the one that is answered; clients that know us send none.
PIPELINED_MAX = 8
#: Bytes that are read at once: so many at most are gathered beside what is counted.
PIECE_BYTES = 8_192
#: Under which the state of a request keeps what it holds.
_SENT = "placet_sent"


class TooManyPipelinedError(ValueError):
    """The parser turns it into an error of its own, which ends the connection."""


class HeadTooLargeError(ValueError):
    """The parser turns it into an error of its own, which ends the connection with a 400."""


class NothingBehindError(ValueError):
    """The parser turns it into an error of its own, which says that a request has ended."""


class Parser(httptools.HttpRequestParser):
    """Keeps what stands behind the head of a request that asks for another protocol: it takes no body for one."""

    beyond = b""

    def feed_data(self, data: Any) -> None:
        """Read some bytes."""
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.beyond = data[upgrade.args[0] :]
            raise


class RestOfRequest(httptools.HttpRequestParser):
    """Reads the body of a request whose head was read, and nothing behind it."""

    def __init__(self, http: BoundedHttp) -> None:
        super().__init__(self)
        self._http = http
        self._over = False

    def begin(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Take from the headers of the request how long its body is."""
        framing = [b"%b: %b\r\n" % each for each in headers if each[0] in {b"content-length", b"transfer-encoding"}]
        self.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))

    def feed_data(self, data: Any) -> None:
        """Read some bytes."""
        try:
            if not self._over:
                super().feed_data(data)
        except httptools.HttpParserError:
            if not self._over:
                raise

    def on_header(self, name: bytes, value: bytes) -> None:
        """Weigh a trailer."""
        self._http.weigh(len(name) + len(value) + HEADER_WEIGHT)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._http.on_body(body)

    def on_message_complete(self) -> None:
        """Read no further."""
        self._over = True
        self._http.on_message_complete()
        raise NothingBehindError


class Sent:
    """What one request holds of its connection."""

    def __init__(self, connection: BoundedHttp) -> None:
        #: None once that is over.
        self.connection: BoundedHttp | None = connection
        self.head = self.body = 0
        self.known = self.answered = False


def sender_is_known(scope: MutableMapping[str, Any]) -> None:
    """Say of a request that it is known who sent it: what is held of it counts no more."""
    sent: Sent | None = scope.get("state", {}).get(_SENT)
    if sent is not None and sent.connection is not None:
        sent.known = True
        sent.connection.count()


class BoundedHttp(Bounded, HttpToolsProtocol):
    """One connection. A request with a head or a target beyond its bound is refused, however it comes."""

    parser: Any
    _head = _silent = 0
    _heard = False
    #: Whether the parser is in a head, or in trailers, and may gather some of it.
    _gathers = True
    _answered: RequestResponseCycle | None = None
    #: Whose answer is being written, or is not taken yet.
    _written: Sent | None = None
    #: What answers the next request, where that waits for its client to take the last answer.
    _next: Any = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.parser = Parser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        #: Requests of which something is held; the answers come in their order.
        self._sent: deque[Sent] = deque()

    def data_received(self, data: bytes) -> None:
        """Read some bytes piece by piece, and count what is held of them."""
        for start in range(0, len(data), PIECE_BYTES):
            if self.transport.is_closing():
                return
            self._read(data[start : start + PIECE_BYTES])

    def _read(self, piece: bytes) -> None:
        """Read a piece; refuse what has been going on for too long without telling anything."""
        self._heard = False
        super().data_received(piece)
        if not self._heard:
            self._silent += len(piece)
        else:
            self._silent = len(piece) if self._gathers else 0
        self.count()
        if self._silent > HEAD_MAX and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def count(self) -> None:
        """Hold what there is of requests whose senders are not known, and of an answer that they do not take."""
        size = self._silent + sum(each.head + each.body for each in self._sent if not each.known)
        if self.flow.write_paused and self._written is not None and not self._written.known:
            size += self.transport.get_write_buffer_size()
        self.hold(size)

    def on_message_begin(self) -> None:
        """Begin to weigh; one read can begin thousands of requests before any of them is answered."""
        if len(self.pipeline) >= PIPELINED_MAX:
            raise TooManyPipelinedError
        self._head, self._heard, self._gathers = 0, True, True
        super().on_message_begin()
        # The newest head stays with the connection until the next one comes.
        self._sent = deque(each for each in self._sent if not each.answered)
        self._sent.append(Sent(self))
        self.scope["state"][_SENT] = self._sent[-1]

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target, which comes before all else."""
        self.weigh(len(url))
        super().on_url(url)
        if self._head > TARGET_MAX or (self.url.find(b"?", 0, PATH_MAX + 1) < 0 and self._head > PATH_MAX):
            raise HeadTooLargeError

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self.weigh(len(name) + len(value) + HEADER_WEIGHT)
        # Python unquotes cookies in a time that grows with the square of their backslashes, and none of ours has any.
        super().on_header(name, value.replace(b"\\", b"") if name.lower() == b"cookie" else value)

    def on_headers_complete(self) -> None:
        """Begin to answer: the parser has nothing left of the head."""
        self._gathers = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, which has bounds of its own."""
        self._heard = True
        super().on_body(body)
        if not self._sent[-1].answered:
            self._sent[-1].body += len(body)

    def on_message_complete(self) -> None:
        """End a request; one that was answered before has no more to come, and its time is over."""
        self._heard, self._gathers = True, False
        if self.parser.should_upgrade():
            # Only its head has ended: see `_unsupported_upgrade_warning`.
            return
        super().on_message_complete()
        if self.cycle.response_complete:
            self._await_next()

    def on_response_complete(self) -> None:
        """Let go of the body of what was answered; an answer to nobody known is to be taken before the next one."""
        sent = next(each for each in self._sent if not each.answered)
        sent.answered, sent.body = True, 0
        if self._answered is not None:
            self._answered.body = bytearray()
        if not sent.known and self.transport.get_write_buffer_size() > FEW_BYTES:
            # Pauses at once, until all of it is taken.
            self.transport.set_write_buffer_limits(high=0)
        super().on_response_complete()
        self.count()

    def pause_writing(self) -> None:
        """Count what is not taken, unless it soon is."""
        super().pause_writing()
        self.loop.call_soon(self.count)

    def resume_writing(self) -> None:
        """Go on with the next request."""
        super().resume_writing()
        self.transport.set_write_buffer_limits()
        self.count()
        if self._next is not None and self._answered is not None and not self.transport.is_closing():
            self.flow.resume_reading()
            self._start_asgi_task(self._answered, self._next)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is answered now; uvicorn tells the newest one, which may wait behind it."""
        super().connection_lost(exc)
        for each in self._sent:
            each.connection = None
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        for cycle in (self._answered, self.cycle):
            if cycle is not None:
                cycle.body = bytearray()
        self.pipeline.clear()
        self._next = None

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read; without a word where it would be taken for the answer to what came before."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _answering(self) -> bool:
        """Tell of the request whose turn it is; uvicorn's `cycle` is the newest one, which may wait behind it."""
        at = self._answered
        return at is not None and not at.response_complete and not at.more_body

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answered, self._next = cycle, None
        if self.flow.write_paused:
            self._next = app
            self.flow.pause_reading()
            return
        self._written = cycle.scope["state"][_SENT]
        super()._start_asgi_task(cycle, app)

    def _unsupported_upgrade_warning(self) -> None:
        """Answer as if no other protocol was asked for, and end then: nothing is read after such a request."""
        self.cycle.keep_alive = False
        rest, self.parser = self.parser.beyond, RestOfRequest(self)
        try:
            self.parser.begin(self.headers)
            self._gathers = False
            self.parser.feed_data(rest)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def weigh(self, size: int) -> None:
        """Count what parsers gather, and refuse too much of it."""
        self._heard = self._gathers = True
        self._head += size
        self._sent[-1].head = self._head
        if self._head > HEAD_MAX:
            raise HeadTooLargeError

"""A line to PostgreSQL that reads along, and is cut at a commit: before the server has it, or before it has answered.

Instead its answer can be held, as by a network that is silent for a while.

It knows a COMMIT, and the Sync behind a statement that is a transaction by itself, as most are here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Literal
from urllib.parse import urlsplit

from tests.support.line import Dial, Line

Side = Literal["before", "after", "held"]
#: And what a statement by itself asks whether there is.
_WRITES = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM|SELECT FROM) \w+\.\w+")
_READY, _ERROR, _IDLE = b"Z"[0], b"E"[0], b"I"


class CutLine(Line):
    """A line that is cut once, at the next commit of a transaction that does certain writes."""

    def __init__(self, dial: Dial) -> None:
        super().__init__(self._tapped)
        self._really = dial
        self._writes: frozenset[str] = frozenset()
        self._side: Side = "before"
        #: Set once it was cut, or holds an answer.
        self.was_cut = asyncio.Event()
        self._let_go = asyncio.Event()

    def url(self, url: str) -> str:
        """Return the URL by which this line reaches the database of another URL."""
        return f"postgresql://postgres@127.0.0.1:{self.port}{urlsplit(url).path}?sslmode=disable"

    def cut_at(self, side: Side, *writes: str) -> None:
        """Cut at the next commit that has all these writes in it, such as `INSERT INTO policy.verdicts`."""
        self.was_cut.clear()
        self._let_go.clear()
        self._side, self._writes = side, frozenset(writes)

    def hold_at(self, *writes: str) -> None:
        """Hold the answer to the next commit that has all these writes in it."""
        self.cut_at("held", *writes)

    def let_go(self) -> None:
        """Let the answer through that is held."""
        self._let_go.set()

    async def hold(self) -> None:
        """Return once what is held may be heard."""
        self.was_cut.set()
        await self._let_go.wait()

    async def _tapped(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self._really()
        tap = _Tap(self, reader, writer)
        return tap, tap  # type: ignore[return-value]  # what a line uses of them, it has

    def takes(self, written: frozenset[str]) -> Side | None:
        """Return on which side to cut the commit of what was written, for this once; None where it goes through."""
        if not self._writes or not self._writes <= written:
            return None
        self._writes = frozenset()
        return self._side


class _Tap:
    """One connection to the server, in the place of its reader and its writer."""

    def __init__(self, line: CutLine, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._line, self._reader, self._writer = line, reader, writer
        self.transport = writer.transport
        self._sent, self._answered = _Messages(typed=False), _Messages(typed=True)
        #: Statements by the name under which they are prepared, and what the open transaction has run of them.
        self._prepared: dict[bytes, str] = {}
        self._ran: list[str] = []
        self._status = b""
        self._is_cutting = self._is_holding = False

    def write(self, data: bytes) -> None:
        """Pass on what the client says, up to where the line is cut."""
        for message in self._sent.read(data):
            side = self._line.takes(self._written()) if self._commits(message) else None
            if side == "before":
                self.transport.abort()
                self._line.was_cut.set()
                return
            self._is_cutting |= side == "after"
            self._is_holding |= side == "held"
            self._writer.write(message)

    async def drain(self) -> None:
        await self._writer.drain()

    async def read(self, size: int) -> bytes:
        """Return what the server says; nothing, as at an end, once what was to be cut is committed."""
        while data := await self._reader.read(size):
            if self._is_holding:
                self._is_holding = False
                await self._line.hold()
            for message in self._answered.read(data):
                assert not (self._is_cutting and message[0] == _ERROR), message
                if message[0] == _READY:
                    self._status = message[-1:]
                    if self._status == _IDLE:
                        self._ran.clear()
                        if self._is_cutting:
                            self._line.was_cut.set()
                            return b""
            if not self._is_cutting:
                return data
        return b""

    def _commits(self, message: bytes) -> bool:
        match message[:1]:
            case b"P":
                name, text, _ = message[5:].split(b"\0", 2)
                self._prepared[name] = text.decode()
            case b"B":
                self._ran.append(self._prepared[message[5:].split(b"\0", 2)[1]])
            case b"Q":
                self._ran.append(message[5:-1].decode())
                return self._ran[-1].startswith("COMMIT") or self._status == _IDLE
            case b"S":
                return bool(self._ran) and self._status == _IDLE
        return False

    def _written(self) -> frozenset[str]:
        return frozenset(write for text in self._ran for write in _WRITES.findall(text))


class _Messages:
    """Takes a stream apart into messages; a client's first one has no type."""

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._left = b""

    def read(self, data: bytes) -> Iterator[bytes]:
        """Yield each message that is whole."""
        self._left += data
        while len(self._left) >= 4 + self._typed:
            size = int.from_bytes(self._left[self._typed : 4 + self._typed]) + self._typed
            if len(self._left) < size:
                return
            message, self._left = self._left[:size], self._left[size:]
            self._typed = True
            yield message

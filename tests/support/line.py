"""A TCP line of our own between a service and what it talks to: it can be cut, slow, silent or dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from psycopg.conninfo import conninfo_to_dict

Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
_BYTES_MAX = 65_536


def to_postgres(url: Callable[[], str]) -> Dial:
    """Return what reaches the server of a database, wherever that is by then, on its socket or its port."""

    async def dial() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        named = conninfo_to_dict(url())
        host, port = str(named.get("host") or "127.0.0.1"), int(str(named.get("port") or 5432))
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    return dial


class Line:
    """One listener; whoever connects to it is connected to what `dial` reaches."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._going: set[asyncio.Task[None]] = set()
        #: Seconds that each piece of data waits before it goes on.
        self.delay_seconds = 0.0
        #: Whether connections are refused, as where nobody listens.
        self.dead = False
        self._speaks = asyncio.Event()
        self._speaks.set()

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)

    async def close(self) -> None:
        """Listen no more, and end every connection."""
        assert self._server is not None
        self._server.close()
        self.silent = False
        self.cut()
        for task in list(self._going):
            task.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)
        # Those who had only just come in: a task that is cancelled before it began does nothing.
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """End every connection at once, as a network does that fails: nobody says goodbye."""
        for writer in list(self._writers):
            writer.transport.abort()

    @property
    def silent(self) -> bool:
        """Whether bytes are swallowed up while the connections stay open."""
        return not self._speaks.is_set()

    @silent.setter
    def silent(self, value: bool) -> None:
        if value:
            self._speaks.clear()
        else:
            self._speaks.set()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.create_task(self._connect(reader, writer))
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        both = [writer]
        try:
            if self.dead:
                return
            answers, there = await self._dial()
            both.append(there)
            self._writers.add(there)
            carried = [
                asyncio.ensure_future(self._carry(reader, there)),
                asyncio.ensure_future(self._carry(answers, writer)),
            ]
            try:
                await asyncio.wait(carried, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in carried:
                    each.cancel()
                await asyncio.gather(*carried, return_exceptions=True)
        except OSError:
            # Nobody listens there now.
            pass
        finally:
            self._writers.difference_update(both)
            for end in both:
                end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_BYTES_MAX):
                await self._speaks.wait()
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                writer.write(data)
                await writer.drain()

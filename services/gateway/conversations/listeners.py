"""Whether who is told something bit by bit may hear it still: asked by the clock, however slowly they read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from placet.gateway.identity.auth import Caller, NoCaller
from placet.runtime.database import is_outage
from placet.runtime.driver import DatabaseError

log = structlog.get_logger(__name__)

T = TypeVar("T")


@dataclass
class Listener:
    """A caller whose rights are asked about once a heartbeat: at the first thing to tell after it, or in silence."""

    caller: Caller
    still_allowed: Callable[[Caller], Awaitable[bool]]
    heartbeat_seconds: float
    #: How long they are served while an outage keeps us from knowing whether they still may be.
    doubt_seconds: float
    _known_at: float = field(init=False)
    _ask_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count: whoever is let in was allowed a moment ago."""
        self._known_at = _now()
        self._ask_at = self._known_at + self.heartbeat_seconds

    @property
    def seconds_left(self) -> float:
        """How long they need not be asked about."""
        return max(0.0, self._ask_at - _now())

    async def may_hear(self, *, in_silence: bool = False) -> bool:
        """Tell whether they may hear what comes next, and ask where it is time; `in_silence` it always is."""
        if self.seconds_left and not in_silence:
            return True
        allowed = await self._allowed()
        now = _now()
        if allowed is not None:
            self._known_at = now
        self._ask_at = now + self.heartbeat_seconds
        return now < self._known_at + self.doubt_seconds if allowed is None else allowed

    async def _allowed(self) -> bool | None:
        """Tell whether they are allowed; None where an outage keeps us from knowing."""
        try:
            return await self.still_allowed(self.caller)
        except DatabaseError as error:
            if not is_outage(error):
                raise
            log.warning("stream.unsure", error=type(error).__name__)
            return None


async def while_allowed(listener: Listener, parts: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the parts of a file; raise NoCaller once the caller may not have it: it must not pass for whole."""
    async for part in parts:
        if not await listener.may_hear():
            raise NoCaller("The credentials are not valid.")
        yield part


def _now() -> float:
    return asyncio.get_running_loop().time()

"""Slots and leases for the three places that touch the slow outside world: claim, acknowledge, act, settle.

A consumer waits here for a free slot before it claims, so that what is not claimed stays in the queue where every
replica can take it. While an act runs, its lease is renewed; when a lease cannot be renewed the act no longer counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class Slots:
    """How many acts one process does at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._tasks: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()

    @property
    def busy(self) -> int:
        """Acts running now."""
        return len(self._tasks)

    async def wait_free(self) -> None:
        """Return when at least one slot is free."""
        while len(self._tasks) >= self.size:
            self._freed.clear()
            await self._freed.wait()

    def spawn(self, act: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run `act` in a slot; an exception that escapes it is a bug and is logged as one."""
        task = asyncio.create_task(act, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._free)

    def _free(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("act.bug", act=task.get_name(), exc_info=error)

    async def drain(self, timeout_seconds: float) -> None:
        """Wait for the running acts; cancel what still runs after `timeout_seconds`; its lease runs out."""
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=timeout_seconds)
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=5)


async def under_lease(
    act: Coroutine[Any, Any, None] | asyncio.Future[None], renew: Callable[[], Awaitable[bool]], *, every_seconds: float
) -> None:
    """Run `act` while `renew` keeps its lease; `renew` answering False means another attempt has it: cancel the act."""
    task = asyncio.ensure_future(act)
    keeper = asyncio.create_task(_keep(task, renew, every_seconds))
    try:
        await task
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _keep(task: asyncio.Future[None], renew: Callable[[], Awaitable[bool]], every_seconds: float) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        try:
            kept = await renew()
        except Exception as error:  # noqa: BLE001 - the database may be away; the lease decides, not this try
            log.warning("lease.renewal_failed", error=type(error).__name__)
            continue
        if not kept:
            log.warning("lease.lost", act=str(task))
            task.cancel()
            return

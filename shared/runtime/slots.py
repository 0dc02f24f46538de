"""Slots and leases for the three places that touch the slow outside world: claim, acknowledge, act, settle.

A consumer waits here for a free slot before it claims, so that what is not claimed stays in the queue where every
replica can take it. While an act runs, its lease is renewed; when a lease cannot be renewed the act no longer counts.
No tenant fills all slots while another one works too (see ADR 0065).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import structlog

from placet.runtime.outages import Outages

log = structlog.get_logger(__name__)

#: How long a tenant that is quiet counts as one that works, in seconds.
QUIET_SECONDS = 600.0

#: A tenant, and what of it; empty: all of it.
Part: TypeAlias = tuple[str, str]


def share_of(size: int, share: float) -> int:
    """Return how many of `size` slots one tenant may use while another one works; at least one."""
    return max(1, int(size * share))


class Slots:
    """How many acts one process does at a time."""

    def __init__(self, size: int) -> None:
        self.size = size
        #: Set when a stop begins: nothing that could wait is begun any more.
        self.draining = False
        self._tasks: set[asyncio.Task[None]] = set()
        #: Who runs something now; who runs nothing is not in it.
        self._tenants: Counter[str] = Counter()
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

    def busy_of(self, tenant: str) -> int:
        """Acts of one tenant that run now."""
        return self._tenants[tenant]

    @property
    def by_tenant(self) -> dict[str, int]:
        """Acts that run now, by tenant."""
        return dict(self._tenants)

    async def wait_freed(self, timeout_seconds: float) -> None:
        """Return when an act ends, or the time is over."""
        self._freed.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._freed.wait(), timeout_seconds)

    def spawn(self, act: Coroutine[Any, Any, None], *, name: str, tenant: str = "") -> None:
        """Run `act` in a slot; an exception that escapes it is a bug and is logged as one."""
        task = asyncio.create_task(act, name=name)
        self._tasks.add(task)
        self._tenants[tenant] += 1
        task.add_done_callback(lambda done: self._free(done, tenant))

    def _free(self, task: asyncio.Task[None], tenant: str) -> None:
        self._tasks.discard(task)
        self._tenants -= Counter((tenant,))
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("act.bug", act=task.get_name(), exc_info=error)

    async def drain(self, timeout_seconds: float) -> None:
        """Wait for the running acts; cancel what still runs after `timeout_seconds`; its lease runs out."""
        self.draining = True
        if self._tasks:
            _, running = await asyncio.wait(self._tasks, timeout=timeout_seconds)
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running, timeout=5)


class Room:
    """Where so many acts are at a time; of those who wait, whose tenant has fewest inside enters first.

    A tenant has at most its share while another one was here lately, so there is room when that one comes again. Of its
    places a part of it, such as one agent, has at most its share likewise.
    """

    def __init__(self, size: int, share: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.size = size
        self._share = share
        self._monotonic = monotonic
        #: Acts inside, by tenant, and by tenant and part.
        self._tenants: Counter[str] = Counter()
        self._parts: Counter[Part] = Counter()
        self._queues: dict[Part, deque[asyncio.Future[None]]] = {}
        #: When each part of a tenant was here last.
        self._seen: dict[Part, float] = {}

    @property
    def busy(self) -> int:
        """Acts inside now."""
        return self._tenants.total()

    @property
    def waiting(self) -> int:
        """Acts that wait to enter."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def enter(self, tenant: str, part: str = "") -> AsyncIterator[None]:
        """Be inside while the block runs, as soon as it is the turn of this part of the tenant."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        who = tenant, part
        self._queues.setdefault(who, deque()).append(turn)
        self._seen[who] = self._monotonic()
        self._admit()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._tenants -= Counter((tenant,))
                self._parts -= Counter((who,))
                self._seen[who] = self._monotonic()
            elif who in self._queues:
                with suppress(ValueError):
                    self._queues[who].remove(turn)
            self._admit()

    def _admit(self) -> None:
        since = self._monotonic() - QUIET_SECONDS
        self._seen = {who: at for who, at in self._seen.items() if at > since or self._parts[who]}
        parts = Counter(tenant for tenant, _ in self._seen)
        most = share_of(self.size, self._share) if len(parts) > 1 else self.size
        most_of_part = share_of(most, self._share)
        self._queues = {who: queue for who, queue in self._queues.items() if queue}
        while self.busy < self.size:
            # Of equals, who has waited longest: a queue goes to the end when it was served.
            able = [
                who
                for who in self._queues
                if self._tenants[who[0]] < most and (parts[who[0]] <= 1 or self._parts[who] < most_of_part)
            ]
            if not able:
                return
            who = min(able, key=lambda each: (self._tenants[each[0]], self._parts[each]))
            queue = self._queues.pop(who)
            turn = queue.popleft()
            if queue:
                self._queues[who] = queue
            if not turn.done():
                self._tenants[who[0]] += 1
                self._parts[who] += 1
                turn.set_result(None)


async def under_lease(
    act: Coroutine[Any, Any, None] | asyncio.Future[None],
    renew: Callable[[], Awaitable[bool]],
    *,
    every_seconds: float,
    ids: Mapping[str, object],
) -> None:
    """Run `act` while `renew` keeps its lease; `renew` answering False means another attempt has it: cancel the act.

    `ids` say in the log whose lease it is.
    """
    task = asyncio.ensure_future(act)
    keeper = asyncio.create_task(_keep(task, renew, every_seconds, ids))
    try:
        await task
    finally:
        keeper.cancel()
        with suppress(asyncio.CancelledError):
            await keeper


async def _keep(
    task: asyncio.Future[None], renew: Callable[[], Awaitable[bool]], every_seconds: float, ids: Mapping[str, object]
) -> None:
    outages = Outages("lease.renewal_failed", "lease.renewed")
    while True:
        await asyncio.sleep(every_seconds)
        try:
            kept = await renew()
        except Exception as error:  # noqa: BLE001 - the database may be away; the lease decides, not this try
            outages.miss(**ids, error=type(error).__name__)
            continue
        outages.meet()
        if not kept:
            log.warning("lease.lost", **ids)
            task.cancel()
            return

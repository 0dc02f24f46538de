"""Trying a rulebook for somebody who asks: checked, explained, tested or replayed, and never used.

Each trial runs in a process of its own with limits of time and memory, so that calls are judged meanwhile whatever was
sent.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from signal import SIGKILL
from typing import Any, TypeVar

from placet.contracts.dead_letters import HOUSE_TENANT
from placet.contracts.messages import RulebookTried, TryRulebook
from placet.domain.yaml_source import Problem
from placet.policy import trial_process
from placet.policy.active import ActiveRulebook
from placet.policy.rules.simulate import Kept
from placet.policy.store import rulebooks
from placet.policy.trial_process import REPLAYED_MAX, RULEBOOK, Limits, Trial
from placet.runtime.slots import Room
from placet.runtime.work import Cause, UnitOfWork

#: Largest report that is passed on, in bytes.
REPORT_BYTES_MAX = 4 * 2**20
LIMITS = Limits()
#: Trials under way at the same moment, each in its process: one that takes all its time keeps no others waiting.
AT_ONCE = 3

Stream = TypeVar("Stream", asyncio.StreamReader, asyncio.StreamWriter)


@dataclass(frozen=True)
class Trials:
    """Tries what somebody sent: so many at the same moment, of which each tenant has its share."""

    units: UnitOfWork
    active: ActiveRulebook
    limits: Limits = LIMITS
    room: Room = field(default_factory=lambda: Room(AT_ONCE, 1 / AT_ONCE))

    async def try_rulebook(self, asked: TryRulebook, cause: Cause) -> None:
        """Answer with the report of a trial, or with what is wrong in it; not where nobody waits any more."""
        async with self.room.enter(asked.tenant):
            found = await self._found(asked)
        if found is None:
            return
        async with self.units.begin(cause) as work:
            work.emit(RulebookTried(tenant=asked.tenant, trial_id=asked.trial_id, answer_to=asked.answer_to, **found))

    async def _found(self, asked: TryRulebook) -> dict[str, Any] | None:
        database, limits = self.units.database, self.limits
        async with database.single() as connection:
            now: datetime = (await connection.run(database.queries.clock))[0][0]
        if asked.until is not None:
            left = (asked.until - now).total_seconds()
            if left <= 0:
                return None
            limits = replace(limits, clock_seconds=min(limits.clock_seconds, left))
        text, people = self.active.as_file
        tenant = "" if asked.tenant == HOUSE_TENANT else asked.tenant
        trial = Trial(asked.kind, asked.rulebook, asked.cases, asked.call, text, people, limits, tenant)
        past = rulebooks.past_proposals(database, asked.tenant, now, timedelta(seconds=asked.since_seconds))
        try:
            return await run(trial, past if asked.kind == "simulate" else None)
        except TrialEnded as ended:
            return {"report": {}, "problems": [Problem(RULEBOOK, 1, 1, str(ended)).as_json()]}


class TrialEnded(Exception):
    """A trial took more than it may, or was ended by others; the text says which."""


async def run(trial: Trial, past: AsyncIterator[Sequence[Kept]] | None = None) -> dict[str, Any]:
    """Return {report, problems} of a trial that replays `past`, the newest first; raise TrialEnded at its limits."""
    limits, began = trial.limits, time.monotonic()
    async with _process() as process:
        feeding = asyncio.create_task(_feed(process, trial, past))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.clock_seconds):
                    said = await _read(process)
                    if not await process.wait():
                        return dict(json.loads(said))
                    # The system ends it too, a second at most before our own clock does.
                    early = time.monotonic() - began < limits.seconds - 1
                    if process.returncode == -SIGKILL and early and len(said) <= REPORT_BYTES_MAX:
                        raise TrialEnded("the process that tried it was ended before it had an answer")
        finally:
            _end(process)
            # Never in the midst of a query: its connection would be of no use any more.
            await feeding
    size = limits.memory_bytes // 2**20
    raise TrialEnded(
        f"trying it took more than a trial may: {limits.seconds:g} seconds of the processor,"
        f" {limits.clock_seconds:g} by the clock, {size} MiB of memory"
    )


@asynccontextmanager
async def _process() -> AsyncIterator[Process]:
    """Start the process that tries, with nothing of ours in its environment; it is gone afterwards."""
    environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.environ.get("PATH", "")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", trial_process.__name__, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
    )
    try:
        yield process
    finally:
        _end(process)
        await process.wait()


def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


def _pipe(stream: Stream | None) -> Stream:
    if stream is None:
        raise RuntimeError("a process that was started with pipes has none")
    return stream


async def _read(process: Process) -> bytes:
    """Return what a process says; it is ended where that is too much."""
    said, pipe = bytearray(), _pipe(process.stdout)
    while piece := await pipe.read(REPORT_BYTES_MAX):
        said += piece
        if len(said) > REPORT_BYTES_MAX:
            _end(process)
    return bytes(said)


async def _feed(process: Process, trial: Trial, past: AsyncIterator[Sequence[Kept]] | None) -> None:
    """Hand a trial to its process, and the past page by page as it takes them."""
    pipe = _pipe(process.stdin)
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(pickle.dumps(trial))
        calls = 0
        if past is not None:
            async for page in past:
                pipe.write(pickle.dumps(page))
                await pipe.drain()
                calls += len(page)
                if calls > REPLAYED_MAX or process.returncode is not None:
                    break
        pipe.close()

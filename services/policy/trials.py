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
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from placet.contracts.dead_letters import HOUSE_TENANT
from placet.contracts.messages import RulebookTried, TryRulebook
from placet.domain.yaml_source import Problem
from placet.policy import trial_process
from placet.policy.active import ActiveRulebook
from placet.policy.rules.simulate import Past
from placet.policy.store import rulebooks
from placet.policy.trial_process import REPLAYED_MAX, RULEBOOK, Limits, Trial
from placet.runtime.work import Work

#: Largest report that is passed on, in bytes.
REPORT_BYTES_MAX = 4 * 2**20
LIMITS = Limits()

Stream = TypeVar("Stream", asyncio.StreamReader, asyncio.StreamWriter)


async def try_rulebook(asked: TryRulebook, work: Work, active: ActiveRulebook, limits: Limits = LIMITS) -> None:
    """Answer with the report of a trial, or with what is wrong in what was sent; not where nobody waits any more."""
    if asked.until is not None:
        left = (asked.until - await work.clock()).total_seconds()
        if left <= 0:
            return
        limits = replace(limits, seconds=min(limits.seconds, left))
    text, people = active.as_file
    tenant = "" if asked.tenant == HOUSE_TENANT else asked.tenant
    trial = Trial(asked.kind, asked.rulebook, asked.cases, asked.call, text, people, limits, tenant)
    try:
        past = rulebooks.past_proposals(work, asked.tenant, timedelta(seconds=asked.since_seconds))
        found = await run(trial, past if asked.kind == "simulate" else None)
    except TrialEnded as ended:
        found = {"report": {}, "problems": [Problem(RULEBOOK, 1, 1, str(ended)).as_json()]}
    work.emit(RulebookTried(tenant=asked.tenant, trial_id=asked.trial_id, answer_to=asked.answer_to, **found))


class TrialEnded(Exception):
    """A trial took more than it may; the text says so."""


async def run(trial: Trial, past: AsyncIterator[Sequence[Past]] | None = None) -> dict[str, Any]:
    """Return {report, problems} of a trial that replays `past`, the newest first; raise TrialEnded at its limits."""
    limits = trial.limits
    async with _process() as process:
        feeding = asyncio.create_task(_feed(process, trial, past))
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.seconds):
                    said = await _read(process)
                    if not await process.wait():
                        return dict(json.loads(said))
        finally:
            _end(process)
            # Never in the midst of a query: the transaction goes on.
            await feeding
    size = limits.memory_bytes // 2**20
    raise TrialEnded(f"trying it took more than a trial may: {limits.seconds:g} seconds, {size} MiB of memory")


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


async def _feed(process: Process, trial: Trial, past: AsyncIterator[Sequence[Past]] | None) -> None:
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

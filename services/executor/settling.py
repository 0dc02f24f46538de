"""Writes outcomes: under load one statement ends many calls, and a lone outcome is written at once.

An outcome that cannot be written spoils nobody else's: after an error each is written alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from placet.executor import store
from placet.executor.metrics import count_answer
from placet.executor.rules import Outcome
from placet.executor.store import Attempt
from placet.runtime.batcher import Batcher
from placet.runtime.work import UnitOfWork, Work

Ended = tuple[Attempt, Outcome]


class Settling:
    """Ends the calls of one executor process."""

    def __init__(self, units: UnitOfWork, *, worker: str) -> None:
        self._units = units
        self._worker = worker
        self._batcher = Batcher[Ended, None](self._write, isolate=True)

    async def settle(self, attempt: Attempt, outcome: Outcome) -> None:
        """End the call; raise what the database says against it."""
        await self._batcher.submit((attempt, outcome))

    async def _write(self, batch: Sequence[Ended]) -> None:
        async with self._units.once() as work:
            late = await self._end(work, batch)
        for attempt, outcome in late:
            async with self._units.begin(attempt.cause) as work:
                await store.keep_evidence(work, attempt, outcome, outcome.event, self._worker)

    async def _end(self, work: Work, batch: Sequence[Ended]) -> list[Ended]:
        """End calls with their one answer each; return the attempts that no longer count."""
        ended = {str(number): each for number, each in enumerate(batch)}
        answers = {}
        for key, (attempt, outcome) in ended.items():
            work.cause = attempt.cause
            answers[key] = attempt.answer(outcome, work.now)
            work.emit(answers[key], key=key)
        settled = await store.settle(work, ended, worker=self._worker)
        work.act(*(partial(count_answer, answers[key]) for key in settled))
        return [each for key, each in ended.items() if key not in settled]

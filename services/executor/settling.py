"""Writes outcomes: those that come while others are written go along in the next transaction.

One statement then ends many calls, so that what an outcome costs falls as the load rises; an idle executor writes each
at once. An outcome that cannot be written spoils nobody else's: after an error each is written alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from services.executor import rules, store
from services.executor.metrics import count_answer
from services.executor.rules import Outcome
from services.executor.store import Attempt
from shared.database import is_outage
from shared.gathering import Gathering
from shared.work import UnitOfWork, Work

#: Outcomes that one transaction writes at most.
ENDED_MAX = 64


@dataclass(slots=True, eq=False)
class Ended:
    """An attempt and what it came to."""

    attempt: Attempt
    outcome: Outcome
    #: Why it could not be written, where the others of its transaction could.
    error: Exception | None = None


class Settling:
    """Ends the calls of one executor process."""

    def __init__(self, units: UnitOfWork, *, worker: str) -> None:
        self._units = units
        self._worker = worker
        self._gathering = Gathering(self._write, size_max=ENDED_MAX)

    async def settle(self, attempt: Attempt, outcome: Outcome) -> None:
        """End the call in a transaction of this executor's own; raise what the database says against it."""
        ended = Ended(attempt, outcome)
        await self._gathering.join(ended)
        if ended.error is not None:
            raise ended.error

    async def _write(self, batch: list[Ended]) -> None:
        try:
            await self._together(batch)
        except Exception as error:
            if is_outage(error) or len(batch) == 1:
                raise
            for ended in batch:
                await self._alone(ended)

    async def _alone(self, ended: Ended) -> None:
        try:
            await self._together([ended])
        except Exception as error:  # noqa: BLE001 - raised by `settle`, where its own caller hears it
            ended.error = error

    async def _together(self, batch: list[Ended]) -> None:
        async with self._units.begin() as work:
            await self.settle_in(work, [(ended.attempt, ended.outcome) for ended in batch])

    async def settle_in(self, work: Work, ended: list[tuple[Attempt, Outcome]]) -> None:
        """End calls and hand over their one answer each; an attempt that no longer counts leaves evidence only."""
        times = await store.settle(work, ended, worker=self._worker)
        for (attempt, outcome), finished_at in zip(ended, times, strict=True):
            if finished_at is None:
                continue
            answer = rules.answer(
                attempt.call,
                outcome,
                fence=attempt.fence,
                started_at=attempt.begun_at,
                finished_at=finished_at,
                held=attempt.held,
            )
            work.cause = attempt.cause
            work.emit(answer)
            work.act(partial(count_answer, answer))

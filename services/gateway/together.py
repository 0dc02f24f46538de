"""Requests that come at the same moment share one transaction, and each still has an answer of its own.

A transaction of one request costs as many round trips as one of fifty. What waits while one runs comes along in the
next, so a request that comes alone waits for nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import structlog

from shared.database import is_outage
from shared.gathering import Gathering

log = structlog.get_logger(__name__)

Asked = TypeVar("Asked")
Told = TypeVar("Told")

#: Requests that one transaction answers at most.
REQUESTS_MAX = 64


@dataclass(slots=True)
class _Waiting(Generic[Asked, Told]):
    asked: Asked
    outcome: Told | Exception | None = None


class Together(Generic[Asked, Told]):
    """Answers requests through `answer`: one outcome for each in their order, an exception for one that is refused."""

    def __init__(self, answer: Callable[[Sequence[Asked]], Awaitable[Sequence[Told | Exception]]]) -> None:
        self._answer = answer
        self._gathering = Gathering[_Waiting[Asked, Told]](self._handle, size_max=REQUESTS_MAX)

    async def ask(self, asked: Asked) -> Told:
        """Return the answer to `asked`, or raise it."""
        waiting = _Waiting[Asked, Told](asked)
        await self._gathering.join(waiting)
        if isinstance(waiting.outcome, Exception):
            raise waiting.outcome
        return cast("Told", waiting.outcome)

    async def _handle(self, batch: list[_Waiting[Asked, Told]]) -> None:
        try:
            await self._answer_all(batch)
        except Exception as error:
            if len(batch) == 1 or is_outage(error):
                raise
            # One of them is at fault, and its neighbours are not.
            log.info("requests.fall_back", requests=len(batch), error=type(error).__name__)
            for each in batch:
                await self._answer_alone(each)

    async def _answer_all(self, batch: Sequence[_Waiting[Asked, Told]]) -> None:
        outcomes = await self._answer([each.asked for each in batch])
        for each, outcome in zip(batch, outcomes, strict=True):
            each.outcome = outcome

    async def _answer_alone(self, waiting: _Waiting[Asked, Told]) -> None:
        try:
            await self._answer_all([waiting])
        except Exception as error:  # noqa: BLE001 - it is this request's outcome
            waiting.outcome = error

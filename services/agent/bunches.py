"""Database work of turns that need it at the same moment, done for all of them at once.

What comes while one bunch is on its way gathers for the next, so that a lonely turn waits for nobody and a busy agent
pays one round trip for many turns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog

from services.agent import turns
from services.agent.assembly import ModelAnswer
from services.agent.rules import Claim, Settlement
from services.agent.store import together
from services.agent.store.together import Talk
from shared.gathering import Gathering
from shared.work import Cause, UnitOfWork, Work

if TYPE_CHECKING:
    from shared.sql import Connection

log = structlog.get_logger(__name__)

#: Turns that one statement carries.
BUNCH_MAX = 64


@dataclass(slots=True)
class _Load:
    """A conversation that is asked for, and what was found of it."""

    conversation_id: str
    row: Any = None
    #: Monotonic seconds when it was found.
    seconds: float = 0.0


@dataclass(slots=True)
class _Settle:
    """A step that is to be settled, and whether it is."""

    claim: Claim
    settlement: Settlement
    said: tuple[ModelAnswer, Talk]
    alone: bool
    settled: bool = False


class Bunches:
    """Loads conversations and settles steps."""

    def __init__(self, units: UnitOfWork, lease: timedelta) -> None:
        self._units = units
        self._lease = lease
        self._loads = Gathering(self._load, size_max=BUNCH_MAX)
        self._settles = Gathering(self._settle, size_max=BUNCH_MAX)

    async def load(self, conversation_id: str) -> Talk:
        """Return a conversation with everything its transcript is made of; raise LookupError where there is none."""
        load = _Load(conversation_id)
        await self._loads.join(load)
        if load.row is None:
            raise LookupError(f"there is no conversation {conversation_id}")
        return together.talk_of(load.row, load.seconds)

    async def settle(
        self, claim: Claim, settlement: Settlement, said: tuple[ModelAnswer, Talk], *, alone: bool
    ) -> bool:
        """Settle a step and send what follows from it; False where that needs a transaction, and nothing is done.

        `alone`: it must not happen while messages wait for a turn. The end of a turn never does.
        """
        settle = _Settle(claim, settlement, said, alone)
        await self._settles.join(settle)
        return settle.settled

    async def _load(self, loads: list[_Load]) -> None:
        async with self._units.database.single() as connection:
            found = await together.load(connection, [load.conversation_id for load in loads])
        seconds = time.monotonic()
        for load in loads:
            load.row, load.seconds = found.get(load.conversation_id), seconds

    async def _settle(self, settles: list[_Settle]) -> None:
        try:
            async with self._units.database.single() as connection:
                works = [self._work(connection, each) for each in settles]
                settlings = [
                    turns.settling(work, each.claim, each.settlement, each.said, alone=each.alone)
                    for work, each in zip(works, settles, strict=True)
                ]
                places = await together.settle(connection, settlings, self._lease)
        except Exception as error:  # noqa: BLE001 - each step is judged alone, by its own error
            log.info("bunch.falls_back", steps=len(settles), error=type(error).__name__)
            return
        for place in sorted(places):
            settles[place].settled = True
            await self._units.finish(works[place])

    def _work(self, connection: Connection, settle: _Settle) -> Work:
        _, talk = settle.said
        now, cause = talk.clock.after(time.monotonic()), Cause(**settle.claim.cause)
        return Work(connection, self._units.database, now=now, cause=cause)

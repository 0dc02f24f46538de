"""What the dead-letter service does with each delivery."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog
from prometheus_client import Gauge

from placet.contracts.errors import Refused
from placet.contracts.messages import ResolveDeadLetter
from placet.contracts.topology import Destination
from placet.contracts.transitions import ExpectedRace
from placet.dead_letters import rules, store
from placet.dead_letters.states import MACHINE, Event, State
from placet.runtime.bus import Delivery
from placet.runtime.consumer import OUTAGE_PAUSE_MAX_SECONDS
from placet.runtime.database import Database, is_outage
from placet.runtime.driver import DatabaseError
from placet.runtime.work import Cause, Change, UnitOfWork, Work

log = structlog.get_logger(__name__)

WAITING = Gauge("placet_dead_letters_waiting", "Dead letters of all tenants that an operator has to replay or discard.")


async def bury(delivery: Delivery, units: UnitOfWork) -> None:
    """Keep what came to the dead-letter queue, readable or not, however long the database takes to let us.

    A letter that is given back counts as redelivered, and the broker drops what was redelivered too often: nothing
    stands behind this queue.
    """
    for letter in rules.letters_from(delivery):
        await _keep_at_last(letter, units)


async def _keep_at_last(letter: rules.Letter, units: UnitOfWork) -> None:
    pause = 0.05
    while True:
        try:
            await _keep(letter, units)
        except DatabaseError as error:
            log.warning(
                "letter.waiting", letter=letter.dead_letter_id, outage=is_outage(error), error=type(error).__name__
            )
        else:
            return
        await asyncio.sleep(pause)
        pause = min(pause * 2, OUTAGE_PAUSE_MAX_SECONDS)
        await units.database.wait_ready()


async def _keep(letter: rules.Letter, units: UnitOfWork) -> None:
    traceparent, call_id = rules.source_of(letter.body)
    about = _about(letter) | ({"call_id": call_id} if call_id else {})
    async with units.begin(Cause(traceparent=traceparent)) as work:
        if await store.add_letter(work.connection, letter):
            buried = _change(letter.tenant, letter.dead_letter_id, "buried", None, State.OPEN, letter.service)
            work.record(replace(buried, about=about))
            return
        known = await store.load_letter(work.connection, letter.dead_letter_id)
        if known is not None and known.state == State.REPLAYED:
            to = MACHINE.next_state(State.REPLAYED, Event.BURIED_AGAIN)
            await store.move_letter(work, known, to, again=letter)
            again = _change(letter.tenant, known.dead_letter_id, Event.BURIED_AGAIN, known.state, to, letter.service)
            work.record(replace(again, about=about))


async def measure(database: Database) -> None:
    """Count what waits for an operator."""
    async with database.single() as connection:
        WAITING.set(await store.count_open(connection))


async def resolve(message: ResolveDeadLetter, work: Work) -> None:
    """Send a dead letter back to its queue, or give it up together with the calls that wait for it."""
    letter = await store.load_letter(work.connection, message.dead_letter_id)
    if letter is None or letter.tenant != message.tenant:
        raise Refused("no such dead letter", status=404, kind="not-found")
    event = Event(message.action)
    try:
        to = MACHINE.next_state(letter.state, event)
    except ExpectedRace:
        work.record(_change(letter.tenant, letter.dead_letter_id, event, letter.state, letter.state, message.by))
        return
    await store.move_letter(work, letter, to, by=message.by)
    change = _change(letter.tenant, letter.dead_letter_id, event, letter.state, to, message.by)
    if event is Event.REPLAY:
        _send_back(work, letter)
        work.record(change)
    else:
        _give_up(work, letter, change)


def _give_up(work: Work, letter: rules.KeptLetter, change: Change) -> None:
    """Have every call ended that waits for what the letter holds; each of them keeps in its history who gave it up."""
    calls = rules.abandoned(letter.queue, letter.body, change.actor)
    work.emit(*calls)
    of_calls = [replace(change, tenant=call.tenant, call_id=call.call_id, detail=_about(letter)) for call in calls]
    work.record(*of_calls or [change])


def _send_back(work: Work, letter: rules.KeptLetter) -> None:
    try:
        events = rules.events_of(letter.body)
    except ValueError as error:
        # The gateway says so to whoever asks; a new dead letter about an old one would help nobody.
        raise Refused(f"dead letter {letter.dead_letter_id} cannot be replayed: {error}") from error
    for event in events:
        work.send_again(Destination("", letter.queue), event)


def _about(letter: rules.Letter) -> dict[str, str]:
    return {"queue": letter.queue, "reason": letter.reason}


def _change(tenant: str, subject: str, event: str, before: str | None, after: State, actor: str) -> Change:
    return Change(tenant, MACHINE.name, subject, event, before, after, actor)

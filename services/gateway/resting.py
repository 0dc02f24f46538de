"""Whether a conversation rests: nothing goes on in it until people decide or write.

The agent knows before the feed does what goes on, and the feed alone is what clients are told, so both must agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.gateway.dialects.reader import Reader
from services.gateway.holder import Held
from services.gateway.live import Topic
from services.gateway.store import reading
from services.gateway.store.conversations import load_conversation
from services.gateway.store.inbox import Filters, list_approvals
from services.gateway.store.read import Row
from services.gateway.store.turns import Rest, load_rest
from shared.database import Database, is_outage
from shared.driver import DatabaseError

#: Calls of one conversation that may wait for people.
WAITING_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Resting:
    """A conversation that rests."""

    #: The approvals that wait, the newest first: rows of `read.approvals`.
    waiting: Sequence[Row]
    #: Whether a message waits until these are decided.
    queued: bool
    #: Who answers: what people hold rests until they speak or give it back, and nobody knows when.
    held: Held


async def look(
    database: Database, topic: Topic, reader: Reader, message_id: str = "", *, partial: bool
) -> Resting | None:
    """Return how a conversation rests; None while something goes on, or was not told yet, or nobody can know.

    The agent must have heard of `message_id`, where one is named. `partial`: not everything was read, but the newest
    turn and what came after it. A call that runs on behind a turn that is over keeps nothing.
    """
    found = await _find(database, topic, reader.overdue, message_id)
    if found is None:
        return None
    waiting, rest, held = found
    return Resting(waiting, rest.queued, held) if is_told(reader, waiting, rest, partial=partial) else None


async def waits_behind(database: Database, topic: Topic, message_id: str) -> bool:
    """Tell whether a message waits behind calls that people are asked about, and nothing goes on until they decide."""
    found = await _find(database, topic, (), message_id)
    return found is not None and found[1].behind


async def _find(
    database: Database, topic: Topic, passed_over: Sequence[str], message_id: str
) -> tuple[Sequence[Row], Rest, Held] | None:
    """Return what waits where nothing else goes on but some calls, whatever was told; None where nobody can know."""
    place = (topic.tenant, topic.conversation_id)
    here = Filters(state="pending", conversation_id=topic.conversation_id)
    try:
        async with reading(database) as connection:
            waiting = await list_approvals(connection, topic.tenant, here, limit=WAITING_MAX)
            conversation = await load_conversation(connection, *place)
            held = conversation.held if conversation else Held()
            call_ids = [*(row["call_id"] for row in waiting), *passed_over]
            rest = await load_rest(connection, *place, call_ids, message_id, held=held.by_people)
    except DatabaseError as error:
        if not is_outage(error):
            raise
        return None
    return None if rest is None else (waiting, rest, held)


def is_told(reader: Reader, waiting: Sequence[Row], rest: Rest, *, partial: bool) -> bool:
    """Tell whether the feed has told all that the services know."""
    asked: Mapping[str, str] = {row["call_id"]: row["approval_id"] for row in waiting}
    told = {call_id: card["approval_id"] for call_id, card in reader.waiting.items()}
    # What began before the oldest item that was read is long told.
    if not (told.items() <= asked.items() if partial else told == asked):
        return False
    if not rest.turn_id:
        return True
    # What tools did takes another way than what the model said of it, and may come behind its last words.
    if reader.began(rest.turn_id) and not rest.ran <= reader.answered:
        return False
    ended = reader.over(rest.turn_id)
    # What the model said beside its calls takes another way than these, and may come behind them.
    return ended if rest.over else not ended and reader.step(rest.turn_id) >= rest.step

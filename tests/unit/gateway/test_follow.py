"""What answers one message: its turn, and what later turns tell of calls that it went on without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from services.gateway.dialects.follow import Heard, Reply, follow_reply
from services.gateway.dialects.moves import CallAnswered, CallMade, CardMoved, TextWritten, TurnEnded
from services.gateway.stream import Stream
from tests.unit.gateway.test_moves import END, Item, card, closed, delta, proposed, result, said


def started(turn: str, message: str) -> Item:
    """Return the item of a turn that begins to answer a message."""
    return "turn", {"turn_id": turn, "state": "started", "message_id": message}


def in_turn(turn: str, item: Item) -> Item:
    """Return an item of another turn."""
    return item[0], {**item[1], "turn_id": turn}


ASKED = [started("t", "u"), said("Deploying."), proposed(), card(), END]
DECIDED = [closed(state="denied"), result(kind="denied")]
LATER = [started("t3", "u"), in_turn("t3", said("It came to nothing.", "m3")), in_turn("t3", END)]


def read(items: list[Item]) -> tuple[Reply, list[str]]:
    """Return who has read these items, and what that told."""
    reply = Reply("t")
    moves = [move for number, item in enumerate(items, 1) for move in reply.read(*item, number)]
    told = {TextWritten: "text", CallAnswered: "result", TurnEnded: "end"}
    return reply, [getattr(move, "text", told[type(move)]) for move in moves if type(move) in told]


def test_a_later_turn_about_its_call_is_told_with_it() -> None:
    """What others asked meanwhile is not."""
    other = [started("t2", "other"), in_turn("t2", said("Hello!", "m2")), in_turn("t2", END)]
    _, told = read([*ASKED, *other, *DECIDED, *LATER])
    assert ["Deploying.", "end", "result", "It came to nothing.", "end"] == told


def test_pieces_that_come_before_their_turn_began_are_told_with_their_message() -> None:
    """They take another way than the items; a text is told from its beginning, and once."""
    early = in_turn("t3", delta("It came ", message="m3"))
    later = in_turn("t3", delta("to nothing.", 8, "m3"))
    _, told = read([*ASKED, *DECIDED, early, LATER[0], later, *LATER[1:]])
    assert ["Deploying.", "end", "result", "It came to nothing.", "end"] == told


def test_it_knows_how_it_stands() -> None:
    """While people think, while the call runs, and when its outcome was told."""
    stages = [ASKED[:4], ASKED, [*ASKED, closed()], [*ASKED, *DECIDED], [*ASKED, *DECIDED, *LATER[:1]]]
    stages.append([*ASKED, *DECIDED, *LATER])
    found = [read(items)[0] for items in stages]
    assert [
        (False, False, True, False),
        (True, True, True, False),
        (True, True, False, True),
        (True, True, False, False),
        (False, True, False, False),
        (True, True, False, False),
    ] == [(reply.over, reply.late, reply.waits, reply.runs) for reply in found]


@dataclass
class Told:
    """A stream that tells these items and ends."""

    items: list[Item]
    after: int = 0

    async def signals(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the items with their numbers."""
        for number, (kind, data) in enumerate(self.items, 1):
            yield {"id": number, "type": kind, "data": data}


async def test_what_came_before_the_word_that_its_turn_began_is_told() -> None:
    """Items come from several queues: a call may be there first, and its card; other turns' are not told."""
    other = [in_turn("t2", proposed("k2")), card("k2")]
    items = [*other, proposed(), card(), started("t", "u"), said("Deploying.")]

    async def hears(turn_id: str) -> bool:
        return turn_id == "t"

    replies = [heard async for heard in follow_reply(cast("Stream", Told(items)), hears=hears)]
    (reply,) = {id(heard.reply): heard.reply for heard in replies if isinstance(heard, Heard)}.values()
    moves = [move for heard in replies if isinstance(heard, Heard) for move in heard.moves]
    assert ["k", "k", "m"] == [
        getattr(move, "call_id", "") or getattr(move, "text_id", "")
        for move in moves
        if isinstance(move, CallMade | CardMoved | TextWritten)
    ]
    assert ({"k": "a-k"}, True) == (reply.waiting, reply.waits)


@pytest.mark.parametrize(("heard_by", "told"), [("t", "Hi, Bob."), ("t2", "Hi, Ada."), ("t3", "")])
async def test_a_message_is_answered_by_the_turn_that_hears_it(heard_by: str, told: str) -> None:
    """Somebody else's words may be answered before it, also by a turn that goes on and hears them meanwhile."""
    meanwhile = in_turn("t", ("message", {**said("Hi, Bob.", "m1")[1], "heard_meanwhile": True}))
    items = [meanwhile, END, started("t2", "theirs"), in_turn("t2", said("Hi, Ada.", "m2")), in_turn("t2", END)]

    async def hears(turn_id: str) -> bool:
        return turn_id == heard_by

    replies = [heard async for heard in follow_reply(cast("Stream", Told(items)), hears=hears)]
    moves = [move for heard in replies if isinstance(heard, Heard) for move in heard.moves]
    assert told == "".join(move.text for move in moves if isinstance(move, TextWritten))

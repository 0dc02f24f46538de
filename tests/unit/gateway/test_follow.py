"""What answers one message: its turn, and what later turns tell of calls that it went on without."""

from __future__ import annotations

from services.gateway.dialects.follow import Reply
from services.gateway.dialects.moves import CallAnswered, TextWritten, TurnEnded
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

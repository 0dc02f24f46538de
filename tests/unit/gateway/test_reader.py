"""The one reader of a conversation: every turn's moves, told in whatever order the queues brought them."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.dialects.ai_sdk import AiSdk
from services.gateway.dialects.ai_sdk_history import History
from services.gateway.dialects.moves import TurnReader
from services.gateway.dialects.reader import Reader
from tests.unit.gateway.test_moves import Item, card, closed, proposed, result, said

MINE: Item = ("message", {"role": "user", "message_id": "u", "text": "hello"})
THEIRS: Item = (
    "message",
    {"role": "operator", "message_id": "o", "text": "Hi.", "author": {"kind": "operator", "id": "person:ada"}},
)


def turn(turn_id: str, call: str) -> list[Item]:
    """Return the items of a turn that makes one call."""
    began: Item = ("turn", {"turn_id": turn_id, "state": "started"})
    ended: Item = ("turn", {"turn_id": turn_id, "state": "finished"})
    kind, data = proposed(call)
    return [began, (kind, {**data, "turn_id": turn_id}), result(call), ended]


def numbered(items: list[Item]) -> list[dict[str, Any]]:
    """Return items as the feed has them."""
    return [{"id": number, "type": kind, "data": data} for number, (kind, data) in enumerate(items, 1)]


@given(st.permutations([said("Deploying."), proposed(), card(), closed(), result()]))
def test_a_call_is_told_before_what_became_of_it(items: list[Item]) -> None:
    """Whatever order its items come in: made, asked about, answered, and once each."""
    reader = Reader()
    moves = [type(told.move).__name__ for item in items for told in reader.read(*item)]
    about = [name for name in moves if name in {"CallMade", "CallAnswered"}]
    assert (["CallMade", "CallAnswered"], True) == (about, reader.calls["k"].answered)


@given(st.permutations([proposed(), card(), closed(), result()]))
def test_what_is_known_of_a_call_is_the_same_whatever_order_it_came_in(items: list[Item]) -> None:
    """Its turn, its arguments, how its approval ended and why, and that it was answered."""
    reader = Reader()
    for item in items:
        reader.read(*item)
    known = reader.calls["k"]
    assert ("t", {"v": 1}, "approved", "ok", True) == (
        known.turn_id,
        known.arguments,
        known.card["state"],
        known.card["decision_reason"],
        known.answered,
    )


def test_what_became_of_a_call_is_told_by_its_own_turn() -> None:
    """Also where another turn began since; what people wrote has the message's id."""
    reader = Reader()
    first, second = turn("t1", "a"), turn("t2", "b")
    items = [MINE, *first[:2], first[3], THEIRS, second[0], first[2]]
    told = [(each.turn_id, type(each.move).__name__) for item in items for each in reader.read(*item)]
    assert [("u", "Said"), ("o", "OperatorSpoke"), ("t1", "CallAnswered")] == [
        each for each in told if each[1] in {"Said", "OperatorSpoke", "CallAnswered"}
    ]


def test_an_item_is_read_by_one_turn_however_many_there_were() -> None:
    """Reading is linear: a turn's items go past a hundred other turns unread."""
    elsewhere = Mock(spec=TurnReader)
    reader = Reader(_turns={f"t{number}": elsewhere for number in range(100)})
    told = [each for item in turn("new", "d") for each in reader.read(*item)]
    assert ([], {"new"}) == (elsewhere.method_calls, {each.turn_id for each in told})


def test_a_history_has_messages_in_the_order_in_which_they_began() -> None:
    """A late result stands in the message of its own turn, an operator's word is a message of its own."""
    history = History(AiSdk())
    first, second = turn("t1", "a"), turn("t2", "b")
    for item in numbered([MINE, *first[:2], first[3], THEIRS, *second, first[2]]):
        history.add(item)
    messages = history.messages()
    assert [("u", "user"), ("t1", "assistant"), ("o", "assistant"), ("t2", "assistant")] == [
        (each["id"], each["role"]) for each in messages
    ]
    assert ["output-available"] * 2 == [part["state"] for each in messages for part in each["parts"] if "input" in part]
    assert "person:ada" == messages[2]["metadata"]["operator"]

"""A turn's items become moves in an order that every frontend accepts, whatever order they came in."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.dialects.moves import (
    Call,
    CallAnswered,
    CallMade,
    CallProgressed,
    CardMoved,
    Move,
    StepBegan,
    StepEnded,
    TextBegan,
    TextEnded,
    TextWritten,
    TurnEnded,
    TurnReader,
)

Item = tuple[str, dict[str, Any]]


def said(text: str, message: str = "m", **more: Any) -> Item:
    """Return the item of an assistant message."""
    return "message", {"role": "assistant", "turn_id": "t", "message_id": message, "text": text, **more}


def delta(text: str, offset: int = 0, message: str = "m", **more: bool) -> Item:
    """Return a piece of text that is being written."""
    piece = {"turn_id": "t", "message_id": message, "offset": offset, "text": text, "reset": False}
    return "delta", {**piece, **more}


def proposed(call: str = "k") -> Item:
    """Return the item of a proposed call."""
    return "tool_call", {
        "call_id": call,
        "turn_id": "t",
        "tool": "deploy",
        "arguments": {"v": 1},
        "status": "proposed",
    }


def card(call: str = "k", **more: Any) -> Item:
    """Return the item of an approval that waits."""
    fields = {"approval_id": f"a-{call}", "call_id": call, "state": "pending", "revision": 1, "arguments": {"v": 1}}
    return "approval", {**fields, "reason": "by rule", **more}


def closed(call: str = "k", state: str = "approved") -> Item:
    """Return the item of an approval that is over."""
    return "approval", {"approval_id": f"a-{call}", "call_id": call, "state": state, "revision": 2, "reason": "ok"}


def result(call: str = "k", kind: str = "succeeded") -> Item:
    """Return the item of a call's result."""
    status = "success" if kind == "succeeded" else "error"
    return "tool_call", {"call_id": call, "tool": "deploy", "kind": kind, "status": status, "data": 1, "error": ""}


END: Item = ("turn", {"turn_id": "t", "state": "finished", "reason": ""})


def moves_of(items: list[Item], reader: TurnReader | None = None) -> list[Move]:
    """Return the moves of items of turn `t`."""
    reader = reader or TurnReader("t")
    return [move for kind, data in items for move in reader.read(kind, data)]


def test_text_that_streams_is_told_once() -> None:
    """What deltas told is left out of the message that follows; what they lost is told with it."""
    moves = moves_of([delta("He"), delta("llo", 2), said("Hello!"), END])
    texts = [TextBegan("m"), *(TextWritten("m", text) for text in ("He", "llo", "!")), TextEnded("m")]
    assert [StepBegan(), *texts, StepEnded(), TurnEnded(END[1])] == moves


def test_a_gap_in_the_deltas_is_filled_by_the_message() -> None:
    """A delta that does not join on is passed over."""
    moves = moves_of([delta("He"), delta("xx", 9), said("Hello")])
    assert ["He", "llo"] == [move.text for move in moves if isinstance(move, TextWritten)]


def test_text_that_begins_anew_is_a_text_of_its_own() -> None:
    """A model that was asked again writes another text; the half one stays ended."""
    moves = moves_of([delta("half"), delta("", reset=True), delta("whole"), said("whole")])
    assert [("m", "half"), ("m#1", "whole")] == [
        (move.text_id, move.text) for move in moves if isinstance(move, TextWritten)
    ]


def test_what_the_model_says_while_people_think_is_not_told() -> None:
    """Such words are kept in the history and shown nowhere meanwhile."""
    assert [] == moves_of([said("Please confirm!", while_waiting=True)])


def test_what_is_written_while_people_think_does_not_stream() -> None:
    """Its pieces are passed over, and no step begins behind the one that asks people: clients look at the last."""
    asked = [said("Deploying."), proposed(), card()]
    chatter = [delta("Please ", message="m2", while_waiting=True), said("Please confirm!", "m2", while_waiting=True)]
    assert moves_of([*asked, END]) == moves_of([*asked, *chatter, END])


def test_a_message_that_comes_late_makes_nothing_told_twice() -> None:
    """An earlier step's message behind pieces of a later one: what it says is told, and the later text goes on."""
    late = [delta("The ", message="m3"), said("", "m2", step=2), said("First.", "m1", step=1)]
    moves = moves_of([*late, delta("The ", message="m3"), said("The shop is green.", "m3", step=3), END])
    assert [("m3", "The "), ("m1", "First."), ("m3", "shop is green.")] == [
        (move.text_id, move.text) for move in moves if isinstance(move, TextWritten)
    ]


def test_a_piece_behind_its_message_is_no_news() -> None:
    """Pieces take another way than messages; one of an earlier step ends nothing that is being told."""
    moves = moves_of([said("First.", "m1", step=1), delta("The ", message="m2"), delta("First.", message="m1")])
    assert moves_of([said("First.", "m1", step=1), delta("The ", message="m2")]) == moves


def test_an_empty_message_that_comes_late_is_no_step() -> None:
    """The step that is told last stays the last one."""
    told = [said("Done.", "m3", step=3)]
    assert moves_of(told) == moves_of([*told, said("", "m2", step=2)])


def test_the_mark_of_the_whole_text_counts() -> None:
    """Where its pieces were kept back and it is not, it is told at once."""
    moves = moves_of([delta("It ", while_waiting=True), said("It is done.")])
    assert [StepBegan(), TextBegan("m"), TextWritten("m", "It is done."), TextEnded("m")] == moves


def test_each_model_answer_is_a_step() -> None:
    """The words after a result belong to the next step."""
    kinds = [type(move).__name__ for move in moves_of([said("a", "m1"), proposed(), result(), said("b", "m2"), END])]
    text = ["TextBegan", "TextWritten", "TextEnded"]
    first = ["StepBegan", *text, "CallMade", "CallAnswered", "StepEnded"]
    assert [*first, "StepBegan", *text, "StepEnded", "TurnEnded"] == kinds


def test_a_turn_waits_when_every_open_call_has_its_card() -> None:
    """A call without a card or a result may still run: nobody is asked to think yet."""
    reader = TurnReader("t")
    seen = []
    for item in (proposed("k"), proposed("j"), card("k"), result("j"), closed("k")):
        moves_of([item], reader)
        seen.append(reader.waits)
    assert [False, False, False, True, False] == seen


def test_an_edit_tells_the_call_again() -> None:
    """New arguments replace what is shown, and the card is asked anew; an older card never comes back."""
    moves = moves_of([proposed(), card(), card(revision=3, arguments={"v": 2}), card(revision=2)])
    cards = [move.card["revision"] for move in moves if isinstance(move, CardMoved)]
    assert ([{"v": 1}, {"v": 2}], [1, 3]) == ([move.arguments for move in moves if isinstance(move, CallMade)], cards)


def test_why_it_was_held_stays_beside_why_it_was_decided() -> None:
    """The card of a decided call has the rule's words and the person's."""
    (last,) = moves_of([proposed(), card(), closed()])[-1:]
    assert isinstance(last, CardMoved)
    assert ("by rule", "ok", "approved") == (last.card["reason"], last.card["decision_reason"], last.state)


def test_a_card_that_comes_before_its_call_says_all_the_same() -> None:
    """Why it was decided is not lost where the queues changed places."""
    (last,) = moves_of([card(), closed(), proposed()])[-1:]
    assert isinstance(last, CardMoved)
    assert ("by rule", "ok", "approved") == (last.card["reason"], last.card["decision_reason"], last.state)


def test_what_is_known_of_calls_is_kept_in_one_place() -> None:
    """A reader writes into the calls that it was given, and waits for those of its own turn alone."""
    calls = {"other": Call("u", "deploy", card={"state": "pending"})}
    reader = TurnReader("t", calls)
    moves_of([proposed(), card(), card(revision=3, arguments={"v": 2})], reader)
    assert ("t", {"v": 2}, 3, {"k": "a-k"}) == (
        calls["k"].turn_id,
        calls["k"].arguments,
        calls["k"].card["revision"],
        reader.waiting,
    )
    moves_of([result()], reader)
    assert (True, False, False) == (calls["k"].answered, calls["other"].answered, reader.waits)


def test_another_turns_items_are_passed_over() -> None:
    """A stream begins in the middle of a conversation."""
    other = {"turn_id": "other"}
    items = [(kind, {**data, **other}) for kind, data in (delta("x"), said("x"), proposed(), END)]
    assert [] == moves_of([*items, result("foreign"), card("foreign")])


@given(st.permutations([proposed("k"), proposed("j"), card("k"), closed("k"), result("k"), result("j"), said("now")]))
def test_items_in_any_order_make_moves_that_frontends_accept(items: list[Item]) -> None:
    """Each call is made before its card and its one result, texts are begun and ended, steps are closed."""
    moves = moves_of([*items, END])
    made: set[str] = set()
    answered: list[str] = []
    open_texts: set[str] = set()
    steps = 0
    for move in moves:
        match move:
            case StepBegan():
                steps += 1
            case StepEnded():
                steps -= 1
            case TextBegan(text_id):
                open_texts.add(text_id)
            case TextWritten(text_id, _):
                assert text_id in open_texts
            case TextEnded(text_id):
                open_texts.remove(text_id)
            case CallMade(call_id, _, _):
                made.add(call_id)
            case CardMoved(call_id, _):
                assert call_id in made
            case CallAnswered(call_id, _, _):
                assert call_id in made
                answered.append(call_id)
        assert steps in {0, 1}
    assert (0, set(), ["j", "k"]) == (steps, open_texts, sorted(answered))


def test_a_report_is_told_between_a_call_and_its_answer() -> None:
    """How far a call is means nothing before it was told, and nothing after its end; the end of the turn is no end."""
    report = ("progress", {"call_id": "k", "tool": "deploy", "fraction": 0.5, "text": "half", "attempt": 1})
    moves = moves_of([report, proposed(), report, END, report, result(), report])
    assert [CallProgressed("k", 0.5, "half")] * 2 == [move for move in moves if isinstance(move, CallProgressed)]

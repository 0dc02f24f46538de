"""What the soak calls lost, repeated, reordered or garbled: a check that never bites proves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from bench.soak_reader import Seen, faults_of, word, words_in

NOTHING = {"lost": 0, "repeated": 0, "reordered": 0, "garbled": 0}
WORDS = [word(number, 10.0 + number) for number in range(3)]
TEXT = "".join(WORDS)


def a_piece(number: int, **changes: Any) -> tuple[str, None, dict[str, Any]]:
    """Return the piece that brings one word where it belongs."""
    offset = len("".join(WORDS[:number]))
    return "delta", None, {"message_id": "a", "offset": offset, "text": WORDS[number], "reset": False, **changes}


def a_message(number: int, text: str = TEXT) -> tuple[str, int, dict[str, Any]]:
    """Return the whole answer under a number of the feed."""
    return "message", number, {"role": "assistant", "message_id": "a", "text": text}


def an_end(number: int) -> tuple[str, int, dict[str, Any]]:
    """Return the end of a turn."""
    return "turn", number, {"state": "finished"}


def after(*connections: list[tuple[str, int | None, dict[str, Any]]]) -> Seen:
    """Return a client of these connections; it takes everything at second 20."""
    seen = Seen(words=3)
    for events in connections:
        seen.connected()
        for kind, number, data in events:
            seen.take(kind, number, data, 20.0)
    return seen


def test_a_word_says_its_number_and_when_it_was_sent() -> None:
    """To the microsecond, and several make a text."""
    assert [(0, 10.0), (1, 11.0), (2, 12.0)] == words_in(TEXT)


def test_one_good_line_has_no_fault_and_every_delay() -> None:
    """Pieces that join on, then the message, then the end of the turn."""
    seen = after([a_piece(0), a_piece(1), a_piece(2), a_message(1), an_end(2)])
    assert (NOTHING, [10.0, 9.0, 8.0], 2) == (faults_of([seen]), seen.delays, seen.last)
    assert [10.0] == seen.first_delays


def test_a_reconnect_may_tell_a_text_from_its_beginning_once() -> None:
    """What was had or missed is no live word; what follows it is."""
    so_far = a_piece(0, text="".join(WORDS[:2]))
    seen = after([a_piece(0)], [so_far, a_piece(2), a_message(1)])
    assert (NOTHING, [10.0, 8.0]) == (faults_of([seen]), seen.delays)


def test_a_gateway_that_is_behind_may_tell_less_than_was_had() -> None:
    """Its pieces then repeat words that came by the other; the same words, so nothing is wrong."""
    seen = after([a_piece(0), a_piece(1)], [a_piece(0), a_piece(1), a_piece(2), a_message(1)])
    assert (NOTHING, 3) == (faults_of([seen]), len(seen.delays))


def test_a_gap_in_a_text_that_is_being_written_is_told_apart() -> None:
    """Pieces are sent once at most; what follows the gap is no second one, and the whole text makes up for it."""
    seen = after([a_piece(1), a_piece(2)], [a_message(1)])
    assert (NOTHING, 1, {"a"}) == (faults_of([seen]), seen.gaps, seen.whole)


def test_a_turn_without_an_answer_says_why() -> None:
    """Then the run fails, with that in its message."""
    seen = after([("turn", 1, {"state": "failed", "reason": "no model"})])
    assert ["no model"] == seen.failures


@pytest.mark.parametrize(
    ("connections", "fault"),
    [
        ([[a_message(2)]], "lost"),
        ([[a_message(1, WORDS[0] + WORDS[1])]], "lost"),
        ([[a_message(1), an_end(1)]], "repeated"),
        ([[a_message(1)], [an_end(1)]], "repeated"),
        ([[a_piece(0), a_piece(0)]], "repeated"),
        ([[an_end(1), an_end(2), an_end(1)]], "reordered"),
        ([[a_message(1, WORDS[1] + WORDS[0] + WORDS[2])]], "reordered"),
        ([[a_piece(0, text=word(0, 9.0)), a_message(1)]], "garbled"),
        ([[a_piece(0)], [a_piece(0, text=word(0, 9.0))]], "garbled"),
    ],
)
def test_a_fault_is_counted_once(connections: list[Any], fault: str) -> None:
    """Each kind, among events and among words, on one line and over two."""
    assert {**NOTHING, fault: 1} == faults_of([after(*connections)])

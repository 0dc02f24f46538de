"""States of one dead letter. Every change of state is a row of the table below."""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.transitions import Machine


class State(StrEnum):
    """Where a dead letter can be, and who moves it on."""

    OPEN = "open"  # an operator must decide
    REPLAYED = "replayed"  # sent back to its queue; if it fails there again it is opened again
    DISCARDED = "discarded"  # given up by an operator, kept for the record


class Event(StrEnum):
    """What can happen to a dead letter."""

    REPLAY = "replay"
    DISCARD = "discard"
    BURIED_AGAIN = "buried_again"


MACHINE = Machine(
    name="dead-letter",
    initial=State.OPEN,
    transitions={
        (State.OPEN, Event.REPLAY): State.REPLAYED,
        (State.OPEN, Event.DISCARD): State.DISCARDED,
        (State.REPLAYED, Event.BURIED_AGAIN): State.OPEN,
    },
    final=frozenset({State.DISCARDED}),
    races=frozenset(
        {
            (State.OPEN, Event.BURIED_AGAIN),  # the broker delivered it twice
            (State.DISCARDED, Event.BURIED_AGAIN),  # likewise, late
            (State.REPLAYED, Event.REPLAY),  # two operators at once
            (State.REPLAYED, Event.DISCARD),
            (State.DISCARDED, Event.REPLAY),
            (State.DISCARDED, Event.DISCARD),
        }
    ),
)

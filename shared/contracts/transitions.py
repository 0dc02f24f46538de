"""State machines as tables: firing is a look-up, and nothing is silently ignored.

Each machine is one `Machine` in one file. A pair of state and event is a transition, an expected race (a second
click, a late timer: no effect, still in the history), or an error that names machine, state and event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from placet.contracts.errors import PlacetError

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class NoTransition(PlacetError):
    """The table has no way from this state by this event; says machine, state and event."""

    words = "{machine}: no way from {state!r} by {event!r}"

    def __init__(self, machine: str, state: str, event: str) -> None:
        super().__init__(self.words.format(machine=machine, state=str(state), event=str(event)))
        self.machine, self.state, self.event = machine, state, event


class IllegalTransition(NoTransition):
    """Nobody may ever ask for this: a bug, or an attack."""

    words = "{machine}: {event!r} is not possible in state {state!r}"


class ExpectedRace(NoTransition):
    """The machine has moved on already; the late event has no effect."""

    words = "{machine}: {event!r} came too late, the state is {state!r}"


@dataclass(frozen=True)
class Machine(Generic[S, E]):
    """One state machine: its name, its table, where it begins, where it ends and which late events it expects."""

    name: str
    initial: S
    transitions: Mapping[tuple[S, E], S]
    final: frozenset[S]
    races: frozenset[tuple[S, E]] = field(default_factory=frozenset)

    def next_state(self, state: S, event: E) -> S:
        """Return the state that `event` leads to; raise ExpectedRace or IllegalTransition where there is none."""
        try:
            return self.transitions[state, event]
        except KeyError:
            error = ExpectedRace if (state, event) in self.races else IllegalTransition
            raise error(self.name, state, event) from None

    def after(self, state: S, event: E) -> S:
        """Return where `event` leaves what is in `state`: where it is, if that comes too late; else as `next_state`."""
        try:
            return self.next_state(state, event)
        except ExpectedRace:
            return state

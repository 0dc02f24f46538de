"""What is particular to the execution's machine; every pair is walked in `tests/unit/test_machines.py`."""

from __future__ import annotations

from itertools import product

import pytest

from placet.contracts.transitions import ExpectedRace, IllegalTransition
from placet.executor.states import FINAL, MACHINE, Event, State

BEGAN = (State.SUCCEEDED, State.FAILED, State.UNKNOWN, State.RESOLVED)
LATE = (Event.LET_GO, Event.PROBED, Event.SUCCEEDED, Event.FAILED, Event.GAVE_UP)


@pytest.mark.parametrize("state", BEGAN)
@pytest.mark.parametrize("event", LATE)
def test_a_late_outcome_of_a_call_that_began_is_expected(state: State, event: Event) -> None:
    """A worker that was thought dead may still have its say; it has no effect."""
    with pytest.raises(ExpectedRace):
        MACHINE.next_state(state, event)


@pytest.mark.parametrize("state", [State.REFUSED, State.EXPIRED])
@pytest.mark.parametrize("event", LATE)
def test_a_call_that_never_began_cannot_end(state: State, event: Event) -> None:
    """An outcome of what was turned away is a bug or an attack."""
    with pytest.raises(IllegalTransition):
        MACHINE.next_state(state, event)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (State.RUNNING, Event.CLAIMED),
        *product((State.VERIFYING, State.UNKNOWN, *sorted(FINAL)), (Event.CLAIMED, Event.REFUSED, Event.EXPIRED)),
    ],
)
def test_a_call_is_taken_only_once(state: State, event: Event) -> None:
    """What has a row is never claimed again, nor turned away once it has begun: a permit is good for one row."""
    with pytest.raises(IllegalTransition):
        MACHINE.next_state(state, event)


@pytest.mark.parametrize("state", [State.VERIFYING, State.UNKNOWN, *sorted(FINAL)])
def test_a_call_that_is_over_or_in_doubt_is_never_repeated(state: State) -> None:
    """The sweeper repeats only what runs; anything else would be a second effect."""
    with pytest.raises(IllegalTransition):
        MACHINE.next_state(state, Event.RECLAIMED)


@pytest.mark.parametrize("state", [state for state in State if state not in {State.UNKNOWN, State.RESOLVED}])
def test_only_an_unknown_outcome_is_for_a_person_to_resolve(state: State) -> None:
    """Nobody talks over what an executor saw, and nobody resolves what goes on still."""
    with pytest.raises(IllegalTransition):
        MACHINE.next_state(state, Event.RESOLVED)


def test_the_first_word_of_a_person_stands() -> None:
    """Two people look at the same time: the second one changes nothing, and that is no error."""
    with pytest.raises(ExpectedRace):
        MACHINE.next_state(State.RESOLVED, Event.RESOLVED)

"""The two machines of the agent, beyond what every machine must keep."""

from __future__ import annotations

import pytest

from placet.agent.states import CALL_MACHINE, MACHINE, CallEvent, CallState, Event, State
from placet.contracts.transitions import ExpectedRace, IllegalTransition


@pytest.mark.parametrize("state", [State.WAITING, State.FINISHED, State.FAILED])
@pytest.mark.parametrize("event", [Event.ANSWERED, Event.CALLS_PROPOSED, Event.MODEL_FAILED, Event.TAKEN_OVER])
def test_worker_that_lost_its_lease_comes_too_late(state: State, event: Event) -> None:
    """What only the holder of a lease may do is an expected race once the turn has moved on."""
    with pytest.raises(ExpectedRace):
        MACHINE.next_state(state, event)


def test_results_cannot_complete_a_step_that_waits_for_none() -> None:
    """The barrier opens for a waiting turn only."""
    with pytest.raises(IllegalTransition):
        MACHINE.next_state(State.THINKING, Event.RESULTS_COMPLETE)


def test_open_call_takes_a_result() -> None:
    """The first result answers the call."""
    assert CallState.ANSWERED == CALL_MACHINE.next_state(CallState.OPEN, CallEvent.RESULT_CAME)


def test_answered_call_takes_no_second_result() -> None:
    """A second result is expected to happen and has no effect."""
    with pytest.raises(ExpectedRace):
        CALL_MACHINE.next_state(CallState.ANSWERED, CallEvent.RESULT_CAME)


def test_call_machine_is_whole() -> None:
    """Each state is reachable, and only the final one has no exit."""
    assert set(CallState) == {CALL_MACHINE.initial} | set(CALL_MACHINE.transitions.values())
    assert set(CallState) - {state for state, _ in CALL_MACHINE.transitions} == CALL_MACHINE.final

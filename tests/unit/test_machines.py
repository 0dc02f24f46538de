"""Every state machine, walked pair by pair."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from shared.transitions import ExpectedRace, IllegalTransition, Machine, NoTransition

SERVICES = ("agent", "approval", "audit", "executor", "gateway", "notifier", "policy")
#: Service and machine: the main one has no prefix, `EDIT_MACHINE` goes with `EditState` and `EditEvent`.
MACHINES = [
    f"{service}:{name.removesuffix('MACHINE').removesuffix('_')}"
    for service in SERVICES
    for name, value in vars(import_module(f"services.{service}.states")).items()
    if isinstance(value, Machine)
]


def machine_of(which: str) -> tuple[Machine[Any, Any], list[Any], list[Any]]:
    """Return a machine with all its states and events."""
    service, _, name = which.partition(":")
    module = import_module(f"services.{service}.states")
    machine = getattr(module, f"{name}_MACHINE" if name else "MACHINE")
    return machine, *(list(getattr(module, f"{name.capitalize()}{what}")) for what in ("State", "Event"))


def test_every_service_with_states_has_a_machine() -> None:
    """None is left out because of its name."""
    assert set(SERVICES) == {which.partition(":")[0] for which in MACHINES}
    assert {"approval:EDIT", "policy:GRANT"} <= set(MACHINES)


@pytest.mark.parametrize("service", MACHINES)
def test_every_pair_is_classified(service: str) -> None:
    """Each state and event is a transition, an expected race, or an error that names both."""
    machine, states, events = machine_of(service)
    for state in states:
        for event in events:
            if (state, event) in machine.transitions:
                assert machine.transitions[state, event] == machine.next_state(state, event)
                continue
            late = (state, event) in machine.races
            expected: type[NoTransition] = ExpectedRace if late else IllegalTransition
            with pytest.raises(expected) as caught:
                machine.next_state(state, event)
            assert (machine.name, state, event) == (caught.value.machine, caught.value.state, caught.value.event)


@pytest.mark.parametrize("service", MACHINES)
def test_no_pair_is_both_a_transition_and_a_race(service: str) -> None:
    """A pair has one meaning."""
    machine, _, _ = machine_of(service)
    assert set() == set(machine.transitions) & machine.races


@pytest.mark.parametrize("service", MACHINES)
def test_final_states_have_no_exits(service: str) -> None:
    """Nothing leaves a final state."""
    machine, _, _ = machine_of(service)
    assert [pair for pair in machine.transitions if pair[0] in machine.final] == []


@pytest.mark.parametrize("service", MACHINES)
def test_every_state_is_reachable(service: str) -> None:
    """Each state is the initial one or can be reached from it."""
    machine, states, _ = machine_of(service)
    reached = {machine.initial} | set(machine.transitions.values())
    assert set(states) == reached


@pytest.mark.parametrize("service", MACHINES)
def test_every_state_but_the_final_ones_can_be_left(service: str) -> None:
    """A state without an exit is final and says so."""
    machine, states, _ = machine_of(service)
    left = {state for state, _ in machine.transitions}
    assert set(states) - left == machine.final

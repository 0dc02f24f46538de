"""Every state machine, walked pair by pair."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.contracts.transitions import ExpectedRace, IllegalTransition, Machine, NoTransition

SERVICES = sorted(path.parent.name for path in Path(placet.__path__[0]).glob("*/states.py"))
#: Service and machine: the main one has no prefix, `EDIT_MACHINE` goes with `EditState` and `EditEvent`.
MACHINES = [
    f"{service}:{name.removesuffix('MACHINE').removesuffix('_')}"
    for service in SERVICES
    for name, value in vars(import_module(f"placet.{service}.states")).items()
    if isinstance(value, Machine)
]


def machine_of(which: str) -> tuple[Machine[Any, Any], list[Any], list[Any]]:
    """Return a machine with all its states and events."""
    service, _, name = which.partition(":")
    module = import_module(f"placet.{service}.states")
    machine = getattr(module, f"{name}_MACHINE" if name else "MACHINE")
    return machine, *(list(getattr(module, f"{name.capitalize()}{what}")) for what in ("State", "Event"))


def test_every_service_with_states_has_a_machine() -> None:
    """None is left out because of its name."""
    assert set(SERVICES) == {which.partition(":")[0] for which in MACHINES}
    assert {"approval:EDIT", "policy:GRANT"} <= set(MACHINES)


class Light(StrEnum):
    """States of a machine that is easy to see through."""

    OFF = "off"
    ON = "on"


class Press(StrEnum):
    """What can happen to it."""

    UP = "up"
    DOWN = "down"


LIGHT = Machine("light", Light.OFF, {(Light.OFF, Press.UP): Light.ON}, frozenset(), frozenset({(Light.ON, Press.UP)}))


@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        (Light.OFF, Press.UP, Light.ON),
        (Light.ON, Press.UP, ExpectedRace),
        (Light.ON, Press.DOWN, IllegalTransition),
        (Light.OFF, Press.DOWN, IllegalTransition),
    ],
)
def test_a_pair_is_a_transition_a_race_or_an_error_that_names_both(
    state: Light, event: Press, expected: Light | type[NoTransition]
) -> None:
    """Nothing is silently ignored."""
    if isinstance(expected, Light):
        assert expected is LIGHT.next_state(state, event)
        return
    with pytest.raises(NoTransition) as caught:
        LIGHT.next_state(state, event)
    assert (expected, "light", state, event) == (
        type(caught.value),
        caught.value.machine,
        caught.value.state,
        caught.value.event,
    )


@pytest.mark.parametrize("service", MACHINES)
def test_every_event_does_something_somewhere(service: str) -> None:
    """An event that changes no state is none, and one that a table has is one that there is."""
    machine, _, events = machine_of(service)
    assert set(events) == {event for _, event in machine.transitions}


@pytest.mark.parametrize("service", MACHINES)
def test_races_are_of_events_that_could_have_come_in_time(service: str) -> None:
    """A late event is late only where it leads somewhere from another state."""
    machine, states, _ = machine_of(service)
    moving = {event for _, event in machine.transitions}
    assert {(state, event) for state, event in machine.races if event not in moving or state not in states} == set()


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

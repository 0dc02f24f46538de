"""States of one delivery. Every change of state is a row of the table below."""

from __future__ import annotations

from enum import StrEnum

from shared.transitions import Machine


class State(StrEnum):
    """Where a delivery can be, and who moves it on."""

    ASLEEP = "asleep"  # nobody is told here unless an escalation names the channel; that makes it due
    DUE = "due"  # the card lags behind the approval; a worker claims it and sends
    SENT = "sent"  # the card shows the newest revision; the next revision makes it due again
    GIVEN_UP = "given_up"  # the channel failed too often; the approval goes on without this card


class Event(StrEnum):
    """What can happen to a delivery."""

    SUCCEEDED = "succeeded"
    FAILED_FOR_GOOD = "failed_for_good"
    REVISED = "revised"
    ESCALATED = "escalated"


MACHINE = Machine(
    name="delivery",
    initial=State.DUE,
    transitions={
        (State.ASLEEP, Event.REVISED): State.ASLEEP,
        (State.ASLEEP, Event.ESCALATED): State.DUE,
        (State.DUE, Event.SUCCEEDED): State.SENT,
        (State.DUE, Event.FAILED_FOR_GOOD): State.GIVEN_UP,
        (State.DUE, Event.REVISED): State.DUE,
        (State.SENT, Event.REVISED): State.DUE,
    },
    final=frozenset({State.GIVEN_UP}),
    races=frozenset(
        {
            (State.SENT, Event.SUCCEEDED),  # a worker whose lease ran out comes late
            (State.SENT, Event.FAILED_FOR_GOOD),
            (State.GIVEN_UP, Event.SUCCEEDED),
            (State.GIVEN_UP, Event.FAILED_FOR_GOOD),
            (State.GIVEN_UP, Event.REVISED),  # the approval goes on; this card does not
        }
    ),
)

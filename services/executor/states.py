"""States of one execution: what became of a permitted call. Every change of state is a row of TRANSITIONS.

A crash is no event that anybody can send, so it is none here: it shows as a lease that runs out, and the sweeper
fires `reclaimed` or `gave_up` for the worker that cannot.
"""

from __future__ import annotations

from enum import StrEnum

from shared.transitions import Machine


class State(StrEnum):
    """Where an execution stands."""

    NEW = "new"  # never stored: a permit has just arrived, the handler moves it on
    RUNNING = "running"  # an attempt holds the lease: its worker settles it; once the lease is out, any of the pool may
    SUCCEEDED = "succeeded"  # final: the tool answered
    FAILED = "failed"  # final: the tool said no, or broke
    UNKNOWN = "unknown"  # final: it began and nobody saw the end; it may have run, and a person should look
    REFUSED = "refused"  # final: it never began, the call does not fit the tools of this executor or was given up
    EXPIRED = "expired"  # final: it never began, its permit was too old when a worker was free


class Event(StrEnum):
    """What can happen to an execution."""

    CLAIMED = "claimed"  # the handler took the call for a first attempt
    REFUSED = "refused"  # the handler cannot run it
    EXPIRED = "expired"  # the handler came too late for its permit
    ABANDONED = "abandoned"  # an operator discarded the dead letter that held its permit
    LET_GO = "let_go"  # the attempt ended in doubt, but the tool is safe to repeat: the lease ends now
    RECLAIMED = "reclaimed"  # the sweeper begins the next attempt, with a higher fence
    SUCCEEDED = "succeeded"  # the attempt's tool answered
    FAILED = "failed"  # the attempt's tool did not do it
    GAVE_UP = "gave_up"  # nobody knows how the attempt ended, and it will not be repeated


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.UNKNOWN, State.REFUSED, State.EXPIRED})

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.NEW, Event.CLAIMED): State.RUNNING,
    (State.NEW, Event.REFUSED): State.REFUSED,
    (State.NEW, Event.EXPIRED): State.EXPIRED,
    (State.NEW, Event.ABANDONED): State.REFUSED,
    (State.RUNNING, Event.LET_GO): State.RUNNING,
    (State.RUNNING, Event.RECLAIMED): State.RUNNING,
    (State.RUNNING, Event.SUCCEEDED): State.SUCCEEDED,
    (State.RUNNING, Event.FAILED): State.FAILED,
    (State.RUNNING, Event.GAVE_UP): State.UNKNOWN,
}

# A worker that was thought dead comes back with an outcome after the call has ended: kept as evidence, no effect.
# A call that never began has no worker that could come back.
LATE = (Event.LET_GO, Event.SUCCEEDED, Event.FAILED, Event.GAVE_UP)
EXPECTED_RACES = frozenset((state, event) for state in (State.SUCCEEDED, State.FAILED, State.UNKNOWN) for event in LATE)

MACHINE = Machine(name="execution", initial=State.NEW, transitions=TRANSITIONS, final=FINAL, races=EXPECTED_RACES)

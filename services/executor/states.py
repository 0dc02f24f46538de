"""States of one execution: what became of a permitted call. Every change of state is a row of TRANSITIONS.

A crash is no event that anybody can send, so it is none here: it shows as a lease that runs out, and the sweeper
fires `reclaimed`, `probed` or `gave_up` for the worker that cannot.
"""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.transitions import Machine


class State(StrEnum):
    """Where an execution stands."""

    NEW = "new"  # never stored: a permit has just arrived, the handler moves it on
    RUNNING = "running"  # an attempt holds the lease: its worker settles it; once the lease is out, any of the pool may
    VERIFYING = "verifying"  # an attempt ended in doubt and the tool's `verify` probe holds the lease to find out
    SUCCEEDED = "succeeded"  # final: the tool answered, or its probe found that it had run
    FAILED = "failed"  # final: the tool said no, or broke, or its probe found that it had not run
    UNKNOWN = "unknown"  # answered so: it began and nobody saw the end; a person who has looked moves it on
    RESOLVED = "resolved"  # final: it was answered `unknown`, and a person has said since whether it ran
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
    PROBED = "probed"  # the attempt ended in doubt or was lost: the tool's probe begins, with a higher fence
    GAVE_UP = "gave_up"  # nobody knows how the attempt ended, it will not be repeated, and no probe can tell
    RESOLVED = "resolved"  # a person said whether it ran


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.RESOLVED, State.REFUSED, State.EXPIRED})
#: The conversation has its one answer; nothing runs any more.
ANSWERED = FINAL | {State.UNKNOWN}
#: Somebody holds the lease.
LEASED = frozenset({State.RUNNING, State.VERIFYING})

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
    (State.RUNNING, Event.PROBED): State.VERIFYING,
    (State.VERIFYING, Event.SUCCEEDED): State.SUCCEEDED,
    (State.VERIFYING, Event.FAILED): State.FAILED,
    (State.VERIFYING, Event.GAVE_UP): State.UNKNOWN,
    (State.UNKNOWN, Event.RESOLVED): State.RESOLVED,
}

# A worker that was thought dead comes back with an outcome after the call has ended, or while its probe looks: kept as
# evidence, no effect. A call that never began has no worker that could come back.
LATE = (Event.LET_GO, Event.PROBED, Event.SUCCEEDED, Event.FAILED, Event.GAVE_UP)
_BEGAN_AND_ENDED = (State.SUCCEEDED, State.FAILED, State.UNKNOWN, State.RESOLVED)
# Two people look at the same time: the first word stands.
EXPECTED_RACES = frozenset(
    {(state, event) for state in _BEGAN_AND_ENDED for event in LATE}
    | {(State.VERIFYING, Event.LET_GO), (State.VERIFYING, Event.PROBED)}
    | {(State.RESOLVED, Event.RESOLVED)}
)

MACHINE = Machine(name="execution", initial=State.NEW, transitions=TRANSITIONS, final=FINAL, races=EXPECTED_RACES)

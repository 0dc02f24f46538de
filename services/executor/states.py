"""States of one execution: what became of a permitted call; and of the workspace in which calls wait for people.

Every change of an execution's state is a row of _TRANSITIONS, of a workspace's one of WORKSPACE_MACHINE.

A crash is no event that anybody can send, so it is none here: it shows as a lease that runs out, and the sweeper
fires `reclaimed`, `probed` or `gave_up` for the worker that cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from placet.contracts.messages.stage import CommitState
from placet.contracts.transitions import Machine


class State(StrEnum):
    """Where an execution stands."""

    NEW = "new"  # never stored: a permit has just arrived, the handler moves it on
    RUNNING = "running"  # an attempt holds the lease: its worker settles it; once the lease is out, any of the pool may
    VERIFYING = "verifying"  # an attempt ended in doubt and the tool's `verify` probe holds the lease to find out
    STAGED = (
        "staged"  # answered so: its changes, or the call itself, wait in a workspace; a permit of its own lets it run
    )
    COMMITTING = "committing"  # a commit whose changes are made: its staged calls run one by one, the last one ends it
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
    STAGED = "staged"  # the call was put into its conversation's workspace, and nothing else was done
    RELEASED = "released"  # people let the workspace through, and the staged call begins
    APPLIED = "applied"  # a commit has made its changes, and staged calls follow
    GAVE_UP = "gave_up"  # nobody knows how the attempt ended, it will not be repeated, and no probe can tell
    RESOLVED = "resolved"  # a person said whether it ran


FINAL = frozenset({State.SUCCEEDED, State.FAILED, State.RESOLVED, State.REFUSED, State.EXPIRED})
#: The conversation has its one answer; nothing runs any more.
ANSWERED = FINAL | {State.UNKNOWN, State.STAGED}
#: Somebody holds the lease.
LEASED = frozenset({State.RUNNING, State.VERIFYING})

_TRANSITIONS = {
    (State.NEW, Event.CLAIMED): State.RUNNING,
    (State.NEW, Event.REFUSED): State.REFUSED,
    (State.NEW, Event.EXPIRED): State.EXPIRED,
    (State.NEW, Event.ABANDONED): State.REFUSED,
    # Claimed, and turned away in the same transaction or by who claimed it, before anything began.
    (State.RUNNING, Event.REFUSED): State.REFUSED,
    (State.RUNNING, Event.EXPIRED): State.EXPIRED,
    (State.RUNNING, Event.LET_GO): State.RUNNING,
    (State.RUNNING, Event.RECLAIMED): State.RUNNING,
    (State.RUNNING, Event.SUCCEEDED): State.SUCCEEDED,
    (State.RUNNING, Event.FAILED): State.FAILED,
    (State.RUNNING, Event.GAVE_UP): State.UNKNOWN,
    (State.RUNNING, Event.PROBED): State.VERIFYING,
    (State.RUNNING, Event.STAGED): State.STAGED,
    (State.RUNNING, Event.APPLIED): State.COMMITTING,
    (State.STAGED, Event.RELEASED): State.RUNNING,
    (State.COMMITTING, Event.SUCCEEDED): State.SUCCEEDED,
    (State.COMMITTING, Event.FAILED): State.FAILED,
    (State.COMMITTING, Event.GAVE_UP): State.UNKNOWN,
    (State.VERIFYING, Event.SUCCEEDED): State.SUCCEEDED,
    (State.VERIFYING, Event.FAILED): State.FAILED,
    (State.VERIFYING, Event.GAVE_UP): State.UNKNOWN,
    (State.UNKNOWN, Event.RESOLVED): State.RESOLVED,
}

# A worker that was thought dead comes back with an outcome after the call has ended, or while its probe looks: kept as
# evidence, no effect. A call that never began has no worker that could come back.
LATE = (Event.LET_GO, Event.PROBED, Event.SUCCEEDED, Event.FAILED, Event.STAGED, Event.APPLIED, Event.GAVE_UP)
_BEGAN_AND_ENDED = (State.STAGED, State.SUCCEEDED, State.FAILED, State.UNKNOWN, State.RESOLVED)
# Two people look at the same time: the first word stands.
EXPECTED_RACES = frozenset(
    {(state, event) for state in _BEGAN_AND_ENDED for event in LATE}
    | {(State.VERIFYING, Event.LET_GO), (State.VERIFYING, Event.PROBED)}
    | {(State.VERIFYING, Event.STAGED), (State.VERIFYING, Event.APPLIED)}
    | {(State.COMMITTING, event) for event in (Event.LET_GO, Event.PROBED, Event.STAGED, Event.APPLIED)}
    | {(State.RESOLVED, Event.RESOLVED)}
)

MACHINE = Machine(name="execution", initial=State.NEW, transitions=_TRANSITIONS, final=FINAL, races=EXPECTED_RACES)


class WorkspaceState(StrEnum):
    """Where the workspace of a conversation stands. That people are asked about it is the approval's to know."""

    OPEN = "open"  # calls are staged into it; a commit, a discard or the clock moves it on
    COMMITTING = "committing"  # a commit runs what people let through; the end of its last entry moves it on
    COMMITTED = "committed"  # final: everything that was let through took effect
    PARTLY_COMMITTED = "partly_committed"  # final: something of it did not, or nobody knows, as its entries say
    CONFLICTED = "conflicted"  # final: others had changed the same, and nothing was applied
    DISCARDED = "discarded"  # final: nobody wanted it, nobody decided in time, or nothing of its commit took effect
    MERGED = "merged"  # final: its attempt won, and its entries wait in the workspace of the job now


class WorkspaceEvent(StrEnum):
    """What can happen to a workspace."""

    DECIDED = "decided"  # a commit of some of its entries has come
    COMMITTED = "committed"  # everything of the commit took effect, and nothing else waits
    FAILED = "failed"  # something did not, and nothing else waits
    UNAPPLIED = "unapplied"  # nothing of it did, and nothing else waits
    CONFLICTED = "conflicted"  # the commit found other things than its changes were made from
    REOPENED = "reopened"  # the commit has ended, and calls that were staged after it was proposed still wait
    DISCARDED = "discarded"  # people denied it, or threw it away
    EXPIRED = "expired"  # nobody decided in time
    MERGED = "merged"  # its entries were moved into the workspace of a job


#: A conversation has one of these at most.
LIVE = frozenset({WorkspaceState.OPEN, WorkspaceState.COMMITTING})
_ENDED = frozenset(WorkspaceState) - LIVE
_CROSSING = (WorkspaceEvent.DECIDED, WorkspaceEvent.DISCARDED, WorkspaceEvent.EXPIRED)

WORKSPACE_MACHINE = Machine(
    name="workspace",
    initial=WorkspaceState.OPEN,
    transitions={
        (WorkspaceState.OPEN, WorkspaceEvent.DECIDED): WorkspaceState.COMMITTING,
        (WorkspaceState.OPEN, WorkspaceEvent.DISCARDED): WorkspaceState.DISCARDED,
        (WorkspaceState.OPEN, WorkspaceEvent.EXPIRED): WorkspaceState.DISCARDED,
        (WorkspaceState.OPEN, WorkspaceEvent.MERGED): WorkspaceState.MERGED,
        (WorkspaceState.COMMITTING, WorkspaceEvent.COMMITTED): WorkspaceState.COMMITTED,
        (WorkspaceState.COMMITTING, WorkspaceEvent.FAILED): WorkspaceState.PARTLY_COMMITTED,
        (WorkspaceState.COMMITTING, WorkspaceEvent.UNAPPLIED): WorkspaceState.DISCARDED,
        (WorkspaceState.COMMITTING, WorkspaceEvent.CONFLICTED): WorkspaceState.CONFLICTED,
        (WorkspaceState.COMMITTING, WorkspaceEvent.REOPENED): WorkspaceState.OPEN,
    },
    final=_ENDED,
    # A discard crosses a commit, the clock or another discard: the first one counts.
    races=frozenset(
        {(state, event) for state in _ENDED for event in WorkspaceEvent}
        | {(WorkspaceState.COMMITTING, event) for event in _CROSSING}
    ),
)

#: What ends a workspace whose commit came to this.
COMMIT_ENDS: Mapping[CommitState, WorkspaceEvent] = {
    "committed": WorkspaceEvent.COMMITTED,
    "partly_committed": WorkspaceEvent.FAILED,
    "conflicted": WorkspaceEvent.CONFLICTED,
    "discarded": WorkspaceEvent.UNAPPLIED,
}

"""States of a turn and of a tool call as the agent sees it. Every change of state is a row of a table below.

A turn is born claimed: the transaction that stores it also gives it to a worker, so there is no state in which nobody
is responsible for it.
"""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.transitions import Machine


class State(StrEnum):
    """Where a turn can be, and who moves it on."""

    THINKING = "thinking"  # a worker asks the model under a lease; when the lease runs out the sweeper claims it again
    WAITING = "waiting"  # calls are open; the last missing result moves it on, or going on without it
    FINISHED = "finished"  # final: the model answered without calls, or called `final_answer`
    FAILED = "failed"  # final: no model answered, or the steps or the budget ran out
    STOPPED = "stopped"  # final: a person stopped it; what the model was saying then is thrown away


class Event(StrEnum):
    """What can happen to a turn."""

    CALLS_PROPOSED = "calls_proposed"  # the model called tools, and at least one call must run or wait elsewhere
    CALLS_SETTLED = "calls_settled"  # the model called tools, and each call has its result already
    RESULTS_COMPLETE = "results_complete"  # the last open call got its result
    COMMITTED = "committed"  # an attempt of a job has won, and it is known what became of what it left staged
    WENT_ON = "went_on"  # people think about all open calls, and the model goes on with interim results for them
    TAKEN_OVER = "taken_over"  # the lease ran out; another worker asks again
    ANSWERED = "answered"
    STEPS_EXHAUSTED = "steps_exhausted"
    MODEL_FAILED = "model_failed"
    THROWN_OUT = "thrown_out"  # an attempt of a job made its first wrong step
    BUDGET_SPENT = "budget_spent"  # what may be used is used up; the model was not asked
    GIVEN_UP = "given_up"  # worker after worker died on it
    STOPPED = "stopped"  # a person did not want to wait for its end


#: Endings that only a worker under its lease brings about. One whose lease was lost brings them too late.
_WORKER_EVENTS = (
    Event.CALLS_PROPOSED,
    Event.CALLS_SETTLED,
    Event.ANSWERED,
    Event.STEPS_EXHAUSTED,
    Event.MODEL_FAILED,
    Event.THROWN_OUT,
    Event.BUDGET_SPENT,
)
_SWEEPER_EVENTS = (Event.TAKEN_OVER, Event.GIVEN_UP)
_FINAL = frozenset({State.FINISHED, State.FAILED, State.STOPPED})

MACHINE = Machine(
    name="turn",
    initial=State.THINKING,
    transitions={
        (State.THINKING, Event.CALLS_PROPOSED): State.WAITING,
        (State.THINKING, Event.CALLS_SETTLED): State.THINKING,
        (State.WAITING, Event.RESULTS_COMPLETE): State.THINKING,
        (State.WAITING, Event.COMMITTED): State.FINISHED,
        (State.WAITING, Event.WENT_ON): State.THINKING,
        (State.THINKING, Event.TAKEN_OVER): State.THINKING,
        (State.THINKING, Event.ANSWERED): State.FINISHED,
        (State.THINKING, Event.STEPS_EXHAUSTED): State.FAILED,
        (State.THINKING, Event.MODEL_FAILED): State.FAILED,
        (State.THINKING, Event.THROWN_OUT): State.FAILED,
        (State.THINKING, Event.BUDGET_SPENT): State.FAILED,
        (State.THINKING, Event.GIVEN_UP): State.FAILED,
        (State.THINKING, Event.STOPPED): State.STOPPED,
        (State.WAITING, Event.STOPPED): State.STOPPED,
    },
    final=_FINAL,
    races=frozenset((state, event) for state in (State.WAITING, *_FINAL) for event in _WORKER_EVENTS + _SWEEPER_EVENTS)
    | {(state, Event.STOPPED) for state in _FINAL},  # it ended by itself, or somebody was faster
)


class CallState(StrEnum):
    """Where a tool call can be for the agent; what happens in between is policy's, approval's and the executor's."""

    OPEN = "open"  # proposed; its result moves it on, or the turn that goes on without it
    CONTINUED = "continued"  # the model has its interim result; the real one will be a fact of its own
    STOPPED = "stopped"  # its turn was stopped; its result is read with the next message, and begins no turn
    ANSWERED = "answered"  # final: it has its one result


class CallEvent(StrEnum):
    """What can happen to a tool call."""

    RESULT_CAME = "result_came"
    WENT_ON = "went_on"  # people think about it, and the model goes on meanwhile
    TURN_STOPPED = "turn_stopped"


CALL_MACHINE = Machine(
    name="tool_call",
    initial=CallState.OPEN,
    transitions={
        (CallState.OPEN, CallEvent.RESULT_CAME): CallState.ANSWERED,
        (CallState.OPEN, CallEvent.WENT_ON): CallState.CONTINUED,
        (CallState.CONTINUED, CallEvent.RESULT_CAME): CallState.ANSWERED,
        (CallState.OPEN, CallEvent.TURN_STOPPED): CallState.STOPPED,
        (CallState.CONTINUED, CallEvent.TURN_STOPPED): CallState.STOPPED,
        (CallState.STOPPED, CallEvent.RESULT_CAME): CallState.ANSWERED,
    },
    final=frozenset({CallState.ANSWERED}),
    races=frozenset({(CallState.ANSWERED, CallEvent.RESULT_CAME)}),  # the first result wins
)

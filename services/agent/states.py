"""States of a turn and of a tool call as the agent sees it. Every change of state is a row of a table below.

A turn is born claimed: the transaction that stores it also gives it to a worker, so there is no state in which nobody
is responsible for it.
"""

from __future__ import annotations

from enum import StrEnum

from shared.transitions import Machine


class State(StrEnum):
    """Where a turn can be, and who moves it on."""

    THINKING = "thinking"  # a worker asks the model under a lease; when the lease runs out the sweeper claims it again
    WAITING = "waiting"  # calls are open; the last missing result moves it on, or going on without it
    FINISHED = "finished"  # final: the model answered without calls, or called `final_answer`
    FAILED = "failed"  # final: no model answered, or the steps ran out


class Event(StrEnum):
    """What can happen to a turn."""

    CALLS_PROPOSED = "calls_proposed"  # the model called tools, and at least one call must run or wait elsewhere
    CALLS_SETTLED = "calls_settled"  # the model called tools, and each call has its result already
    RESULTS_COMPLETE = "results_complete"  # the last open call got its result
    WENT_ON = "went_on"  # people think about all open calls, and the model goes on with interim results for them
    TAKEN_OVER = "taken_over"  # the lease ran out; another worker asks again
    ANSWERED = "answered"
    STEPS_EXHAUSTED = "steps_exhausted"
    MODEL_FAILED = "model_failed"
    GIVEN_UP = "given_up"  # worker after worker died on it


#: Endings that only a worker under its lease brings about. One whose lease was lost brings them too late.
_WORKER_EVENTS = (
    Event.CALLS_PROPOSED,
    Event.CALLS_SETTLED,
    Event.ANSWERED,
    Event.STEPS_EXHAUSTED,
    Event.MODEL_FAILED,
)
_SWEEPER_EVENTS = (Event.TAKEN_OVER, Event.GIVEN_UP)

MACHINE = Machine(
    name="turn",
    initial=State.THINKING,
    transitions={
        (State.THINKING, Event.CALLS_PROPOSED): State.WAITING,
        (State.THINKING, Event.CALLS_SETTLED): State.THINKING,
        (State.WAITING, Event.RESULTS_COMPLETE): State.THINKING,
        (State.WAITING, Event.WENT_ON): State.THINKING,
        (State.THINKING, Event.TAKEN_OVER): State.THINKING,
        (State.THINKING, Event.ANSWERED): State.FINISHED,
        (State.THINKING, Event.STEPS_EXHAUSTED): State.FAILED,
        (State.THINKING, Event.MODEL_FAILED): State.FAILED,
        (State.THINKING, Event.GIVEN_UP): State.FAILED,
    },
    final=frozenset({State.FINISHED, State.FAILED}),
    races=frozenset(
        (state, event)
        for state in (State.WAITING, State.FINISHED, State.FAILED)
        for event in _WORKER_EVENTS + _SWEEPER_EVENTS
    ),
)


class CallState(StrEnum):
    """Where a tool call can be for the agent; what happens in between is policy's, approval's and the executor's."""

    OPEN = "open"  # proposed; its result moves it on, or the turn that goes on without it
    CONTINUED = "continued"  # the model has its interim result; the real one will be a fact of its own
    ANSWERED = "answered"  # final: it has its one result


class CallEvent(StrEnum):
    """What can happen to a tool call."""

    RESULT_CAME = "result_came"
    WENT_ON = "went_on"  # people think about it, and the model goes on meanwhile


CALL_MACHINE = Machine(
    name="tool_call",
    initial=CallState.OPEN,
    transitions={
        (CallState.OPEN, CallEvent.RESULT_CAME): CallState.ANSWERED,
        (CallState.OPEN, CallEvent.WENT_ON): CallState.CONTINUED,
        (CallState.CONTINUED, CallEvent.RESULT_CAME): CallState.ANSWERED,
    },
    final=frozenset({CallState.ANSWERED}),
    races=frozenset({(CallState.ANSWERED, CallEvent.RESULT_CAME)}),  # the first result wins
)

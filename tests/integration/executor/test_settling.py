"""Outcomes that come at the same moment: written together, answered one by one, and none spoils another's."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from placet.contracts.messages import ToolCallFinished
from placet.executor.rules import Outcome
from placet.executor.settling import Settling
from placet.executor.states import Event, State
from placet.executor.store import Attempt
from placet.runtime.driver import DatabaseError
from placet.runtime.work import Cause
from tests.support.executor_house import House
from tests.support.executor_tools import a_gate


async def running(house: House, *names: str) -> list[Attempt]:
    """Return the attempts of calls whose tools wait at gates of these names."""
    calls = [house.premises.call("wait", gate=name) for name in names]
    await house.deliver(*(house.premises.permitted(call) for call in calls))
    for name in names:
        await a_gate(name).has_begun()
    rows = [house.premises.execution(call) for call in calls]
    return [
        Attempt(call, row.permit, "default", row.fence, row.begun_at, Cause(**row.cause))
        for call, row in zip(calls, rows, strict=True)
    ]


def a_settling(house: House) -> Settling:
    """Return a settling of the house's own."""
    return Settling(house.service.runtime.units, worker="worker-1")


async def end_tools(house: House, *names: str) -> None:
    """Let the tools end."""
    for name in names:
        a_gate(name).opened.set()
    await house.idle()


async def test_outcomes_of_one_moment_are_written_in_one_transaction(house: House) -> None:
    """Each call gets its own answer, in its own thread, with its own history row."""
    names = ["together-1", "together-2", "together-3"]
    attempts, settling = await running(house, *names), a_settling(house)
    outcomes = [Outcome(Event.SUCCEEDED, 1), Outcome(Event.FAILED, error="no"), Outcome(Event.GAVE_UP, error="lost")]
    await asyncio.gather(*map(settling.settle, attempts, outcomes))
    answers = [await house.answers.get() for _ in attempts]
    assert 1 == len(house.premises.sql("SELECT DISTINCT xmin::text FROM executor.executions"))
    kinds = {}
    for answer in answers:
        assert isinstance(answer.message, ToolCallFinished)
        kinds[answer.message.call_id] = (answer.message.kind, answer.correlation_id)
    expected = zip(attempts, ("succeeded", "failed", "unknown"), strict=True)
    assert {attempt.call.call_id: (kind, attempt.cause.correlation_id) for attempt, kind in expected} == kinds
    assert [["claimed", event] for event in ("succeeded", "failed", "gave_up")] == [
        house.premises.history(attempt.call) for attempt in attempts
    ]
    await end_tools(house, *names)
    assert 0 == house.answers.qsize()


async def test_an_outcome_that_cannot_be_stored_spoils_no_other(house: House) -> None:
    """Its own settler hears the error; those that came along end all the same."""
    names = ["spoilt-1", "spoilt-2", "spoilt-3"]
    attempts, settling = await running(house, *names), a_settling(house)
    outcomes = [Outcome(Event.SUCCEEDED), Outcome(Event.FAILED, error="\x00"), Outcome(Event.SUCCEEDED)]
    results = await asyncio.gather(*map(settling.settle, attempts, outcomes), return_exceptions=True)
    assert [False, True, False] == [isinstance(result, DatabaseError) for result in results]
    states = [house.premises.execution(attempt.call).state for attempt in attempts]
    assert [State.SUCCEEDED, State.RUNNING, State.SUCCEEDED] == states
    await end_tools(house, *names)


async def test_an_outcome_that_comes_twice_is_answered_once(house: House) -> None:
    """The answer to the first commit may have been lost: the same outcome again changes nothing and says nothing."""
    (attempt,), settling = await running(house, "twice"), a_settling(house)
    outcome = Outcome(Event.SUCCEEDED, "done")
    await asyncio.gather(settling.settle(attempt, outcome), settling.settle(attempt, outcome))
    await settling.settle(attempt, outcome)
    await end_tools(house, "twice")
    assert 1 == house.answers.qsize()
    assert ["claimed", "succeeded"] == house.premises.history(attempt.call)


async def test_an_outcome_of_an_older_attempt_ends_nothing(house: House) -> None:
    """Another worker took the call over: what the first one found out late is neither written nor answered."""
    (attempt,), settling = await running(house, "older"), a_settling(house)
    take_over = "UPDATE executor.executions SET fence = fence + 1 WHERE call_id = :id RETURNING fence"
    house.premises.sql(take_over, id=attempt.call.call_id)
    await settling.settle(attempt, Outcome(Event.SUCCEEDED, "late"))
    row = house.premises.execution(attempt.call)
    assert (State.RUNNING, attempt.fence + 1, 0) == (row.state, row.fence, house.answers.qsize())
    await settling.settle(replace(attempt, fence=attempt.fence + 1), Outcome(Event.SUCCEEDED, "in time"))
    assert ("in time", attempt.fence + 1) == await answered(house)
    await end_tools(house, "older")


async def answered(house: House) -> tuple[object, int]:
    """Return data and attempt of the next answer."""
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    return answer.data, answer.attempt

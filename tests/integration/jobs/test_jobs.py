"""Jobs on real PostgreSQL: what is stored, what is sent, what comes twice, late or from elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from placet.contracts.messages import (
    AttemptEnded,
    AttemptRequested,
    AttemptWithdrawn,
    Author,
    CancelJob,
    JobBudget,
    JobCaller,
    JobPlan,
    JobTask,
    RunJob,
    ToolCallFinished,
    ToolCallRefused,
)
from placet.contracts.permit import STOPPED_CALL
from placet.jobs.handlers import sweep, without_broken_off
from placet.runtime.database import Restored
from tests.support.house import Replica


class Stop:
    """Places emergency stops."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica

    async def __call__(self, column: str, value: str | None = None) -> None:
        """Stop what the column names, by default the job of these tests."""
        named = {"tenant": None, "tool": None, "agent": None} | {column: value or STOPS[column]}
        named.pop("all", None)
        row = "INSERT INTO read.stops VALUES ('stop-1', :tenant, :tool, :agent, 'an incident')"
        await self.replica.execute(row, **named)


@pytest.fixture
async def stop(replica: Replica) -> AsyncIterator[Stop]:
    """What places stops; afterwards none is left."""
    yield Stop(replica)
    await replica.execute("DELETE FROM read.stops")


def a_job(*tasks: JobTask, **changes: Any) -> RunJob:
    """Return a job with a division made before, k 2."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "job_id": "job-1",
        "agent": "default",
        "author": Author(kind="person", id="person:ada"),
        "task": "Everything.",
        "tasks": list(tasks),
        "plan": JobPlan(k=2, attempts_max=6),
    }
    return RunJob(**fields | changes)


def an_end(asked: AttemptRequested, answer: str | None = "A", **changes: Any) -> AttemptEnded:
    """Return the end of an attempt that answered."""
    fields: dict[str, Any] = {
        "tenant": asked.tenant,
        "conversation_id": asked.conversation_id,
        "job_id": asked.job_id,
        "attempt_id": asked.attempt_id,
        "answer": None if answer is None else {"answer": answer},
        "input_tokens": 10,
        "output_tokens": 5,
    }
    return AttemptEnded(**fields | changes)


def asked_of(replica: Replica, task: str) -> list[AttemptRequested]:
    """Return the attempts at a task that were asked for."""
    return [each for each in replica.all_sent(AttemptRequested) if each.labels["task"] == task]


async def state(replica: Replica) -> tuple[str, str]:
    """Return a job's state and why."""
    ((found),) = [(row["state"], row["reason"]) for row in await replica.rows("SELECT state, reason FROM jobs.jobs")]
    return found


async def test_a_task_is_given_the_answers_that_it_needs(replica: Replica) -> None:
    """From its first attempt on: what was decided just now is stored before what needs it is drawn."""
    await replica.send(a_job(JobTask(id="a", task="Do a."), JobTask(id="b", task="Do b.", needs=["a"])))
    for each in asked_of(replica, "a"):
        await replica.send(an_end(each, "42"))
    second = asked_of(replica, "b")
    assert [True, True] == ['Answers of earlier tasks:\n{"a": {"answer": "42"}}' in each.text for each in second]
    for each in second:
        await replica.send(an_end(each, "43"))
    assert ("done", "") == await state(replica)
    ((result,),) = [tuple(row.values()) for row in await replica.rows("SELECT result FROM jobs.jobs")]
    assert {"b": {"answer": "43"}} == result


async def test_a_task_that_needs_more_than_can_be_told_goes_on_with_what_can(replica: Replica) -> None:
    """No end of an attempt is buried, and what needs the answers is tried at once."""
    names = [f"a{each}" for each in range(20)]
    tasks = [*(JobTask(id=name, task="Do it.") for name in names), JobTask(id="b", task="Sum up.", needs=names)]
    await replica.send(a_job(*tasks, plan=JobPlan(k=1, attempts_max=6, parallel_max=100)))
    for name in names:
        (asked,) = asked_of(replica, name)
        await replica.send(an_end(asked, "x" * 60_000))
    (last,) = asked_of(replica, "b")
    assert (20, []) == (last.text.count(" … (cut: "), replica.dead)


async def test_the_same_job_and_the_same_end_twice_change_nothing(replica: Replica) -> None:
    """Whether the event is the same or another with the same content."""
    job = a_job(JobTask(id="a", task="Do a."))
    await replica.send(job)
    await replica.send(job)
    first, second = asked_of(replica, "a")
    await replica.send(an_end(first))
    await replica.send(an_end(first))
    (row,) = await replica.rows("SELECT votes, drawn, running FROM jobs.tasks WHERE task_id = 'a'")
    assert ([1], 2, 1) == (list(row["votes"].values()), row["drawn"], row["running"])
    await replica.send(an_end(second))
    assert ("done", "") == await state(replica)
    assert 2 == len(asked_of(replica, "a"))


async def test_an_attempt_of_which_nothing_is_heard_is_replaced_in_its_time(replica: Replica) -> None:
    """Its conversation is withdrawn; what it says later is paid for, said, and no vote."""
    plan = JobPlan(k=1, attempts_max=6)
    await replica.send(a_job(JobTask(id="a", task="Do a."), plan=plan, budget=JobBudget(tokens_per_attempt=100)))
    assert 0 == await sweep(replica.units, lambda _: None)
    await replica.execute("UPDATE jobs.attempts SET deadline = now() - interval '1 second'")
    assert 1 == await sweep(replica.units, lambda _: None)
    await replica.settle()
    first, second = asked_of(replica, "a")
    assert [first.conversation_id] == [each.conversation_id for each in replica.all_sent(AttemptWithdrawn)]
    await replica.send(an_end(first, "late"))
    await replica.send(an_end(second, "in time"))
    (row,) = await replica.rows("SELECT state, tokens FROM jobs.jobs")
    assert ("done", 30) == (row["state"], row["tokens"])
    lines = [row["line"] for row in await replica.rows("SELECT data ->> 'line' AS line FROM jobs.log ORDER BY seq")]
    assert 1 == sum("lost: 100 tokens are counted" in line for line in lines)
    assert 1 == sum("ended too late: it has no vote" in line for line in lines)


async def test_the_time_of_an_attempt_stands_still_while_people_are_asked_in_it(replica: Replica) -> None:
    """It is not lost while its card is open, nor before its whole time after that; then it is."""
    plan = JobPlan(k=1, attempts_max=6, attempt_seconds=60)
    await replica.send(a_job(JobTask(id="a", task="Do a."), plan=plan))
    await replica.execute("UPDATE jobs.attempts SET deadline = now() - interval '1 second'")
    (asked,) = asked_of(replica, "a")
    held = "INSERT INTO read.card_times VALUES (:tenant, :conversation, {})"
    place = {"tenant": "acme", "conversation": asked.conversation_id}
    await replica.execute(held.format("now() - interval '2 minutes'"), **place)
    await replica.execute(held.format("NULL"), **place)
    assert 0 == await sweep(replica.units, lambda _: None)
    await replica.execute("UPDATE read.card_times SET closed_at = now() WHERE closed_at IS NULL")
    assert 0 == await sweep(replica.units, lambda _: None)
    await replica.execute("UPDATE read.card_times SET closed_at = now() - interval '61 seconds'")
    assert 1 == await sweep(replica.units, lambda _: None)


@pytest.mark.parametrize("where", ["its attempt", "its changes"])
async def test_the_time_of_an_attempt_stands_still_while_people_are_asked_in_a_job_of_its(
    replica: Replica, where: str
) -> None:
    """In an attempt of a job that it has done, also of one within that, and about what such a job changes."""
    plan = JobPlan(k=1, attempts_max=6, attempt_seconds=60)
    tasks = {name: JobTask(id=name, task=f"Do {name}.") for name in "abc"}
    await replica.send(a_job(tasks["a"], plan=plan))
    for job_id, outer, inner in (("job-2", "a", "b"), ("job-3", "b", "c")):
        (asked,) = asked_of(replica, outer)
        caller = JobCaller(conversation_id=asked.conversation_id, call_id=f"call-{outer}")
        # Its own attempts have more time, so that only the first one's is over.
        patient = JobPlan(k=1, attempts_max=6)
        await replica.send(a_job(tasks[inner], job_id=job_id, caller=caller, plan=patient, depth=2))
    await replica.execute("UPDATE jobs.attempts SET deadline = now() - interval '1 second' WHERE job_id = 'job-1'")
    if where == "its attempt":
        (innermost,) = asked_of(replica, "c")
        held = "INSERT INTO read.card_times VALUES ('acme', :conversation, NULL)"
        ended = "UPDATE read.card_times SET closed_at = now() - make_interval(secs => :seconds)"
        await replica.execute(held, conversation=innermost.conversation_id)
    else:
        ended = "UPDATE jobs.jobs SET state = 'done', ended_at = now() - make_interval(secs => :seconds)"
        ended += " WHERE job_id = 'job-3'"
        await replica.execute("UPDATE jobs.jobs SET state = 'waiting', workspace = 'w' WHERE job_id = 'job-3'")
    assert 0 == await sweep(replica.units, lambda _: None)
    await replica.execute(ended, seconds=0)
    assert 0 == await sweep(replica.units, lambda _: None)
    await replica.execute(ended, seconds=61)
    assert 1 == await sweep(replica.units, lambda _: None)


async def test_an_attempt_that_no_agent_service_takes_says_so_soon_and_once(replica: Replica) -> None:
    """After half a minute, in the job's log and its own reason, which what it answers after all replaces."""
    await replica.send(a_job(JobTask(id="a", task="Do a.")))
    first, second = asked_of(replica, "a")
    assert 0 == await sweep(replica.units, lambda _: None)
    await replica.execute("UPDATE jobs.attempts SET begun_at = begun_at - interval '31 seconds'")
    taken = "INSERT INTO read.taken_conversations VALUES ('acme', :conversation)"
    await replica.execute(taken, conversation=first.conversation_id)
    assert [1, 0] == [await sweep(replica.units, lambda _: None) for _ in range(2)]
    said = "SELECT data ->> 'line' AS line FROM jobs.log ORDER BY seq DESC LIMIT 1"
    ((line,),) = [tuple(row.values()) for row in await replica.rows(said)]
    assert "task a, attempt 2 waits: no agent service has taken it for 30 s" == line
    reasons = "SELECT reason FROM jobs.attempts WHERE attempt = 2"
    waits = await replica.rows(reasons)
    await replica.send(an_end(second))
    assert ["No agent service had taken it after 30 s.", ""] == [
        row["reason"] for row in (*waits, *await replica.rows(reasons))
    ]


async def test_attempts_that_no_model_answers_wait_and_do_not_count(replica: Replica) -> None:
    """The pause is a row: the sweep asks the next agent when it is over, once; the first answer ends the silence."""
    await replica.send(a_job(JobTask(id="a", task="Do a."), plan=JobPlan(k=1, attempts_max=1)))
    for number in range(1, 4):
        asked = asked_of(replica, "a")[-1]
        await replica.send(an_end(asked, answer=None, flags=["no_model"], reason="Its model did not answer."))
        assert number == len(asked_of(replica, "a"))
        assert 0 == await sweep(replica.units, lambda _: None)
        # As if nobody had looked for hours: its time begins when its agent is asked.
        await replica.execute(
            "UPDATE jobs.attempts SET begins_at = now(), deadline = now() WHERE begins_at IS NOT NULL"
        )
        assert (1, 0) == (await sweep(replica.units, lambda _: None), await sweep(replica.units, lambda _: None))
        await replica.settle()
    await replica.send(an_end(asked_of(replica, "a")[-1]))
    assert ("done", "") == await state(replica)
    assert [{"silent_since": None}] == [dict(row) for row in await replica.rows("SELECT silent_since FROM jobs.jobs")]


async def test_a_job_that_no_model_answers_for_long_fails_and_says_so(replica: Replica) -> None:
    """Also the division: nobody said that one was unsound."""
    await replica.send(a_job())
    ended: dict[str, Any] = {"answer": None, "flags": ["no_model"], "reason": "Its model did not answer."}
    await replica.send(an_end(asked_of(replica, "division")[-1], **ended))
    await replica.execute("UPDATE jobs.attempts SET begins_at = now() WHERE begins_at IS NOT NULL")
    await replica.execute("UPDATE jobs.jobs SET silent_since = now() - interval '15 minutes'")
    await sweep(replica.units, lambda _: None)
    await replica.settle()
    await replica.send(an_end(asked_of(replica, "division")[-1], **ended))
    why = "No model answered for 15 minutes. The last reason: Its model did not answer."
    assert ("failed", why) == await state(replica)


async def test_an_attempt_that_waits_for_a_model_ends_with_its_job(replica: Replica) -> None:
    """Its agent was never asked, so it has no conversation to end, and what it used is nothing."""
    budget = JobBudget(tokens_per_attempt=100)
    caller = JobCaller(conversation_id="c1", call_id="call")
    await replica.send(a_job(JobTask(id="a", task="Do a."), plan=JobPlan(k=1), budget=budget, caller=caller))
    await replica.send(an_end(asked_of(replica, "a")[0], answer=None, flags=["no_model"]))
    await replica.send(CancelJob(tenant="acme", job_id="job-1", by="person:ada"))
    await replica.execute("UPDATE jobs.attempts SET begins_at = now() WHERE begins_at IS NOT NULL")
    assert (0, []) == (await sweep(replica.units, lambda _: None), replica.all_sent(AttemptWithdrawn))
    (answer,) = replica.all_sent(ToolCallFinished)
    assert 15 == answer.data["tokens"]


async def test_a_call_is_answered_what_its_job_used(replica: Replica) -> None:
    """Attempts that ran when it ended count with their shares: what these used is told when nobody waits any more."""
    budget = JobBudget(tokens_per_attempt=100)
    caller = JobCaller(conversation_id="c1", call_id="call")
    await replica.send(a_job(JobTask(id="a", task="Do a."), budget=budget, caller=caller))
    await replica.send(an_end(asked_of(replica, "a")[0], cost=0.5))
    await replica.send(CancelJob(tenant="acme", job_id="job-1", by="person:ada"))
    (answer,) = replica.all_sent(ToolCallFinished)
    assert ("cancelled", 115, 1.0) == tuple(answer.data[name] for name in ("state", "tokens", "cost"))


STOPS = {"tool": "accomplish", "agent": "default", "tenant": "acme", "all": None}


@pytest.mark.parametrize("stopped", STOPS)
async def test_no_job_begins_under_a_stop(stopped: str, stop: Stop) -> None:
    """It was permitted before: its call is refused with the reason, once, and no attempt is asked for."""
    replica, asked = stop.replica, a_job(caller=JobCaller(conversation_id="c1", call_id="call"))
    await stop(stopped)
    for _ in range(2):
        await replica.send(asked)
    assert ("failed", STOPPED_CALL) == await state(replica)
    (answer,) = replica.all_sent(ToolCallRefused)
    assert ("c1", "call", "accomplish", "refused", STOPPED_CALL) == (
        answer.conversation_id,
        answer.call_id,
        answer.tool,
        answer.kind,
        answer.reason,
    )
    assert ([], []) == (replica.all_sent(AttemptRequested), replica.all_sent(ToolCallFinished))


@pytest.mark.parametrize(("stopped", "begun"), [("tool", 1), ("agent", 0), ("tenant", 0), ("all", 0)])
async def test_a_job_that_a_person_asked_for_is_no_call_of_a_tool(stopped: str, begun: int, stop: Stop) -> None:
    """It is stopped with its agent, its tenant or all."""
    await stop(stopped)
    await stop.replica.send(a_job())
    assert begun == len(stop.replica.all_sent(AttemptRequested))


@pytest.mark.parametrize(("column", "value"), [("tool", "refund"), ("agent", "treasury"), ("tenant", "globex")])
async def test_a_stop_of_something_else_keeps_no_job(column: str, value: str, stop: Stop) -> None:
    """It begins as ever."""
    await stop(column, value)
    await stop.replica.send(a_job(caller=JobCaller(conversation_id="c1", call_id="call")))
    assert 1 == len(stop.replica.all_sent(AttemptRequested))


async def test_a_task_waits_for_room_in_the_budget(replica: Replica) -> None:
    """One share at a time: the second attempt begins when the first is settled; without room for one the job fails."""
    budget = JobBudget(tokens=130, tokens_per_attempt=100)
    tasks = (JobTask(id="a", task="Do a."), JobTask(id="b", task="Do b."))
    await replica.send(a_job(*tasks, budget=budget))
    assert (1, 0) == (len(asked_of(replica, "a")), len(asked_of(replica, "b")))
    await replica.send(an_end(asked_of(replica, "a")[0]))
    assert (2, 0) == (len(asked_of(replica, "a")), len(asked_of(replica, "b")))
    await replica.send(an_end(asked_of(replica, "a")[1]))
    assert 1 == len(asked_of(replica, "b"))
    await replica.send(an_end(asked_of(replica, "b")[0]))
    used = "45 of 130 tokens are used, and an attempt may use 100"
    assert ("failed", f"The budget has no room for another attempt: {used}.") == await state(replica)


async def test_no_more_tasks_are_tried_at_a_time_than_may_be(replica: Replica) -> None:
    """The next one begins when a place is free, in the order of the division."""
    tasks = [JobTask(id=name, task=f"Do {name}.") for name in "abc"]
    await replica.send(a_job(*tasks, plan=JobPlan(k=1, parallel_max=2)))
    assert ["a", "b"] == [each.labels["task"] for each in replica.all_sent(AttemptRequested)]
    await replica.send(an_end(asked_of(replica, "b")[0]))
    assert ["a", "b", "c"] == [each.labels["task"] for each in replica.all_sent(AttemptRequested)]


@pytest.mark.parametrize("tenant", ["acme", "umbrella"])
async def test_only_its_own_tenant_cancels_a_job(replica: Replica, tenant: str) -> None:
    """Another tenant's word is a dead letter and changes nothing."""
    await replica.send(a_job(JobTask(id="a", task="Do a.")))
    await replica.send(CancelJob(tenant=tenant, job_id="job-1", by="person:grace"))
    expected = ("cancelled", "Cancelled by person:grace.") if tenant == "acme" else ("running", "")
    assert expected == await state(replica)
    assert (2 if tenant == "acme" else 0) == len(replica.all_sent(AttemptWithdrawn))


async def test_jobs_from_before_a_restore_are_cancelled_before_anything_is_consumed(replica: Replica) -> None:
    """What an attempt did since the backup would be done again; a job of afterwards goes on."""
    for number in (1, 2):
        await replica.send(a_job(JobTask(id="a", task="Do a."), job_id=f"job-{number}"))
    ends = []
    statement = "SELECT clock_timestamp() - interval '1 hour' AS at"
    (then,) = [row["at"] for row in await replica.rows(statement)]
    await replica.execute("UPDATE jobs.jobs SET created_at = created_at - interval '2 hours' WHERE job_id = 'job-1'")
    for restored in (None, Restored(then, then)):
        replica.units.database.restored = restored
        async with without_broken_off(replica.units, lambda _: None):
            found = await replica.rows("SELECT state, reason FROM jobs.jobs ORDER BY job_id")
            ends.append([row["state"] for row in found])
    replica.units.database.restored = None
    assert [["running", "running"], ["cancelled", "running"]] == ends
    await replica.settle()
    withdrawn = {each.conversation_id for each in replica.all_sent(AttemptWithdrawn)}
    assert {each.conversation_id for each in asked_of(replica, "a") if each.job_id == "job-1"} == withdrawn

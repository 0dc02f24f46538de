"""A worker was lost: what is repeated, what is given up, and by whom."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from placet.contracts.ids import derived_id, new_id
from placet.contracts.messages import ToolCall, ToolCallFinished
from placet.contracts.messages.stage import StagePlan
from placet.executor import rules
from placet.executor.states import State
from placet.executor.store import Attempt, Holder, renew
from placet.runtime.work import Cause
from placet.tools import Ran
from placet.tools.files.pack import Files
from tests.builders import a_call
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import TOOLS, Gate, a_gate
from tests.support.workspaces import Scene, file_rulebook

HOLDER = Holder("worker-1", 7200)
AS_USUAL: Mapping[str, str] = MappingProxyType({})


async def a_lost_call(
    place: Premises, tool: str, of: Mapping[str, str] = AS_USUAL, **permit: Any
) -> tuple[ToolCall, Gate]:
    """Return a call whose worker went away in the middle of it, its lease run out, its gate open."""
    call, gate = await an_orphaned_call(place, tool, of, **permit)
    place.end_lease(call)
    return call, gate


async def an_orphaned_call(
    place: Premises, tool: str, of: Mapping[str, str] = AS_USUAL, **permit: Any
) -> tuple[ToolCall, Gate]:
    """Return a call whose worker went away in the middle of it, its lease not yet run out, its gate open.

    `of` names its tenant and agent where they are not the usual ones.
    """
    name = new_id()
    digest, pool = place.catalog[tool].schema_digest, place.catalog[tool].pool
    call, gate = a_call(tool=tool, schema_digest=digest, arguments={"gate": name}, **of), a_gate(name)
    async with open_house(place, executor_pools=pool, executor_worker="lost", drain_seconds=0.01) as house:
        await house.deliver(place.permitted(call, pool=pool, **permit), pool=pool)
        await gate.has_begun()
    gate.opened.set()
    return call, gate


async def test_a_lost_call_is_given_up_once_by_any_number_of_executors(place: Premises) -> None:
    """Three replicas sweep at the same moment: one answer says that nobody knows, and the tool does not run again."""
    async with (
        open_house(place, executor_worker="a") as a,
        open_house(place, executor_worker="b") as b,
        open_house(place, executor_worker="c") as c,
    ):
        call, gate = await a_lost_call(place, "wait")
        assert 1 == sum(await asyncio.gather(a.sweep_all(), b.sweep_all(), c.sweep_all()))
        await asyncio.gather(a.idle(), b.idle(), c.idle())
        answers = [house.answers.get_nowait().message for house in (a, b, c) if house.answers.qsize()]
    (answer,) = answers
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", rules.LOST_TEXT, 1) == (answer.kind, answer.error, answer.attempt)
    assert 1 == len(gate.attempts)
    assert ["claimed", "gave_up"] == place.history(call)


async def test_an_unknown_outcome_is_one_warning_that_says_whose_it_is(place: Premises) -> None:
    """With tenant, conversation, tool and trace; nothing else says it a second time."""
    with capture_logs() as lines:
        async with open_house(place) as house:
            call, _ = await a_lost_call(place, "wait")
            await house.sweep("give-up-lost")
            answer = await house.answers.get()
    told = [line for line in lines if line["log_level"] == "warning" and line.get("call_id") == call.call_id]
    names = ("event", "tenant", "conversation_id", "tool", "to_state", "trace_id")
    of_call = (call.tenant, call.conversation_id, "wait", "unknown", answer.traceparent[3:35])
    assert [("execution.gave_up", *of_call)] == [tuple(line[name] for name in names) for line in told]


async def test_a_lost_repeatable_call_is_repeated_once_by_any_number_of_executors(place: Premises) -> None:
    """Two replicas sweep at the same moment: one of them runs it again, with the next fence and the same key."""
    async with open_house(place, executor_worker="a") as a, open_house(place, executor_worker="b") as b:
        call, gate = await a_lost_call(place, "wait_repeatable")
        assert 1 == sum(await asyncio.gather(a.sweep_all(), b.sweep_all()))
        await asyncio.gather(a.idle(), b.idle())
        answers = [house.answers.get_nowait().message for house in (a, b) if house.answers.qsize()]
    (answer,) = answers
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", 2) == (answer.kind, answer.attempt)
    key = derived_id("idempotency", call.call_id)
    assert [(1, key), (2, key)] == gate.attempts


async def test_the_answer_of_a_lost_call_goes_back_to_its_permit(place: Premises) -> None:
    """Causation and correlation outlive the worker: they stand in the row."""
    async with open_house(place) as house:
        await a_lost_call(place, "wait")
        await house.sweep("give-up-lost")
        answer = await house.answers.get()
    (begun,) = place.sql("SELECT message_id FROM executor.history WHERE event = 'claimed'")
    assert begun.message_id == answer.causation_id
    assert begun.message_id == answer.correlation_id


async def test_a_lost_call_is_not_repeated_after_its_permit_has_expired(place: Premises) -> None:
    """Nothing begins under a permit that is too old, not even what is safe to repeat."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_repeatable")
        place.sql("UPDATE executor.executions SET permit_expires_at = now()")
        assert 1 == await house.sweep_all()
    assert (State.UNKNOWN, 1) == (place.execution(call).state, len(gate.attempts))


async def test_no_attempt_begins_under_a_permit_that_is_over(place: Premises) -> None:
    """Whoever repeats lost calls leaves it alone, whether or not somebody else has given it up by then."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_repeatable")
        place.sql("UPDATE executor.executions SET permit_expires_at = now()")
        assert 0 == await house.sweep("repeat-lost")
    assert (State.RUNNING, 1) == (place.execution(call).state, len(gate.attempts))


@pytest.mark.parametrize("gone", ["key", "person"])
async def test_a_lost_call_is_not_repeated_whose_yes_is_void_by_now(place: Premises, gone: str) -> None:
    """The key of the yes was revoked, or its maker left, after the first attempt: it ends, and nobody knows how."""
    yes: dict[str, Any] = {"issuer": "approval", "by": ["person:ada"], "said_with": ["key-ada"]}
    call, gate = await a_lost_call(place, "wait_repeatable", **yes)
    void(place, gone)
    async with open_house(place) as house:
        assert [1, 0, 1] == [await house.sweep(duty) for duty in ("repeat-lost", "repeat-lost", "give-up-lost")]
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", rules.LOST_TEXT) == (answer.kind, answer.error)
    assert (1, ["claimed", "gave_up"]) == (len(gate.attempts), place.history(call))


async def test_a_void_yes_leaves_a_lost_call_to_its_probe(place: Premises) -> None:
    """Looking changes nothing: where the tool can say whether it ran, it is asked, and the tool does not run again."""
    call, gate = await a_lost_call(place, "wait_repeatable_verified", issuer="approval", said_with=["key-ada"])
    gate.finding = Ran(data={"order": 7})
    place.pass_deadline(call)
    void(place, "key")
    async with open_house(place) as house:
        assert [1, 1] == [await house.sweep(duty) for duty in ("repeat-lost", "verify-lost")]
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", {"order": 7}) == (answer.kind, answer.data)
    assert (1, ["claimed", "probed", "succeeded"]) == (len(gate.attempts), place.history(call))


def void(place: Premises, gone: str) -> None:
    """Let nobody's yes count any more that was Ada's: her key is revoked, or she has left."""
    if gone == "key":
        place.sql("INSERT INTO read.api_keys VALUES ('key-ada', 'acme', now())")
    else:
        people = {"people": {"ada": {"active": False}}}
        place.rulebook.write_text(json.dumps(json.loads(place.rulebook.read_text()) | people))


async def test_what_was_not_safe_to_repeat_when_it_began_is_not_repeated(place: Premises) -> None:
    """A tool that was declared safe to repeat since does not make an attempt of before repeatable."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_repeatable")
        place.sql("UPDATE executor.executions SET idempotent = false")
        assert 0 == await house.sweep("repeat-lost")
    assert 1 == len(gate.attempts)
    assert State.RUNNING == place.execution(call).state


async def test_a_call_that_changed_in_the_database_is_not_repeated(place: Premises) -> None:
    """The permit is verified again before another attempt; a stored call that no longer fits is given up, loudly."""
    before = REGISTRY.get_sample_value("placet_security_alerts_total", {"queue": "executor.default"}) or 0
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_repeatable")
        place.sql("""UPDATE executor.executions SET call = replace(call, '\\"gate\\"', '\\"door\\"')""")
        assert 1 == await house.sweep("repeat-lost")
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", rules.TAMPERED_TEXT) == (answer.kind, answer.error)
    assert 1 == len(gate.attempts)
    assert State.UNKNOWN == place.execution(call).state
    assert before + 1 == REGISTRY.get_sample_value("placet_security_alerts_total", {"queue": "executor.default"})


async def test_a_row_that_names_another_tool_is_not_repeated(place: Premises) -> None:
    """A row changed to look repeatable does not make a tool repeatable that is not."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait")
        digest = place.catalog["wait_repeatable"].schema_digest
        place.sql("UPDATE executor.executions SET idempotent = true, schema_digest = :digest", digest=digest)
        assert 1 == await house.sweep("repeat-lost")
    assert (State.UNKNOWN, 1) == (place.execution(call).state, len(gate.attempts))


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
async def test_a_tool_must_have_been_and_still_be_safe_to_repeat(place: Premises, *, before: bool, after: bool) -> None:
    """Both count: what the catalogue said when the attempt began, and what it says now."""
    call, gate = await a_lost_call(place, "wait_repeatable" if before else "wait")
    tools = {name: TOOLS[name] | {"idempotent": after} for name in ("wait", "wait_repeatable")}
    place.rulebook.write_text(json.dumps({"version": 1, "tools": tools}))
    async with open_house(place) as house:
        assert 1 == await house.sweep_all()
    assert (State.UNKNOWN, 1) == (place.execution(call).state, len(gate.attempts))


async def test_what_was_to_be_staged_is_not_staged_by_another_tool(
    place: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was lost, and the tool takes other arguments since: who let it be staged judged those of before."""
    file_rulebook(place)
    monkeypatch.setenv("FILES_ROOT", str(place.folder / "files"))
    begun = asyncio.Event()

    async def stage(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(Files, "stage", stage)
        async with open_house(place, executor_worker="lost", drain_seconds=0.01) as house:
            call = Scene(house).call("create_file", path="a.txt", content="a")
            await house.deliver(place.permitted(call, mode="stage", plan=StagePlan()))
            await begun.wait()
    place.end_lease(call)
    book = json.loads(place.rulebook.read_text())
    book["tools"]["create_file"]["parameters"]["description"] = "Another tool."
    place.rulebook.write_text(json.dumps(book))
    async with open_house(place) as house:
        assert 1 == await house.sweep("repeat-lost")
        await house.answer()
    assert State.UNKNOWN == place.execution(call).state
    assert [] == place.sql("SELECT call_id FROM executor.workspace_entries")


@pytest.mark.parametrize("tool", ["pay", "pay_repeatable"])
async def test_lost_calls_of_other_pools_are_left_alone(place: Premises, tool: str) -> None:
    """Only executors of the call's own pool end or repeat it."""
    async with open_house(place, executor_pools="default") as other:
        call, _ = await a_lost_call(place, tool)
        assert 0 == await other.sweep_all()
        assert State.RUNNING == place.execution(call).state
        async with open_house(place, executor_pools="*") as own:
            assert 1 == await own.sweep_all()
            await own.answer()
    assert place.execution(call).finished_at is not None


@pytest.mark.parametrize("tool", ["wait", "wait_repeatable", "wait_verified"])
async def test_a_live_lease_is_left_alone(house: House, tool: str) -> None:
    """A worker that is not silent keeps its call, whatever could be done about one that is lost."""
    gate = a_gate(name := new_id())
    call = house.premises.call(tool, gate=name)
    await house.deliver(house.premises.permitted(call))
    await gate.has_begun()
    house.premises.pass_deadline(call)
    assert 0 == await house.sweep_all()
    assert (1, []) == (len(gate.attempts), gate.looks)
    gate.opened.set()
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert "succeeded" == answer.kind


async def test_only_the_newest_attempt_renews_its_lease(house: House) -> None:
    """Renewing moves the lease on; an attempt with an older fence, or of a call that is over, is told to stop."""
    place, database = house.premises, house.service.runtime.database
    call, gate = place.call("wait", gate="renewed"), a_gate("renewed")
    await house.deliver(place.permitted(call))
    await gate.has_begun()
    begun = place.execution(call)
    attempt = Attempt(call, begun.permit, "default", 1, begun.begun_at, Cause())
    older = replace(attempt, fence=0)
    async with database.transaction() as connection:
        assert [True, False] == [await renew(connection, each, HOLDER) for each in (attempt, older)]
    assert place.execution(call).lease_until > begun.lease_until
    gate.opened.set()
    await house.idle()
    async with database.transaction() as connection:
        assert not await renew(connection, attempt, HOLDER)


async def test_a_repetition_waits_for_a_slot_like_any_other(place: Premises) -> None:
    """An executor with all slots busy leaves the call to others and gives the rest up all the same."""
    busy = a_gate("busy")
    async with open_house(place, executor_slots=1, executor_patience_seconds=0.05) as house:
        repeatable, _ = await an_orphaned_call(place, "wait_repeatable")
        lost, _ = await an_orphaned_call(place, "wait")
        place.end_lease(repeatable)
        place.end_lease(lost)
        await house.deliver(place.permitted(place.call("wait", gate="busy")))
        await busy.has_begun()
        assert 1 == await house.sweep_all()
        assert (State.RUNNING, State.UNKNOWN) == (place.execution(repeatable).state, place.execution(lost).state)
        busy.opened.set()
        await house.idle()
        assert 1 == await house.sweep("repeat-lost")
        await house.idle()
    assert State.SUCCEEDED == place.execution(repeatable).state


async def test_slots_bound_what_runs_over_all_pools(place: Premises) -> None:
    """With one slot for two pools, calls that wait on both queues begin one after the other."""
    names = ["bound-1", "bound-2", "bound-3"]
    calls = [place.call(tool, gate=name) for tool, name in zip(["wait", "wait", "pay"], names, strict=True)]
    pools = [place.catalog[call.tool].pool for call in calls]
    async with open_house(place, executor_pools="default,payments", executor_slots=1) as house:
        permits = [place.permitted(call, pool=pool) for call, pool in zip(calls, pools, strict=True)]
        await house.deliver(permits[0])
        await a_gate(names[0]).has_begun()
        waiting = [house.deliver(permit, pool=permit.pool) for permit in permits[1:]]
        for name in names:
            a_gate(name).opened.set()
        await asyncio.gather(*waiting)
        await house.idle()
    rows = sorted((place.execution(call) for call in calls), key=lambda row: row.begun_at)
    assert [State.SUCCEEDED] * 3 == [row.state for row in rows]
    assert all(before.finished_at <= after.begun_at for before, after in pairwise(rows))


async def test_a_permit_without_a_slot_goes_back_to_its_queue(place: Premises) -> None:
    """After its patience the delivery is passed on unclaimed, and runs when it comes again."""
    gate = a_gate("back")
    calls = place.call("wait", gate="back"), place.call("add", a=1, b=2)
    async with open_house(place, executor_slots=1, executor_patience_seconds=0.05) as house:
        await house.deliver(place.permitted(calls[0]))
        await gate.has_begun()
        delivering = asyncio.create_task(house.deliver(place.permitted(calls[1])))
        await house.bus.retried.wait()
        assert place.execution(calls[1]) is None
        gate.opened.set()
        await delivering
        await house.idle()
    assert State.SUCCEEDED == place.execution(calls[1]).state
    assert 0 == house.dead.qsize()

"""The tool runs: how an attempt ends, and what becomes of one that ends in doubt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from placet.contracts.ids import derived_id
from placet.contracts.messages import ToolCallFinished, ToolCallProgressed
from placet.contracts.messages.tool_calls import LEFT_OUT
from placet.contracts.permit import MAY_HAVE_RUN
from placet.contracts.topology import Destination, queue
from placet.executor.states import State
from placet.runtime.bus import Delivery, PublishRefused
from placet.runtime.consumer import read_delivery
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import a_gate


async def test_a_tool_that_says_no_fails_with_its_own_words(house: House) -> None:
    """The tool's text is for the model, its data too."""
    call = house.premises.call("say_no")
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("failed", "The product is sold out.", {"variants": ["38"]}) == (answer.kind, answer.error, answer.data)
    assert ["claimed", "failed"] == house.premises.history(call)


async def test_a_call_that_people_approved_says_that_it_runs(house: House) -> None:
    """Who said yes sees that it runs; what nobody was asked about, or has ended in a moment, has its answer alone."""
    told: asyncio.Queue[tuple[float | None, str, int]] = asyncio.Queue()

    async def catch(delivery: Delivery) -> None:
        for each in read_delivery(delivery)[0]:
            if isinstance(each.message, ToolCallProgressed):
                told.put_nowait((each.message.fraction, each.message.text, each.message.attempt))

    house.bus.subscribe(queue("agent.progress"), catch)
    await house.deliver(house.premises.permitted(house.premises.call("say_no"), issuer="approval"))
    assert isinstance(await house.answer(), ToolCallFinished)
    for issuer in ("policy", "approval"):
        call = house.premises.call("wait", gate=issuer)
        await house.deliver(house.premises.permitted(call, issuer=issuer))
    assert (None, "", 1) == await told.get()
    for issuer in ("policy", "approval"):
        a_gate(issuer).opened.set()
        assert isinstance(await house.answer(), ToolCallFinished)
    await house.idle()
    assert told.empty()


async def test_a_call_whose_reply_no_broker_takes_is_answered_without_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told that it ran, once, as the executor has it; nobody has to give up a letter for that."""
    publish = house.bus.publish

    async def refuse_sums(destination: Destination, body: bytes, **options: Any) -> None:
        if b'"sum"' in body:
            raise PublishRefused("message size is larger than configured max size")
        await publish(destination, body, **options)

    monkeypatch.setattr(house.bus, "publish", refuse_sums)
    call = house.premises.call("add", a=1, b=2)
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    await house.idle()
    assert isinstance(answer, ToolCallFinished)
    assert (call.call_id, "succeeded", LEFT_OUT, []) == (answer.call_id, answer.kind, answer.data, answer.ui_blocks)
    assert (State.SUCCEEDED, 0) == (house.premises.execution(call).state, house.answers.qsize())
    assert "too large: sent in brief" in await house.buried()
    assert [(0,)] == house.premises.sql("SELECT count(*) FROM executor.outbox")


async def test_a_tool_that_breaks_fails_with_neutral_words(house: House) -> None:
    """What an exception says is for operators only."""
    call = house.premises.call("break_down")
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("failed", True, True) == (
        answer.kind,
        "may have taken effect" in answer.error,
        "do not repeat it before a person has checked" in answer.error,
    )
    assert "hunter2" not in answer.model_dump_json()
    assert "hunter2" not in str(house.premises.execution(call))


async def test_a_tool_that_does_not_know_leaves_the_call_unknown(house: House) -> None:
    """A tool that is not safe to repeat and does not know its effect is told as it is."""
    call = house.premises.call("doubt")
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", f"The provider did not answer. {MAY_HAVE_RUN}") == (answer.kind, answer.error)
    assert ["claimed", "gave_up"] == house.premises.history(call)


async def test_a_tool_over_its_time_leaves_the_call_unknown(house: House) -> None:
    """A tool that is not safe to repeat is stopped and not repeated: it may have run."""
    call = house.premises.call("hang", gate="over-time")
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", f"The tool did not answer within 0.05 seconds. {MAY_HAVE_RUN}") == (
        answer.kind,
        answer.error,
    )
    assert a_gate("over-time").cancelled.is_set()
    assert 0 == await house.sweep("repeat-lost")
    assert 1 == len(a_gate("over-time").attempts)


async def test_a_repeatable_tool_over_its_time_is_repeated_with_the_same_key(house: House) -> None:
    """The lease ends with the attempt; the next one has the next fence, the same key, and answers."""
    gate = a_gate("repeated")
    call = house.premises.call("hang_repeatable", gate="repeated")
    await house.deliver(house.premises.permitted(call))
    await house.idle()
    gate.opened.set()
    assert 1 == await house.sweep("repeat-lost")
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", "done by attempt 2", 2) == (answer.kind, answer.data, answer.attempt)
    key = derived_id("idempotency", call.call_id)
    assert [(1, key), (2, key)] == gate.attempts
    assert ["claimed", "let_go", "reclaimed", "succeeded"] == house.premises.history(call)


async def test_a_repeatable_tool_is_given_up_after_its_last_attempt(place: Premises) -> None:
    """Two attempts allowed and two in doubt: unknown, once, and nothing is left to sweep."""
    call = place.call("hang_repeatable", gate="given-up")
    async with open_house(place, executor_attempts_max=2) as house:
        await house.deliver(place.permitted(call))
        await house.idle()
        assert 1 == await house.sweep("repeat-lost")
        answer = await house.answer()
        assert isinstance(answer, ToolCallFinished)
        assert ("unknown", 2) == (answer.kind, answer.attempt)
        assert (0, 0) == (await house.sweep("repeat-lost"), await house.sweep("give-up-lost"))
    assert ["claimed", "let_go", "reclaimed", "gave_up"] == place.history(call)


async def test_a_blocking_tool_over_its_time_keeps_its_slot(house: House) -> None:
    """The model hears at once that nobody knows; the slot is free when the thread ends, and its word is evidence."""
    gate, slots = a_gate("outlives"), house.service.slots
    assert slots is not None
    call = house.premises.call("hang_blocking", gate="outlives")
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert "unknown" == answer.kind
    assert 1 == slots.busy
    gate.opened.set()
    await house.idle()
    assert 0 == slots.busy
    assert ["claimed", "gave_up", "succeeded (late)"] == house.premises.history(call)
    assert State.UNKNOWN == house.premises.execution(call).state
    assert 0 == house.answers.qsize()


async def test_an_attempt_whose_lease_is_lost_is_stopped_and_not_heard(place: Premises) -> None:
    """When another attempt holds the call, the first one's tool is cancelled and settles nothing."""
    gate = a_gate("lease-lost")
    call = place.call("wait_repeatable", gate="lease-lost")
    async with open_house(place, executor_lease_seconds=1) as house:
        await house.deliver(place.permitted(call))
        await gate.has_begun()
        place.sql("UPDATE executor.executions SET fence = 2, lease_until = now() + interval '1 hour'")
        await asyncio.to_thread(gate.cancelled.wait)
        await house.idle()
        assert 0 == house.answers.qsize()
    assert (State.RUNNING, 2) == (place.execution(call).state, place.execution(call).fence)
    assert ["claimed"] == place.history(call)


async def test_an_older_attempt_that_ends_late_is_evidence_only(place: Premises) -> None:
    """A worker thought dead wakes up after the next attempt has answered: one answer, and its word in the history."""
    gate = a_gate("stale")
    call = place.call("wait_repeatable", gate="stale")
    async with open_house(place, executor_worker="slow") as slow, open_house(place, executor_worker="quick") as quick:
        await slow.deliver(place.permitted(call))
        await gate.has_begun()
        place.end_lease(call)
        assert 1 == await quick.sweep("repeat-lost")
        await gate.has_begun()
        gate.opened.set()
        await asyncio.gather(slow.idle(), quick.idle())
        assert (0, 1) == (slow.answers.qsize(), quick.answers.qsize())
        answer = await quick.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("done by attempt 2", 2) == (answer.data, answer.attempt)
    late = [event for event in place.history(call) if "late" in event]
    assert ["succeeded (late)"] == late


async def test_an_outcome_waits_for_the_database(house: House) -> None:
    """Connections cut while the tool runs cost nothing: the outcome is written as soon as the database answers."""
    call = house.premises.call("wait", gate="cut")
    await house.deliver(house.premises.permitted(call))
    await a_gate("cut").has_begun()
    house.premises.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    a_gate("cut").opened.set()
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert "succeeded" == answer.kind


async def test_a_stop_waits_for_running_tools(place: Premises) -> None:
    """A tool that ends within the drain is settled as if nothing had happened."""
    gate = a_gate("drained")
    async with open_house(place, drain_seconds=30) as house:
        call = place.call("wait", gate="drained")
        await house.deliver(place.permitted(call))
        await gate.has_begun()
        asyncio.get_running_loop().call_later(0.05, gate.opened.set)
    assert State.SUCCEEDED == place.execution(call).state
    assert 1 == house.answers.qsize()


@pytest.mark.parametrize(("tool", "kind"), [("wait", "unknown"), ("wait_repeatable", "succeeded")])
async def test_a_stop_leaves_the_rest_to_its_lease(place: Premises, tool: str, kind: str) -> None:
    """What still runs after the drain is stopped unsettled; another executor ends it when the lease is out."""
    gate = a_gate(f"left-{tool}")
    call = place.call(tool, gate=f"left-{tool}")
    async with open_house(place, drain_seconds=0.05) as house:
        await house.deliver(place.permitted(call))
        await gate.has_begun()
    assert gate.cancelled.is_set()
    assert (State.RUNNING, ["claimed"]) == (place.execution(call).state, place.history(call))
    gate.opened.set()
    place.end_lease(call)
    async with open_house(place, executor_worker="next") as following:
        assert 1 == await following.sweep_all()
        answer = await following.answer()
    assert isinstance(answer, ToolCallFinished)
    assert kind == answer.kind

"""What becomes of a call of unknown outcome: the tool's probe looks, or a person does. Nothing ever runs twice."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from placet.contracts.ids import derived_id, new_id
from placet.contracts.messages import CallResolved, ResolveCall, ToolCall, ToolCallFinished, ToolCallRefused
from placet.contracts.permit import MAY_HAVE_RUN
from placet.contracts.signed import signed
from placet.contracts.signing import load_signer
from placet.executor import rules
from placet.runtime.database import Restored
from placet.tools import CannotTell, DidNotRun, Ran
from tests.builders import NOON, an_event
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import Gate, a_gate


async def a_lost_call(place: Premises, tool: str, finding: object) -> tuple[ToolCall, Gate]:
    """Return a call whose worker went away in the middle of it; lease and deadline are over, its probe will find so."""
    name = new_id()
    call, gate = place.call(tool, gate=name), a_gate(name)
    async with open_house(place, executor_worker="lost", drain_seconds=0.01) as house:
        await house.deliver(place.permitted(call))
        await gate.has_begun()
    gate.opened.set()
    gate.finding = finding
    place.end_lease(call)
    place.pass_deadline(call)
    return call, gate


async def an_unknown_call(house: House) -> ToolCall:
    """Return a call that was answered `unknown`."""
    call = house.premises.call("doubt")
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert "unknown" == answer.kind
    return call


def a_word(place: Premises, call: ToolCall, at: datetime = NOON, **changes: object) -> ResolveCall:
    """Return what Ada says of a call, signed by the gateway."""
    fields = {"outcome": "ran", "note": "The order is there.", "by": "person:ada", "pool": "default"} | changes
    word = ResolveCall.model_validate({"tenant": call.tenant, "call_id": call.call_id, **fields})
    return signed(word, load_signer(place.keys, "gateway"), at)


async def test_a_probe_that_finds_the_effect_ends_a_lost_call_as_succeeded(place: Premises) -> None:
    """The answer is what the tool would have said; the probe had the call's own key, and the tool ran once."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_verified", Ran(data={"order": 7}))
        assert 1 == await house.sweep_all()
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", {"order": 7}, 2) == (answer.kind, answer.data, answer.attempt)
    assert [(2, derived_id("idempotency", call.call_id))] == gate.looks
    assert 1 == len(gate.attempts)
    assert ["claimed", "probed", "succeeded"] == place.history(call)


async def test_a_probe_does_not_look_while_the_tool_may_still_run(place: Premises) -> None:
    """Its worker may be cut off from the database alone, and what is not there yet may come: the call waits."""
    call, gate = await a_lost_call(place, "wait_verified", DidNotRun())
    place.sql("UPDATE executor.executions SET begun_at = clock_timestamp() WHERE call_id = :id", id=call.call_id)
    async with open_house(place) as house:
        assert 0 == await house.sweep_all()
    assert ("running", 1, []) == (place.execution(call).state, len(gate.attempts), gate.looks)
    assert ["claimed"] == place.history(call)


async def test_a_probe_that_finds_no_effect_ends_a_lost_call_as_failed(place: Premises) -> None:
    """Told like a call that never ran, so that what it took of limits comes back; it is not repeated."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_verified", DidNotRun())
        await house.sweep("verify-lost")
        answer = await house.answer()
    assert isinstance(answer, ToolCallRefused)
    assert ("failed", rules.NOT_RUN_TEXT) == (answer.kind, answer.reason)
    assert (1, 1) == (len(gate.attempts), len(gate.looks))
    assert ["claimed", "probed", "failed"] == place.history(call)


@pytest.mark.parametrize(
    "finding",
    [CannotTell(), RuntimeError("password=hunter2"), {"ran": True}, Ran(data=object())],
    ids=["cannot-tell", "raises", "no-finding", "no-json"],
)
async def test_a_probe_without_a_clear_finding_leaves_the_outcome_unknown(place: Premises, finding: object) -> None:
    """It cannot tell, raises, or returns what is no finding: nobody knows, and nothing of its error is told."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_verified", finding)
        await house.sweep("verify-lost")
        answer = await house.answer()
        assert 0 == await house.sweep_all()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", rules.LOST_TEXT) == (answer.kind, answer.error)
    assert (1, 1) == (len(gate.attempts), len(gate.looks))
    assert ["claimed", "probed", "gave_up"] == place.history(call)


async def test_a_probe_tells_what_it_knows(place: Premises) -> None:
    """Its words reach the model, with the warning not to repeat the call."""
    async with open_house(place) as house:
        await a_lost_call(place, "wait_verified", CannotTell("The provider has two such orders."))
        await house.sweep("verify-lost")
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert f"The provider has two such orders. {MAY_HAVE_RUN}" == answer.error


async def test_a_probe_that_hangs_leaves_the_outcome_unknown(place: Premises) -> None:
    """It has the time of its tool and no more."""
    async with open_house(place) as house:
        _, gate = await a_lost_call(place, "hang_verified", None)
        await house.sweep("verify-lost")
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", 1) == (answer.kind, len(gate.looks))


async def test_a_worker_that_dies_while_it_looks_leaves_the_outcome_unknown(place: Premises) -> None:
    """A probe is asked once: its own lease runs out, and nobody knows."""
    call, gate = await a_lost_call(place, "wait_verified", None)
    async with open_house(place, executor_worker="second", drain_seconds=0.01) as house:
        await house.sweep("verify-lost")
        await asyncio.to_thread(gate.looked.wait)
    assert "verifying" == place.execution(call).state
    place.end_lease(call)
    async with open_house(place) as house:
        assert 1 == await house.sweep_all()
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", 1, 1) == (answer.kind, len(gate.looks), len(gate.attempts))
    assert ["claimed", "probed", "gave_up"] == place.history(call)


async def test_a_lost_call_is_verified_once_by_any_number_of_executors(place: Premises) -> None:
    """Three replicas sweep at the same moment: one look, one answer."""
    async with (
        open_house(place, executor_worker="a") as a,
        open_house(place, executor_worker="b") as b,
        open_house(place, executor_worker="c") as c,
    ):
        _, gate = await a_lost_call(place, "wait_verified", Ran())
        assert 1 == sum(await asyncio.gather(a.sweep_all(), b.sweep_all(), c.sweep_all()))
        await asyncio.gather(a.idle(), b.idle(), c.idle())
        assert 1 == sum(house.answers.qsize() for house in (a, b, c))
    assert 1 == len(gate.looks)


async def test_no_probe_looks_before_the_tool_must_have_ended(place: Premises) -> None:
    """A worker that lost the database alone still runs its tool: what did not happen yet may still happen."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_verified", DidNotRun())
        place.sql("UPDATE executor.executions SET begun_at = now()")
        assert 0 == await house.sweep_all()
        assert ("running", []) == (place.execution(call).state, gate.looks)
        place.pass_deadline(call)
        assert 1 == await house.sweep_all()


async def test_a_lost_repeatable_call_is_repeated_and_not_verified(place: Premises) -> None:
    """Repeating with the same key answers more than looking: the probe is for what must not be repeated."""
    async with open_house(place) as house:
        _, gate = await a_lost_call(place, "wait_repeatable_verified", Ran())
        assert 1 == await house.sweep_all()
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", "done by attempt 2", []) == (answer.kind, answer.data, gate.looks)


async def test_a_repeatable_call_out_of_attempts_is_verified(place: Premises) -> None:
    """Where no attempt is left, the probe is asked; so it is where the permit has expired."""
    async with open_house(place, executor_attempts_max=1) as house:
        _, gate = await a_lost_call(place, "wait_repeatable_verified", Ran(data="there"))
        assert 1 == await house.sweep_all()
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", "there", 1) == (answer.kind, answer.data, len(gate.attempts))


async def test_a_tool_in_doubt_is_verified_at_once(house: House) -> None:
    """The tool has ended and says that it does not know: its probe looks in the same slot."""
    gate = a_gate(name := new_id())
    gate.finding = Ran(data="there")
    call = house.premises.call("doubt_verified", gate=name)
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", "there", 2) == (answer.kind, answer.data, answer.attempt)
    assert ["claimed", "probed", "succeeded"] == house.premises.history(call)


async def test_a_tool_in_doubt_keeps_its_words_where_its_probe_cannot_tell(house: House) -> None:
    """The model reads what the tool said, not that a worker was lost."""
    a_gate(name := new_id()).finding = CannotTell()
    call = house.premises.call("doubt_verified", gate=name)
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", f"The provider did not answer. {MAY_HAVE_RUN}") == (answer.kind, answer.error)


async def test_a_tool_that_still_runs_after_its_time_is_not_verified(house: House) -> None:
    """A thread cannot be stopped: what its probe would say of it now may be wrong a moment later."""
    gate = a_gate(name := new_id())
    gate.finding = DidNotRun()
    call = house.premises.call("hang_blocking_verified", gate=name)
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    gate.opened.set()
    await house.idle()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", []) == (answer.kind, gate.looks)
    assert ["claimed", "gave_up", "succeeded (late)"] == house.premises.history(call)


async def test_a_stored_call_that_changed_is_not_verified(place: Premises) -> None:
    """What the probe would be asked is not what was signed: nobody knows, and the security log says so."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_verified", Ran())
        place.sql("UPDATE executor.executions SET call = replace(call, :gate, 'other')", gate=call.arguments[9:-2])
        await house.sweep("verify-lost")
        answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("unknown", rules.TAMPERED_TEXT, []) == (answer.kind, answer.error, gate.looks)


@pytest.mark.parametrize("outcome", ["ran", "did_not_run"])
async def test_a_person_resolves_an_unknown_outcome(house: House, outcome: str) -> None:
    """Their word is kept with their name and passed on; what the model was told stands."""
    call = await an_unknown_call(house)
    told = house.premises.execution(call)
    word = a_word(house.premises, call, outcome=outcome)
    await house.deliver(word)
    answer = await house.answer()
    row = house.premises.execution(call)
    assert isinstance(answer, CallResolved)
    expected = (call.conversation_id, outcome, "The order is there.", "person:ada")
    assert expected == (answer.conversation_id, answer.outcome, answer.note, answer.by)
    assert ("resolved", outcome, "person:ada") == (row.state, row.resolution, row.resolved_by)
    assert (told.finished_at, told.error, word.signature) == (row.finished_at, row.error, row.resolution_signed)
    assert ["claimed", "gave_up", "resolved"] == house.premises.history(call)


async def test_the_first_word_stands(house: House) -> None:
    """A second person changes nothing and is kept in the history."""
    call = await an_unknown_call(house)
    first = a_word(house.premises, call)
    second = a_word(house.premises, call, outcome="did_not_run", by="person:eve")
    await house.deliver(first, second)
    await house.idle()
    assert ("ran", "person:ada") == (
        house.premises.execution(call).resolution,
        house.premises.execution(call).resolved_by,
    )
    assert 1 == house.answers.qsize()
    assert ["claimed", "gave_up", "resolved", "resolved (late)"] == house.premises.history(call)


@pytest.mark.parametrize("changes", [{"outcome": "did_not_run"}, {"by": "person:eve"}, {"signature": ""}], ids=str)
async def test_a_forged_word_is_buried(house: House, changes: dict[str, str]) -> None:
    """Whoever can write to the broker cannot speak for a person."""
    call = await an_unknown_call(house)
    await house.deliver(a_word(house.premises, call).model_copy(update=changes))
    assert (await house.buried()).startswith("security:")
    assert "unknown" == house.premises.execution(call).state


async def test_a_word_from_before_a_restore_is_buried(house: House) -> None:
    """It was said of a call whose outcome was unknown for another reason, in whatever envelope it comes."""
    call = await an_unknown_call(house)
    house.service.runtime.database.restored = Restored(NOON, NOON - timedelta(hours=1))
    since = NOON + timedelta(seconds=1)
    words = [a_word(house.premises, call, at) for at in (NOON, since)]
    await house.deliver_event(an_event(words[0], time=since))
    assert "before the restore" in await house.buried()
    assert "unknown" == house.premises.execution(call).state
    await house.deliver_event(an_event(words[1], time=since))
    assert isinstance(await house.answer(), CallResolved)


async def test_nobody_resolves_what_is_known(house: House) -> None:
    """A call that succeeded needs no word, and another tenant's is not there."""
    call = house.premises.call("add", a=1, b=2)
    await house.deliver(house.premises.permitted(call))
    await house.answer()
    await house.deliver(a_word(house.premises, call))
    unknown = await an_unknown_call(house)
    await house.deliver(a_word(house.premises, unknown, tenant="rival"))
    await house.idle()
    assert ("succeeded", "unknown") == (
        house.premises.execution(call).state,
        house.premises.execution(unknown).state,
    )

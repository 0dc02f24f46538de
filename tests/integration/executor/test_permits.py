"""A permit arrives: what runs, what is answered without running, and what is refused as an attack."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from placet.contracts.messages import CallResolved, ToolCallFinished, ToolCallRefused
from placet.contracts.signing import create_keys, payload_of
from placet.executor.states import State
from placet.executor.views import VIEWS
from tests.builders import a_call, an_abandonment, an_event
from tests.support.executor_house import House, Premises, open_house
from tests.support.executor_tools import a_gate


async def test_a_permitted_call_runs_and_is_answered(house: House) -> None:
    """The tool's data and blocks come back once, with when it ran, and the row says that it is over."""
    call = house.premises.call("add", a=2, b=3)
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallFinished)
    assert ("succeeded", {"sum": 5}, "", 1) == (answer.kind, answer.data, answer.error, answer.attempt)
    assert [{"type": "notice", "level": "info", "text": "5"}] == answer.ui_blocks
    row = house.premises.execution(call)
    assert (answer.started_at, answer.finished_at) == (row.begun_at, row.finished_at)
    assert (State.SUCCEEDED, 1, None, "worker-1") == (row.state, row.fence, row.lease_until, row.worker)
    assert ["claimed", "succeeded"] == house.premises.history(call)


async def test_an_answer_goes_back_to_the_permit_that_caused_it(house: House) -> None:
    """Causation, correlation and trace lead from the answer to the permit's event."""
    event = an_event(house.premises.permitted(house.premises.call("add", a=1, b=1)))
    await house.deliver_event(event)
    answer = await house.answers.get()
    assert (event.id, event.correlation_id) == (answer.causation_id, answer.correlation_id)
    assert event.traceparent.split("-")[1] == answer.traceparent.split("-")[1]


async def test_a_tool_is_told_for_whom_it_runs(place: Premises) -> None:
    """The context holds the call's own facts, the pack's resources, and a key that derives from the call alone."""
    async with open_house(place) as house:
        calls = [place.call("tell_context"), place.call("tell_context")]
        await house.deliver(*(place.permitted(call) for call in calls))
        told = {answer.call_id: answer.data for answer in [await house.answer(), await house.answer()]}  # type: ignore[union-attr]
    first, second = (told[call.call_id] for call in calls)
    expected = {"tenant": "acme", "conversation_id": "conversation-1", "call_id": calls[0].call_id, "fence": 1}
    expected |= {"requester": "visitor-1", "message_id": "message-1", "language": "en", "word": "hello"}
    assert expected == {name: value for name, value in first.items() if name != "idempotency_key"}
    assert first["idempotency_key"] != second["idempotency_key"]


async def test_a_redelivered_permit_has_no_second_effect(house: House) -> None:
    """The same event again meets the inbox: one attempt, one answer, no dead letter."""
    call = house.premises.call("block", gate="redelivered")
    event = an_event(house.premises.permitted(call))
    a_gate("redelivered").opened.set()
    await house.deliver_event(event)
    await house.deliver_event(event)
    await house.idle()
    assert 1 == len(a_gate("redelivered").attempts)
    assert (1, 0) == (house.answers.qsize(), house.dead.qsize())


async def test_a_replayed_permit_is_an_attack(house: House) -> None:
    """A consumed permit in a new event is a dead letter, and the tool does not run again."""
    call = house.premises.call("block", gate="replayed")
    a_gate("replayed").opened.set()
    permitted = house.premises.permitted(call)
    await house.deliver(permitted, permitted)
    await house.idle()
    assert "security: replayed permit" in await house.buried()
    assert 1 == len(a_gate("replayed").attempts)
    assert 1 == house.answers.qsize()


async def test_a_permit_whose_call_was_erased_is_used_up(house: House) -> None:
    """What an erasure left of it is enough: sent again while it is good, it runs nothing."""
    permitted = house.premises.permitted(house.premises.call("add", a=1, b=2))
    past = permitted.call.call_id
    house.premises.sql("INSERT INTO executor.past_calls VALUES (:past, now() + interval '1 hour')", past=past)
    await house.deliver(permitted)
    assert "security: replayed permit" in await house.buried()
    assert (None, 0) == (house.premises.execution(permitted.call), house.answers.qsize())


async def test_a_second_permit_for_a_taken_call_is_an_attack(house: House) -> None:
    """Approval's permit does not run again what policy's permit has run."""
    call = house.premises.call("add", a=1, b=1)
    await house.deliver(house.premises.permitted(call), house.premises.permitted(call, issuer="approval"))
    await house.idle()
    assert "security: replayed permit" in await house.buried()
    assert 1 == house.answers.qsize()


@pytest.mark.parametrize("apart", [True, False])
async def test_two_executors_with_one_permit_run_it_once(place: Premises, *, apart: bool) -> None:
    """Whether the same event reaches both or two events carry one permit, one attempt and one answer come of it."""
    gate = a_gate(f"race-{apart}")
    gate.opened.set()
    permitted = place.permitted(place.call("block", gate=f"race-{apart}"))
    events = [an_event(permitted), an_event(permitted)] if apart else [an_event(permitted)] * 2
    async with open_house(place, executor_worker="one") as one, open_house(place, executor_worker="two") as two:
        await asyncio.gather(one.deliver_event(events[0]), two.deliver_event(events[1]))
        await asyncio.gather(one.idle(), two.idle())
        assert 1 == len(gate.attempts)
        assert 1 == one.answers.qsize() + two.answers.qsize()
        assert int(apart) == one.dead.qsize() + two.dead.qsize()


async def test_a_forged_permit_is_an_attack(house: House, tmp_path: Path) -> None:
    """A permit signed with a key that nobody published is a dead letter and leaves no trace of an execution."""
    create_keys(tmp_path / "forger")
    call = house.premises.call("add", a=1, b=1)
    await house.deliver(house.premises.permitted(call, keys=tmp_path / "forger"))
    assert (await house.buried()).startswith("security: forged permit")
    assert house.premises.execution(call) is None
    assert 0 == house.answers.qsize()


@pytest.mark.parametrize(
    "field", ["arguments", "tool", "conversation_id", "tenant", "call_id", "schema_digest", "agent"]
)
async def test_a_tampered_call_is_an_attack(house: House, field: str) -> None:
    """Whatever is changed after the permit was signed, nothing runs, also where the digest is changed to fit."""
    call, other = house.premises.call("add", a=1, b=1), house.premises.call("add", a=9, b=9)
    changed = {"arguments": other.arguments, "tool": "say_no", "schema_digest": "b" * 64}.get(field, "other")
    permitted = house.premises.permitted(call)
    tampered = call.model_copy(update={field: changed})
    await house.deliver(permitted.model_copy(update={"call": tampered, "tenant": tampered.tenant}))
    assert "does not fit call" in await house.buried()
    assert house.premises.sql("SELECT * FROM executor.executions") == []
    assert 0 == house.answers.qsize()


async def test_a_swapped_digest_is_an_attack(house: House) -> None:
    """Another call that claims the permitted call's digest is found out: the digest is computed anew."""
    call = house.premises.call("add", a=1, b=1)
    swapped = call.model_copy(update={"arguments": house.premises.call("add", a=9, b=9).arguments})
    await house.deliver(house.premises.permitted(call).model_copy(update={"call": swapped}))
    assert "does not fit call" in await house.buried()


async def test_a_permit_for_another_pool_is_an_attack(house: House) -> None:
    """A permit for the pool `payments` does not run in the pool `default`."""
    call = house.premises.call("add", a=1, b=1)
    await house.deliver(house.premises.permitted(call, pool="payments"))
    assert "does not fit call" in await house.buried()
    assert house.premises.execution(call) is None


async def test_a_permit_in_anothers_name_is_an_attack(house: House) -> None:
    """A message that names another tenant than its permit is not from the permit's issuer."""
    permitted = house.premises.permitted(house.premises.call("add", a=1, b=1))
    await house.deliver(permitted.model_copy(update={"tenant": "rival"}))
    assert "another tenant or pool" in await house.buried()


async def test_an_expired_permit_is_answered_and_not_run(house: House) -> None:
    """The model hears once that nothing ran, and the permit is spent."""
    call = house.premises.call("add", a=1, b=1)
    permitted = house.premises.permitted(call, lifetime_seconds=0)
    await house.deliver(permitted, permitted)
    answer = await house.answer()
    assert isinstance(answer, ToolCallRefused)
    assert (
        "expired",
        "Nothing was run: the permission had expired before a worker was free and its turn had come.",
    ) == (
        answer.kind,
        answer.reason,
    )
    row = house.premises.execution(call)
    assert (State.EXPIRED, 0, None) == (row.state, row.fence, row.begun_at)
    assert ["expired"] == house.premises.history(call)
    assert "security: replayed permit" in await house.buried()
    await house.idle()
    assert 0 == house.answers.qsize()


MISFITS = {
    "unknown tool": ({"tool": "no_such_tool"}, "no worker of this pool has a tool called 'no_such_tool'"),
    "tool of another pool": ({"tool": "pay"}, "no worker of this pool has a tool called 'pay'"),
    "tool without a function": ({"tool": "final_answer"}, "no worker of this pool has a tool called 'final_answer'"),
    "changed schema": ({"schema_digest": "b" * 64}, "the tool 'add' has changed since the call was permitted"),
    "missing argument": ({"arguments": '{"a":1}'}, "'b' is a required property"),
    "wrong type": ({"arguments": '{"a":1,"b":"two"}'}, "/b: 'two' is not of type 'integer'"),
    "extra argument": ({"arguments": '{"a":1,"b":1,"c":1}'}, "('c' was unexpected)"),
    "no object": ({"arguments": "[1,2]"}, "arguments must be a JSON object"),
    "duplicate key": ({"arguments": '{"a":1,"a":2,"b":1}'}, "duplicate key 'a'"),
    "no JSON": ({"arguments": '{"a":1,'}, "the arguments are no strict JSON object"),
}


@pytest.mark.parametrize("name", MISFITS)
async def test_a_permitted_call_that_does_not_fit_is_answered(house: House, name: str) -> None:
    """A genuine permit for what this executor cannot run is refused in plain words, once, and spent."""
    changes, reason = MISFITS[name]
    digest = house.premises.catalog["add"].schema_digest
    fields = {"tool": "add", "schema_digest": digest, "arguments": '{"a":1,"b":1}'} | changes
    call = a_call(**fields)
    await house.deliver(house.premises.permitted(call))
    answer = await house.answer()
    assert isinstance(answer, ToolCallRefused)
    assert (call.call_id, "refused") == (answer.call_id, answer.kind)
    assert answer.reason.startswith("Nothing was run: ")
    assert reason in answer.reason
    assert State.REFUSED == house.premises.execution(call).state
    assert ["refused"] == house.premises.history(call)


async def test_others_read_how_a_call_ended_and_not_what_it_carried(house: House) -> None:
    """The view shows pool, permit, times and result kind, and not the call; the permit has its digest alone."""
    call = house.premises.call("say_no")
    await house.deliver(house.premises.permitted(call))
    await house.answer()
    (row,) = house.premises.sql(VIEWS["executions"])
    assert (call.call_id, "default", "policy", "failed") == (row.call_id, row.pool, row.permit_issuer, row.result_kind)
    assert "The product is sold out." == row.error
    assert {"call", "cause"} & set(row._fields) == set()
    assert call.digest == json.loads(payload_of(row.permit))["digest"]
    assert not any(word in row.permit + str(payload_of(row.permit)) for word in ("product", "sold out"))


async def test_a_call_whose_permit_was_given_up_fails_and_never_runs(house: House) -> None:
    """It is answered once, the row says by whom, and a second copy of the permit is an attack that begins nothing."""
    call = house.premises.call("add", a=2, b=3)
    abandoned = an_abandonment("executor.default", call)
    await house.deliver(abandoned, abandoned)
    refused = await house.answer()
    assert isinstance(refused, ToolCallRefused)
    assert ("failed", call.call_id) == (refused.kind, refused.call_id)
    assert "Nothing was run: its permit could not be handled, and an operator gave it up." == refused.reason
    await house.deliver(house.premises.permitted(call))
    await house.idle()
    row = house.premises.execution(call)
    assert (State.REFUSED, 0, None, "person:grace") == (row.state, row.fence, row.begun_at, row.worker)
    assert (["abandoned"], 0) == (house.premises.history(call), house.answers.qsize())
    (shown,) = house.premises.sql(VIEWS["executions"])
    assert (call.call_id, None, row.permit_id) == (shown.call_id, shown.digest, shown.permit_id)
    assert (await house.buried()).startswith("security: replayed permit")


async def test_a_call_that_was_taken_all_the_same_is_not_given_up(house: House) -> None:
    """Its own answer is the only one: whether it ran, its executor says."""
    call = house.premises.call("add", a=2, b=3)
    await house.deliver(house.premises.permitted(call), an_abandonment("executor.default", call))
    answer = await house.answer()
    await house.idle()
    assert (ToolCallFinished, 0) == (type(answer), house.answers.qsize())
    assert ["claimed", "succeeded"] == house.premises.history(call)


@pytest.mark.parametrize(("revoked", "expected"), [("", "succeeded"), ("key-bob", "refused")])
async def test_a_key_that_was_revoked_since_voids_the_yes(house: House, revoked: str, expected: str) -> None:
    """Between the yes and the claim: nothing runs, and the answer says why."""
    place = house.premises
    for key in ("key-ada", "key-bob"):
        insert = "INSERT INTO read.api_keys SELECT :key, 'acme', CASE WHEN :gone THEN now() END"
        place.sql(insert, key=key, gone=key == revoked)
    call = place.call("add", a=2, b=3)
    await house.deliver(place.permitted(call, issuer="approval", said_with=["key-ada", "key-bob"]))
    answer = await house.answer()
    assert not isinstance(answer, CallResolved)
    assert (expected, expected) == (answer.kind, place.execution(call).state)


async def test_somebody_who_left_the_group_since_voids_their_yes(place: Premises) -> None:
    """Who decided as a member alone is in one of the groups still; where the rule let them decide anyway, it does."""
    people = {"people": {"ada": {}, "bob": {}}, "groups": {"finance": ["ada"], "leads": []}}
    place.rulebook.write_text(json.dumps(json.loads(place.rulebook.read_text()) | people))
    asked = {"member": ("ada", True), "left": ("bob", True), "named": ("bob", False)}
    async with open_house(place) as house:
        kinds = {}
        for case, (name, by_group) in asked.items():
            person = f"person:{name}"
            groups = {person: [["leads", "finance"]] if by_group else []}
            await house.deliver(
                place.permitted(place.call("add", a=2, b=3), issuer="approval", by=[person], groups=groups)
            )
            answer = await house.answer()
            assert not isinstance(answer, CallResolved)
            kinds[case] = answer.kind
    assert {"member": "succeeded", "left": "refused", "named": "succeeded"} == kinds


async def test_somebody_who_showed_no_key_and_was_deleted_since_voids_their_yes(place: Premises) -> None:
    """What the directory alone said of them it says no more; of whom a key proved it need not say anything."""
    place.rulebook.write_text(json.dumps(json.loads(place.rulebook.read_text()) | {"people": {"ada": {}}}))
    asked = {"listed": ("ada", ["person:ada"]), "deleted": ("bob", ["person:bob"]), "with a key": ("bob", [])}
    async with open_house(place) as house:
        kinds = {}
        for case, (name, listed) in asked.items():
            call = place.call("add", a=2, b=3)
            given = place.permitted(call, issuer="approval", by=[f"person:{name}"], listed=listed)
            await house.deliver(given)
            answer = await house.answer()
            assert not isinstance(answer, CallResolved)
            kinds[case] = answer.kind
    assert {"listed": "succeeded", "deleted": "refused", "with a key": "succeeded"} == kinds


async def test_somebody_who_left_since_voids_their_yes(place: Premises) -> None:
    """Who is inactive in the directory by the time of the claim has allowed nothing; who is not listed may."""
    people = {"ada": {}, "bob": {"active": False}}
    place.rulebook.write_text(json.dumps(json.loads(place.rulebook.read_text()) | {"people": people}))
    async with open_house(place) as house:
        kinds = {}
        for name in ("ada", "bob", "unlisted"):
            call = place.call("add", a=2, b=3)
            await house.deliver(place.permitted(call, issuer="approval", by=[f"person:{name}"]))
            answer = await house.answer()
            assert not isinstance(answer, CallResolved)
            kinds[name] = answer.kind
            given = place.permitted(
                place.call("add", a=2, b=3), issuer="approval", by=["person:ada"], groups={f"person:{name}": []}
            )
            await house.deliver(given)
            in_their_place = await house.answer()
            assert not isinstance(in_their_place, CallResolved)
            assert kinds[name] == in_their_place.kind
    assert {"ada": "succeeded", "bob": "refused", "unlisted": "succeeded"} == kinds


async def test_somebody_who_meets_the_rules_condition_no_more_since_voids_their_yes(place: Premises) -> None:
    """H8: what the rule asks of those who decide, groups and attributes, is asked at the claim as it was at the yes."""
    people = {"ada": {"attributes": {"department": "finance"}}, "bob": {"attributes": {"department": "sales"}}}
    listed = {"people": people, "groups": {"seniors": ["ada"]}}
    place.rulebook.write_text(json.dumps(json.loads(place.rulebook.read_text()) | listed))
    by_department = 'person.attributes.department == "finance"'
    by_group = '"seniors" in person.groups && call.arguments.a == 2.0'
    kinds: dict[str, list[str]] = {"ada": [], "bob": []}
    async with open_house(place) as house:
        for name, told in kinds.items():
            for text in (by_department, by_group, ""):
                conditions = {text: [f"person:{name}"]} if text else {}
                call, by = place.call("add", a=2, b=3), [f"person:{name}"]
                await house.deliver(place.permitted(call, issuer="approval", by=by, conditions=conditions))
                answer = await house.answer()
                assert not isinstance(answer, CallResolved)
                told.append(answer.kind)
    assert {"ada": ["succeeded"] * 3, "bob": ["refused", "refused", "succeeded"]} == kinds

"""Emergency stops at the claim: what is stopped does not begin, and all else does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from placet.contracts.messages import CallResolved, ToolCallFinished
from placet.executor.states import State
from tests.integration.executor.test_sweeper import a_lost_call
from tests.support.agents import wait_for_a_blocked_statement
from tests.support.executor_house import House, Premises, open_house

#: The claim of another executor that was stopped, or cut off, in its transaction.
ANOTHER_CLAIM = """
    INSERT INTO executor.executions (call_id, tenant, conversation_id, tool, schema_digest, pool, idempotent, state,
        fence, worker, permit_id, permit_issuer, permit_expires_at, permit, call, cause, finished_at, error)
    VALUES (%s, 'acme', 'c', 'add', %s, 'default', false, 'refused', 0, 'w2', 'p', '', now(), '', '{}', '{}', now(), '')
"""
#: Returns once whoever waits for a lock has waited so long that what they read first may be old.
LONG_ENOUGH = """
    SELECT pg_sleep_until(max(query_start) + interval '1.2 seconds') FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def stop(place: Premises, **target: Any) -> None:
    """Stop calls as the gateway shows it."""
    values = {"tenant": "acme", "tool": None, "agent": None, "reason": "an incident"} | target
    place.sql("INSERT INTO read.stops VALUES ('stop-1', :tenant, :tool, :agent, :reason)", **values)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ({"tool": "add"}, "refused"),
        ({"tool": "block"}, "succeeded"),
        ({"agent": "default"}, "refused"),
        ({"agent": "other"}, "succeeded"),
        ({}, "refused"),
        ({"tenant": "globex"}, "succeeded"),
        ({"tenant": None}, "refused"),
    ],
)
async def test_what_a_stop_covers_does_not_begin(house: House, target: dict[str, Any], expected: str) -> None:
    """A stop covers a tool or an agent of one tenant, all of one tenant, or everything; nothing else waits for it."""
    place = house.premises
    stop(place, **target)
    call = place.call("add", a=2, b=3).model_copy(update={"agent": "default"})
    await house.deliver(place.permitted(call))
    answer = await house.answer()
    assert not isinstance(answer, CallResolved)
    assert (expected, expected) == (answer.kind, place.execution(call).state)


def revoke(place: Premises) -> None:
    """Revoke the key that the yes was given with, as the gateway shows it."""
    place.sql("UPDATE read.api_keys SET revoked_at = now()")


def empty_the_group(place: Premises) -> None:
    """Let nobody be in the group that the rule asks for."""
    place.rulebook.write_text(place.rulebook.read_text().replace('["ada"]', "[]"))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (partial(stop, tool="add"), "refused"),
        (revoke, "refused"),
        (empty_the_group, "refused"),
        (partial(stop, tool="block"), "succeeded"),
    ],
)
async def test_what_happens_while_a_claim_waits_counts(
    place: Premises, change: Callable[[Premises], None], expected: str
) -> None:
    """Another claim of the same call was cut off, and is rolled back a while later: what was so is asked again."""
    directory = {"people": {"ada": {}}, "groups": {"seniors": ["ada"]}}
    place.rulebook.write_text(json.dumps(json.loads(place.rulebook.read_text()) | directory))
    place.sql("INSERT INTO read.api_keys (key_id, tenant) VALUES ('key-1', 'acme')")
    call, conditions = place.call("add", a=2, b=3), {'"seniors" in person.groups': ["person:ada"]}
    said = {"by": ["person:ada"], "said_with": ["key-1"], "conditions": conditions}
    async with open_house(place) as house:
        with psycopg.connect(place.url) as other:
            other.execute(ANOTHER_CLAIM, [call.call_id, call.schema_digest])
            sending = asyncio.create_task(house.deliver(place.permitted(call, issuer="approval", **said)))
            await asyncio.to_thread(wait_for_a_blocked_statement, place.url)
            change(place)
            await asyncio.to_thread(other.execute, LONG_ENOUGH)
            other.rollback()
        await sending
        answer = await house.answer()
    assert not isinstance(answer, CallResolved)
    assert (expected, expected) == (answer.kind, place.execution(call).state)


async def test_the_model_is_told_that_nothing_ran_and_why(house: House) -> None:
    """The administrator's reason, which is for people, is not in the answer, and the call has no attempt."""
    place = house.premises
    stop(place, tool="add")
    call = place.call("add", a=2, b=3)
    await house.deliver(place.permitted(call))
    answer = await house.answer()
    said = (
        "Nothing was run: an administrator has stopped such calls; try again only when you are told that they are"
        " allowed again."
    )
    row = place.execution(call)
    assert (said, 0, None) == (getattr(answer, "reason", ""), row.fence, row.begun_at)


async def test_a_call_begins_again_once_the_stop_is_lifted(house: House) -> None:
    """A new call of the same tool runs as soon as the stop is over."""
    place = house.premises
    stop(place, tool="add")
    place.sql("DELETE FROM read.stops")
    await house.deliver(place.permitted(place.call("add", a=2, b=3)))
    assert isinstance(await house.answer(), ToolCallFinished)


async def test_a_lost_attempt_is_not_repeated_while_its_tool_is_stopped(place: Premises) -> None:
    """What is safe to repeat waits as it is until the stop is lifted, and is then repeated."""
    async with open_house(place) as house:
        call, gate = await a_lost_call(place, "wait_repeatable")
        stop(place, tool="wait_repeatable")
        done = [await house.sweep("repeat-lost"), await house.sweep("give-up-lost")]
        assert ([0, 0], State.RUNNING, 1) == (done, place.execution(call).state, len(gate.attempts))
        place.sql("DELETE FROM read.stops")
        assert (1, 2) == (await house.sweep("repeat-lost"), place.execution(call).fence)
        await house.idle()


@pytest.mark.parametrize(
    "target", [{"tool": "wait_repeatable"}, {"agent": "careful"}, {"tenant": "globex"}], ids=" ".join
)
async def test_a_lost_attempt_that_is_stopped_keeps_no_other_waiting(place: Premises, target: dict[str, str]) -> None:
    """The one that was lost first waits for the end of the stop, and the next one is repeated."""
    own = {name: value for name, value in target.items() if name != "tool"}
    async with open_house(place) as house:
        await a_lost_call(place, "wait_repeatable", own)
        other, _ = await a_lost_call(place, "wait_repeatable_verified")
        stop(place, **target)
        assert (1, 2) == (await house.sweep("repeat-lost"), place.execution(other).fence)
        await house.idle()

"""What an attempt may still do that another has taken over: nothing, at each statement that asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from placet.executor import commit_store, store
from placet.executor.rules import Outcome
from placet.executor.states import Event, State
from placet.executor.store import Attempt, Holder
from placet.runtime.work import Cause
from placet.tools import DecidedChange, ToolContext
from placet.tools.files.pack import Files
from tests.integration.executor import test_commit_crashes
from tests.integration.executor.test_commit_crashes import BEFORE, broken_off, stage_all, without_drafts
from tests.integration.executor.test_settling import end_tools, running
from tests.support.agents import wait_for_a_blocked_statement
from tests.support.executor_house import House, Premises, open_house
from tests.support.workspaces import Scene

files = test_commit_crashes.files
TAKE_OVER = "UPDATE executor.executions SET fence = fence + 1 WHERE call_id = :id"
LOST = Outcome(Event.GAVE_UP, error="lost")
HOLDER = Holder("worker-1", 30.0)


class TakenOver(Files):
    """Is taken for dead while it prepares."""

    def __init__(self, files: Premises) -> None:
        self.files, self.asked = files, 0

    async def prepare(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Prepare, slowly."""
        await super().prepare(changes, context)
        self.files.sql("UPDATE executor.executions SET fence = fence + 1 WHERE mode = 'commit'")

    async def apply(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Note that it was let on."""
        self.asked += 1
        await super().apply(changes, context)


async def test_a_worker_that_is_taken_over_while_it_prepares_makes_nothing(files: Premises) -> None:
    """Its journal is the last that asks: two that make the changes of one commit would not know of each other."""
    pack = TakenOver(files)
    scene, _ = await broken_off(files, "never", pack=pack)
    ((journal,),) = files.sql("SELECT journal FROM executor.workspaces")
    assert (0, "none", BEFORE) == (pack.asked, journal, without_drafts(scene))


@pytest.fixture
async def late(house: House) -> Any:
    """An attempt that another has taken over, whose tool still runs."""
    (attempt,) = await running(house, "late")
    house.premises.sql(TAKE_OVER, id=attempt.call.call_id)
    yield attempt
    await end_tools(house, "late")


def stands(house: House, attempt: Attempt) -> tuple[Any, ...]:
    """Return what an execution says of its newest attempt."""
    row = house.premises.execution(attempt.call)
    return row.state, row.fence, row.worker, row.lease_until


async def test_an_older_attempt_begins_no_probe(house: House, late: Attempt) -> None:
    """The newer one is at work: asked now, the tool would say that it had done nothing."""
    before = stands(house, late)
    async with house.service.runtime.units.begin(late.cause) as work:
        assert await store.probe(work, late, LOST, HOLDER) is None
    assert before == stands(house, late)
    async with house.service.runtime.units.begin(late.cause) as work:
        probing = await store.probe(work, replace(late, fence=late.fence + 1), LOST, HOLDER)
    assert probing is not None
    assert (State.VERIFYING, late.fence + 2) == (probing.state, probing.fence)


async def test_an_older_attempt_ends_no_newer_lease(house: House, late: Attempt) -> None:
    """Or a third would begin beside the second."""
    before = stands(house, late)
    async with house.service.runtime.units.begin(late.cause) as work:
        await store.let_go(work, late, LOST, worker="worker-1")
    assert before == stands(house, late)


async def test_what_comes_late_while_the_newer_attempt_ends_is_told_of_its_end(house: House, late: Attempt) -> None:
    """History goes on from where the newer one leads: a call that has ended runs no more."""
    call = late.call
    with psycopg.connect(house.premises.url) as newer:
        newer.execute(
            "UPDATE executor.executions SET state = 'succeeded', finished_at = clock_timestamp(), lease_until = NULL"
            " WHERE call_id = %s",
            [call.call_id],
        )
        async with house.service.runtime.units.begin(late.cause) as work:
            keeping = asyncio.create_task(store.let_go(work, late, LOST, worker="worker-1"))
            await asyncio.to_thread(wait_for_a_blocked_statement, house.premises.url)
            newer.commit()
            await keeping
    told = "SELECT from_state, to_state FROM executor.history WHERE call_id = :id ORDER BY id DESC LIMIT 1"
    assert [("succeeded", "succeeded")] == house.premises.sql(told, id=call.call_id)


async def test_a_commit_that_has_ended_ends_no_second_time(files: Premises) -> None:
    """Whoever comes late finds it ended: one answer, and the first word about it stays."""
    async with open_house(files) as house:
        scene = Scene(house)
        await stage_all(scene)
        commit = scene.commit()
        await scene.committed(commit)
        before = files.execution(commit)
        async with house.service.runtime.units.begin(Cause()) as work:
            again = await commit_store.end_commit(
                work, commit.call_id, Event.FAILED, "late", before=State.RUNNING, worker="late"
            )
        assert again is None
    assert before == files.execution(commit)


async def test_a_half_made_commit_keeps_others_out_that_touch_more(files: Premises) -> None:
    """One common scope is enough, also where the other commit has further ones; without any it may go on."""
    await broken_off(files, "applying")
    ((held,),) = files.sql("SELECT scopes FROM executor.workspaces")
    async with open_house(files) as house, house.service.runtime.database.single() as connection:
        asked = [[*held, "crm:acme"], held, ["crm:acme"]]
        assert [True, True, False] == [await commit_store.is_half_made(connection, each, "other") for each in asked]

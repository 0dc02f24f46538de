"""Races for permits, on a real database: two executors are handed the same one, and permits end while they are taken.

`PLACET_TEST_RACE_ROUNDS` makes them longer.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from placet.contracts.messages import CallResolved, ToolCallFinished, ToolCallRefused
from tests.support.executor_house import House, Premises, open_house
from tests.support.races import LONG_ENOUGH, ROUNDS

pytestmark = LONG_ENOUGH

#: What must never be found: number of the invariant and its fact -> a query for what breaks it.
INVARIANTS = {
    "20 what is over never changes": """
        SELECT subject_id FROM executor.history WHERE machine = 'execution' AND to_state IS DISTINCT FROM from_state
            AND (from_state IN ('succeeded', 'failed', 'refused', 'expired')
                OR (from_state = 'unknown' AND event <> 'resolved'))""",
    "21 no attempt began at or after the end of its permit, and no permit was turned away before": """
        SELECT call_id FROM executor.executions
        WHERE (fence > 0 AND begun_at >= permit_expires_at AND state <> 'expired')
            OR (state = 'expired' AND finished_at < permit_expires_at)""",
    "22 a permit begins one call, and a call begins once": """
        SELECT permit_id FROM executor.executions GROUP BY permit_id HAVING count(*) > 1
        UNION ALL
        SELECT subject_id FROM executor.history WHERE event = 'claimed' GROUP BY subject_id HAVING count(*) > 1""",
}


def check_invariants(place: Premises) -> None:
    """Ask the database for what must never be."""
    found = {name: place.sql(query) for name, query in INVARIANTS.items()}
    assert {} == {name: rows for name, rows in found.items() if rows}


async def test_two_executors_with_one_permit_at_once_run_it_once(place: Premises) -> None:
    """One of them runs the call, the other one takes it for a replay; no call is left out, and none runs twice."""
    async with open_house(place, executor_worker="a") as a, open_house(place, executor_worker="b") as b:
        for number in range(ROUNDS):
            permitted = place.permitted(place.call("add", a=1, b=number))
            await asyncio.gather(a.deliver(permitted), b.deliver(permitted))
        await asyncio.gather(a.idle(), b.idle())
        answers = answers_of(a) + answers_of(b)
        replays = [house.dead.get_nowait() for house in (a, b) for _ in range(house.dead.qsize())]
    assert (ROUNDS, ROUNDS) == (len(answers), len({answer.call_id for answer in answers}))
    assert {"succeeded"} == {answer.kind for answer in answers}
    assert (ROUNDS, {"security: replayed permit"}) == (len(replays), {reason[:25] for reason in replays})
    check_invariants(place)


async def test_a_permit_that_ends_while_it_is_taken_has_one_truth(place: Premises) -> None:
    """Permits end as they are handed over: what began, began in time by the database's clock; the rest never ran."""
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=2)
    async with open_house(place) as house:
        kinds: list[str] = []
        while kinds.count("expired") < ROUNDS / 10:
            call = place.call("add", a=1, b=len(kinds))
            permitted = place.permitted(call, at=end - timedelta(seconds=60), lifetime_seconds=60)
            await house.deliver(permitted)
            answer = await house.answer()
            assert not isinstance(answer, CallResolved)
            kinds.append(answer.kind)
    assert {"succeeded", "expired"} == set(kinds)
    check_invariants(place)


def answers_of(house: House) -> list[ToolCallFinished | ToolCallRefused]:
    """Return every answer that left."""
    messages = [house.answers.get_nowait().message for _ in range(house.answers.qsize())]
    return [message for message in messages if isinstance(message, ToolCallFinished | ToolCallRefused)]

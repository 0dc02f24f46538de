"""Kill -9, again and again: nothing lost, nothing doubled, and what nobody can know is said to be unknown.

The ledger is outside the system: what a tool began stands there whatever dies. The numbers printed at the end are
those of the run.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.e2e.conftest import Stage
from tests.support.people import Caller, Visitor, a_visitor
from tests.support.system import Process, System, until

VICTIMS = ("executor-1", "executor-2", "executor-3", "approval-1", "approval-2", "policy-1", "agent-1")
#: Conversations that go on at once while processes are killed.
TALKING = 24
KILLS = 24


@pytest.mark.timeout(300)
async def test_a_storm_of_kills_loses_and_doubles_nothing(
    frontend: Caller, operator: Caller, stage: Stage, system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every call ends with exactly one result; no call that is not safe to repeat begins twice."""
    dice = random.Random(20261122)  # noqa: S311 - a schedule that can be repeated
    over, done = asyncio.Event(), asyncio.Event()
    deciding = asyncio.create_task(_approve_everything(operator, done))
    talking = [asyncio.create_task(_talk(frontend, number, over)) for number in range(TALKING)]
    killed = await _kill(system, dice)
    over.set()
    visitors = [visitor for each in talking for visitor in await asyncio.wait_for(each, 180)]
    done.set()
    await deciding
    report = _report(system, stage, visitors, killed)
    with capsys.disabled():
        print(f"\nkills {KILLS} of {len(VICTIMS)} processes · {json.dumps(report)}")  # noqa: T201 - the run's numbers
    assert report["calls"] >= len(visitors) >= TALKING
    assert (report["lost"], report["doubled"], report["effects_without_permit"]) == (0, 0, 0)
    assert report["unexplained_unknown"] == 0
    assert stage.model_log()["rejected"] == 0


async def test_a_worker_that_dies_in_the_act_ends_unknown(
    frontend: Caller, operator: Caller, stage: Stage, system: System
) -> None:
    """A tool that is not safe to repeat and whose worker died is not repeated: the result says that nobody knows.

    A person who has looked says so: the result stands, people see their word at once, the model with the next message.
    """
    gate = Path(stage.environment["PLACET_TEST_LEDGER"] + ".gate")
    os.mkfifo(gate)
    visitor = await a_visitor(frontend)
    await visitor.say("deploy slowly")
    await operator.decide(await visitor.see_card(), "approve")

    async def begun() -> bool:
        return bool(stage.begun("slow_deploy", visitor.conversation))

    await until(begun, "the tool has begun")
    killed = await _kill_executors(system)
    assert await visitor.see_answer() == "Outcome unknown."
    (begin,) = stage.begun("slow_deploy", visitor.conversation)
    admin = Caller(system.url, system.key("admin", person="lovelace"))
    word = {"outcome": "ran", "note": "The version is live."}
    await admin.post(f"/v1/tool-calls/{begin['call']}/resolution", word)
    seen = await visitor.see(lambda item: bool(item["type"] == "resolution"))
    assert ("ran", "person:lovelace") == (seen["data"]["outcome"], seen["data"]["by"])
    told = await operator.get(f"/v1/tool-calls/{begin['call']}")
    assert ("unknown", "resolved", "ran") == (told["kind"], told["execution"]["state"], told["execution"]["resolution"])
    await visitor.say("was it deployed?")
    assert await visitor.see_answer() == "Let me see."
    assert "The version is live." in json.dumps(stage.model_log()["requests"])
    assert len(stage.begun("slow_deploy", visitor.conversation)) == 1
    assert told["execution"]["worker"] in killed


@pytest.mark.parametrize(
    ("to", "answer", "state"),
    [("ada", "The money is there.", "succeeded"), ("nobody", "No money was moved.", "failed")],
)
async def test_a_probe_tells_what_a_dead_worker_cannot(
    frontend: Caller, operator: Caller, stage: Stage, system: System, to: str, answer: str, state: str
) -> None:
    """The worker is killed in the act: the tool's probe finds what became of it, and the tool does not run again."""
    visitor = await a_visitor(frontend)
    await visitor.say(f"transfer to {to}")
    await operator.decide(await visitor.see_card(), "approve")

    async def begun() -> bool:
        return bool(stage.begun("transfer", visitor.conversation))

    await until(begun, "the tool has begun")
    await _kill_executors(system)
    assert answer == await visitor.see_answer()
    lines = [line for line in stage.ledger() if line["conversation"] == visitor.conversation]
    looked = [(line["what"], line["fence"]) for line in lines if line["what"] != "effect"]
    assert [("begin", 1), ("look", 2)] == looked
    told = await operator.get(f"/v1/tool-calls/{lines[0]['call']}")
    assert ["claimed", "probed", state] == [each["event"] for each in told["history"] if each["machine"] == "execution"]


async def _kill_executors(system: System) -> set[str]:
    names = [name for name in system.processes if name.startswith("executor")]
    killed = {system.processes[name].worker for name in names}
    for name in names:
        system.processes[name].kill()
    for name in names:
        await system.start_again(name)
    return killed


async def _talk(frontend: Caller, number: int, over: asyncio.Event) -> list[Visitor]:
    """Have one conversation after the other until the storm is over; return them when the last one has ended."""
    visitors: list[Visitor] = []
    while not over.is_set():
        visitors.append(await a_visitor(frontend))
        await visitors[-1].say("deploy the shop" if number % 2 else "set the flag")
        await visitors[-1].see_answer()
    return visitors


async def _kill(system: System, dice: random.Random) -> dict[str, datetime]:
    """Kill processes that work and start them again; return when each died, by the name that it had as a worker."""
    killed: dict[str, datetime] = {}
    working: list[Process] = []

    async def any_works() -> bool:
        working[:] = [each for name in VICTIMS if await (each := system.processes[name]).ready()]
        return bool(working)

    for _ in range(KILLS):
        await until(any_works, "a process works")
        victim = dice.choice(working)
        victim.kill()
        killed[victim.worker] = datetime.now(UTC)
        await asyncio.sleep(dice.uniform(0.1, 0.6))
        victim.start()
    await system.start()
    return killed


async def _approve_everything(operator: Caller, done: asyncio.Event) -> None:
    while not done.is_set():
        waiting = (await operator.get("/v1/approvals?state=pending&limit=100"))["items"]
        cards = [{"approval_id": item["id"], "digest": item["digest"]} for item in waiting]
        await asyncio.gather(*(operator.decide(card, "approve") for card in cards))
        await asyncio.sleep(0.2)


def _report(system: System, stage: Stage, visitors: list[Visitor], killed: dict[str, datetime]) -> dict[str, Any]:
    ours = {visitor.conversation for visitor in visitors}
    with psycopg.connect(system.database_url) as connection:
        query = "SELECT call_id, tool, state, result_kind FROM read.tool_calls WHERE conversation_id = ANY(%s)"
        calls = connection.execute(query, [list(ours)]).fetchall()
        tried = "SELECT call_id, worker, started_at, finished_at FROM read.executions"
        attempts = {row[0]: row for row in connection.execute(tried)}
    # Other systems play on the same stage.
    begins = [line for line in stage.ledger() if line["what"] == "begin" and line["conversation"] in ours]
    begun = Counter(line["call"] for line in begins)
    fences = Counter((line["call"], line["fence"]) for line in begins)
    kinds = Counter(kind for _, _, _, kind in calls)
    unknown = [call_id for call_id, _, _, kind in calls if kind == "unknown"]
    return {
        "calls": len(calls),
        "lost": sum(kind is None for *_, kind in calls),
        "doubled": sum(begun[call_id] > 1 for call_id, tool, *_ in calls if tool == "deploy")
        + sum(count > 1 for count in fences.values()),
        "effects_without_permit": len(set(begun) - set(attempts)),
        "unexplained_unknown": sum(not _died_with(attempts.get(call_id), killed) for call_id in unknown),
        "results": dict(kinds),
        "repeated_idempotent": sum(begun[call_id] > 1 for call_id, tool, *_ in calls if tool == "set_flag"),
    }


def _died_with(attempt: tuple[Any, ...] | None, killed: dict[str, datetime]) -> bool:
    """Tell whether an attempt's worker was killed in the middle of it, be it before the tool's first line."""
    if attempt is None:
        return False
    _, worker, started_at, finished_at = attempt
    return worker in killed and bool(started_at < killed[worker] < finished_at)

"""Kill -9 at each named point of each service that has it: the call is answered once, and its tool begins at most once.

Each takes ten seconds and more, so that a usual run has three of them. `make test-kills` tries them all, and with
HITS=3 also at the second and third time that a point is reached, as every night should.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.runtime.points import POINTS
from tests.conftest import migrate
from tests.e2e.conftest import Stage
from tests.e2e.scenes import agents, rulebook
from tests.support.people import Caller
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, running, until

pytestmark = pytest.mark.timeout(180)

_ANY = ("consumer.received", "work.committed", "consumer.handled", "outbox.publishing", "outbox.confirmed")
#: The points of each service that a held call goes through, and which of them are its own.
AT: Mapping[str, tuple[str, ...]] = {
    "gateway": ("work.committed", "outbox.publishing", "outbox.confirmed"),
    "agent": (*_ANY, "agent.asking", "agent.answered"),
    "policy": _ANY,
    "approval": _ANY,
    "notifier": ("consumer.received", "consumer.handled"),
    "executor": (*_ANY, "executor.claimed", "executor.acted"),
}
HITS = int(os.environ.get("KILL_HITS", "0"))
EVERY = [(service, point, hit) for service, points in AT.items() for point in points for hit in range(1, HITS + 1)]
CASES = EVERY or [
    ("agent", "outbox.confirmed", 1),
    ("approval", "work.committed", 1),
    ("executor", "executor.acted", 1),
]
#: Points of an executor at which the call is claimed: it may have begun, and nobody knows what became of it.
IN_THE_ACT = {point for point in AT["executor"] if point not in {"consumer.received", "outbox.confirmed"}}
#: Points that no case reaches: they take a channel, an edit, or a crash before.
NOT_TRIED = {"relay.read", "work.written", "notifier.sending", "notifier.sent"}


@pytest.fixture(scope="module")
def system(
    stage: Stage, databases: Databases, virtual_hosts: VirtualHosts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """One of each service, so that nobody else goes on with what a dead one left."""
    folder = tmp_path_factory.mktemp("points")
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        named = agents(folder, f"http://127.0.0.1:{stage.model_port}")
        environment = stage.environment | {"PLACET_AGENTS": str(named), "CLERK_MODEL_KEY": "scripted-key"}
        environment |= {"PLACET_AGENT_LEASE_SECONDS": "3"}
        made = System(folder, database_url, rabbitmq_url, rulebook(folder), environment)
        with running(made, dict.fromkeys((*AT, "dead_letters"), 1)):
            yield made


class Patient(Caller):
    """Somebody who tries again while the gateway is away."""

    async def tried(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Return the answer to a request, however often it takes."""
        found: list[httpx.Response] = []

        async def answered() -> bool:
            try:
                found.append(await self.request(method, path, **options))
            except httpx.HTTPError:
                return False
            return found[-1].status_code not in {202, 503} or method == "POST"

        await until(answered, f"{method} {path}")
        return found[-1]


def arm(system: System, service: str, point: str, hit: int, mark: Path) -> None:
    """Have a service's process end at a point, once a held call comes through."""
    process = system.processes[f"{service}-1"]
    process.stop()
    process.arguments = ("-m", "tests.support.killed_at", *process.arguments[2:])
    process.environment |= {"KILL_AT": point, "KILL_HIT": str(hit), "KILL_MARK": str(mark)}


async def a_held_call(person: Patient, armed: Path) -> dict[str, Any]:
    """Have a call proposed, approve it, and return what is known of it when it has its result."""
    opened = (await person.tried("POST", "/v1/conversations")).json()["id"]
    await asyncio.to_thread(armed.touch)
    said = {"text": "deploy the shop", "message_id": f"m-{opened}"}
    await person.tried("POST", f"/v1/conversations/{opened}/messages", json=said)
    card: dict[str, Any] = {}

    async def is_held() -> bool:
        asked = {"state": "pending", "conversation": opened}
        found = (await person.tried("GET", "/v1/approvals", params=asked)).json()["items"]
        card.update(found[0] if found else {})
        return bool(found)

    await until(is_held, "the call is held")

    async def is_decided() -> bool:
        wish = {"decision": "approve", "digest": card["digest"]}
        answer = await person.tried("POST", f"/v1/approvals/{card['id']}/decisions", json=wish)
        return answer.status_code in {200, 409}

    await until(is_decided, "the approval is decided")
    call: dict[str, Any] = {}

    async def has_result() -> bool:
        call.update((await person.tried("GET", f"/v1/tool-calls/{card['call']['id']}")).json())
        return call["kind"] is not None

    await until(has_result, "the call has its result")
    return call


@pytest.mark.parametrize(("service", "point", "hit"), CASES)
async def test_a_kill_at_a_named_point_loses_and_doubles_nothing(
    system: System, stage: Stage, tmp_path: Path, service: str, point: str, hit: int
) -> None:
    """The process dies there and comes back: one result, one answer of the agent, and no second begin of the tool."""
    mark = tmp_path / "mark"
    arm(system, service, point, hit, mark)
    await system.start_again(f"{service}-1")
    person = Patient(system.url, system.key("chat", "decide", person="grace"))
    doing = asyncio.create_task(a_held_call(person, Path(f"{mark}.armed")))

    async def died() -> bool:
        running = system.processes[f"{service}-1"].running
        return doing.done() or (running is not None and running.poll() is not None)

    await until(died, f"{service} dies at {point}")
    assert mark.exists(), f"{service} never reached {point}"
    await system.start_again(f"{service}-1")
    call = await doing
    begun = [line["call"] for line in stage.begun("deploy", call["conversation_id"])]
    ends = [line for line in call["history"] if line["machine"] == "execution" and line["to_state"] == "unknown"]
    if service == "executor" and point in IN_THE_ACT:
        # A tool that is not safe to repeat is not repeated, and what nobody can know is said to be unknown, once.
        assert (call["kind"], len(ends)) in {("unknown", 1), ("succeeded", 0)}
        assert begun in ([], [call["id"]])
    else:
        assert ("succeeded", [call["id"]], []) == (call["kind"], begun, ends)
    results = (
        "SELECT count(*) FROM agent.log WHERE type = 'tool_call' AND data ->> 'call_id' = '{}'"
        " AND data ->> 'status' IN ('success', 'error')"
    )
    assert 1 == system.count(results.format(call["id"]))


def test_the_points_are_those_that_the_code_has() -> None:
    """Each named point is tried with some service, or stands among those that are not."""
    tried = {point for points in AT.values() for point in points}
    assert set(POINTS) - NOT_TRIED == tried

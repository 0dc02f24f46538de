"""Where tests end a process by the name of a point, and what they do around it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.support.people import Caller
from tests.support.system import System, until

_ANY = ("consumer.received", "work.committed", "consumer.handled", "outbox.publishing", "outbox.confirmed")
#: The points that each service reaches, at each of which it is killed.
AT: Mapping[str, tuple[str, ...]] = {
    "gateway": (*_ANY, "relay.read", "work.written", "audit.sealing"),
    "agent": (*_ANY, "relay.read", "agent.asking", "agent.answered", "work.written"),
    "policy": (*_ANY, "relay.read", "work.written"),
    "approval": (*_ANY, "relay.read", "work.written", "approval.expiring"),
    "notifier": (
        *("consumer.received", "work.written", "work.committed", "consumer.handled"),
        *("notifier.sending", "notifier.sent", "notifier.posting", "notifier.posted"),
    ),
    "executor": (*_ANY, "relay.read", "work.written", "executor.claimed", "executor.acted"),
    "jobs": (*_ANY, "work.written", "relay.read"),
    "dead_letters": (*_ANY, "relay.read", "work.written"),
}
#: What ends a process before, so that the point is reached: the relay reads what a crash has left behind, and the agent
#: takes over a turn that one has left.
BEFORE = {(service, "relay.read"): ("work.committed",) for service, points in AT.items() if "relay.read" in points}
BEFORE["agent", "work.written"] = ("agent.asking",)
#: Reached by the clock, whatever becomes of the call meanwhile.
LATER = {("gateway", "audit.sealing"), ("executor", "work.written")}
HITS = int(os.environ.get("KILL_HITS", "0"))
EVERY = [(service, point, hit) for service, points in AT.items() for point in points for hit in range(1, HITS + 1)]
CASES = EVERY or [
    ("agent", "outbox.confirmed", 1),
    ("approval", "work.committed", 1),
    ("executor", "executor.acted", 1),
    ("notifier", "notifier.sent", 1),
    ("policy", "relay.read", 1),
    ("jobs", "work.written", 1),
    ("dead_letters", "work.committed", 1),
    ("gateway", "audit.sealing", 1),
    ("approval", "approval.expiring", 1),
    ("approval", "work.written", 1),
    ("dead_letters", "outbox.confirmed", 1),
    ("gateway", "consumer.handled", 1),
]


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
    process.arguments = ("-m", "tests.support.killed_at", service)
    points = ",".join((*BEFORE.get((service, point), ()), point))
    process.environment |= {"KILL_AT": points, "KILL_HIT": str(hit), "KILL_MARK": str(mark)}


async def killed(system: System, doing: asyncio.Future[Any], service: str, point: str, mark: Path) -> None:
    """Return when the process has died as often as it should, and runs again."""
    name = f"{service}-1"

    def is_dead() -> bool:
        running = system.processes[name].running
        return running is not None and running.poll() is not None

    async def died() -> bool:
        # People may decide what a dead service has told nobody of; its relay tells of it all the same, later.
        return is_dead() or (doing.done() and (service, point) not in BEFORE.keys() | LATER)

    async def settled() -> bool:
        return is_dead() or not await asyncio.to_thread(mark.exists)

    for _ in (*BEFORE.get((service, point), ()), point):
        await until(died, f"{service} dies at {point}")
        # Its mark is there a moment before it has died: what it committed may be seen by then.
        await until(settled, f"{service} is dead, or was not killed")
        if is_dead():
            # Where it dies again, it may do so before it is ready.
            system.processes[name].start()
    assert await asyncio.to_thread(mark.exists), f"{service} never reached {point}"
    await until(system.processes[name].ready, f"{service} is ready again")


async def held(person: Patient, said: str, armed: Path | None = None) -> tuple[str, dict[str, Any]]:
    """Have a call proposed that is held, once a process is armed; return its conversation and its approval."""
    opened = (await person.tried("POST", "/v1/conversations")).json()["id"]
    if armed is not None:
        await asyncio.to_thread(armed.touch)
    message = {"text": said, "message_id": f"m-{opened}"}
    await person.tried("POST", f"/v1/conversations/{opened}/messages", json=message)
    return opened, await card_of(person, opened)


async def card_of(person: Patient, conversation: str) -> dict[str, Any]:
    """Return the approval of a conversation's call once that is held."""
    found: list[dict[str, Any]] = []

    async def is_held() -> bool:
        found[:] = (await person.tried("GET", "/v1/approvals", params={"conversation": conversation})).json()["items"]
        return bool(found)

    await until(is_held, "the call is held")
    return found[0]


async def ended_as(person: Patient, call_id: str) -> dict[str, Any]:
    """Return a call once it has its result."""
    call: dict[str, Any] = {}

    async def has_result() -> bool:
        call.update((await person.tried("GET", f"/v1/tool-calls/{call_id}")).json())
        return call["kind"] is not None

    await until(has_result, "the call has its result")
    return call

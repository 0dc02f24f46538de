"""kill -9 in the middle of a tool, with a ledger outside of the system that says what the tool really did."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from placet.contracts.ids import derived_id
from placet.contracts.messages import ToolCall, ToolCallFinished
from placet.executor.states import State
from tests.builders import an_envelope, an_event
from tests.support.executor_house import Premises, open_house
from tests.support.executor_tools import BEGUN

ROOT = Path(__file__).parents[3]


async def kill_in_the_tool(place: Premises, call: ToolCall) -> None:
    """Run `call` in a process of its own and kill that when the tool's line is on disk."""
    event = place.folder / "event.json"
    event.write_bytes(an_envelope(an_event(place.permitted(call))))
    arguments = ["-m", "tests.support.executor_process", place.url, str(place.folder), str(event)]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT, stdout=PIPE)
    assert process.stdout is not None
    lines = [line async for line in process.stdout if _killed_at(process, line)]
    assert lines, "the process ended before its tool had begun"
    assert -9 == await process.wait()


def _killed_at(process: asyncio.subprocess.Process, line: bytes) -> bool:
    begun = line.decode().strip() == BEGUN
    if begun:
        process.kill()
    return begun


@pytest.mark.parametrize(
    ("tool", "kind", "fences", "events"),
    [
        ("write_ledger", "unknown", [1], ["claimed", "gave_up"]),
        ("write_ledger_repeatable", "succeeded", [1, 2], ["claimed", "reclaimed", "succeeded"]),
    ],
)
async def test_a_killed_executors_call_is_ended_by_another(
    place: Premises, tool: str, kind: str, fences: list[int], events: list[str]
) -> None:
    """A tool that is safe to repeat runs again with its key; any other ran once, and the call is unknown."""
    ledger = place.folder / "ledger"
    call = place.call(tool, ledger=str(ledger), hang=True)
    await kill_in_the_tool(place, call)
    assert (State.RUNNING, "killed") == (place.execution(call).state, place.execution(call).worker)
    place.end_lease(call)
    async with open_house(place, sweeping=True, executor_worker="next") as house:
        answer = await house.answer()
        await house.idle()
        assert 0 == house.answers.qsize()
    assert isinstance(answer, ToolCallFinished)
    assert (kind, fences[-1]) == (answer.kind, answer.attempt)
    key = derived_id("idempotency", call.call_id)
    assert [f"begin {key} {fence}" for fence in fences] == ledger.read_text().splitlines()
    assert events == place.history(call)

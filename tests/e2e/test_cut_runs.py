"""Runs of AG-UI's clients that answer a question and end before their end: the page goes on with the next message."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.ids import new_id
from tests.e2e.conftest import Stage
from tests.support.node_client import node_client
from tests.support.people import Caller, Visitor, is_result
from tests.support.ports import lasting_port
from tests.support.system import Process, System, until

HELLO = "Hello, how can I help you today?"


@pytest.fixture
def shopper(system: System) -> Caller:
    """A chat product's backend whose person may also decide."""
    return Caller(system.url, system.key("chat", "decide", person="grace"))


@asynccontextmanager
async def another_gateway(system: System) -> AsyncIterator[tuple[Process, str]]:
    """Run one more gateway, which may be stopped; yield it and its address."""
    port = lasting_port()
    other = system.add("gateway", number=2)
    other.environment["PLACET_GATEWAY_PORT"] = str(port)
    other.health_port = port
    await system.start()
    try:
        yield other, f"http://127.0.0.1:{port}"
    finally:
        other.stop()
        del system.processes[other.name]


def ends(said: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return the last two events of a run: type and code."""
    return [(event["type"], event.get("code")) for event in said["events"][-2:]]


def results(said: dict[str, Any]) -> list[str]:
    """Return how the calls ended that the page shows."""
    return [each["metadata"]["placet"]["kind"] for each in said["messages"] if each["role"] == "tool"]


def texts(said: dict[str, Any]) -> list[str]:
    """Return what the assistant says in the page's messages."""
    return [each["content"] for each in said["messages"] if each["role"] == "assistant" and each.get("content")]


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_page_goes_on_after_its_gateway_ended(shopper: Caller, stage: Stage, system: System, how: str) -> None:
    """While the approved call runs: one that stops leaves no question; killed, the run of docs/ag-ui.md clears it."""
    gate, thread_id = Path(stage.environment["PLACET_TEST_LEDGER"] + ".gate"), new_id()

    async def runs() -> bool:
        return bool(stage.begun("slow_deploy", f"acme_{thread_id}"))

    os.mkfifo(gate)
    async with (
        another_gateway(system) as (other, url),
        node_client("ag_ui.mjs", url, shopper.token, thread_id) as page,
    ):
        await page.do("say", text="deploy slowly")
        await page.do("begin", payload={"approved": True})
        await until(runs, "the call runs")
        getattr(other, how)()
        cut = await page.do("end")
        await asyncio.to_thread(gate.write_bytes, b"open")
        await Visitor(shopper.url, shopper.token, thread_id).see(is_result("slow_deploy"))
        await system.start_again(other.name)
        if how == "kill":
            await page.do("answer")
        told = await page.do("say", text="hello")
    await asyncio.to_thread(gate.unlink)
    let_go, questions = [("RUN_FINISHED", None), ("RUN_ERROR", "let-go")], len(cut["interrupts"])
    assert (how == "stop", int(how == "kill")) == (ends(cut) == let_go, questions)
    assert (None, ["succeeded"], HELLO) == (told["error"], results(told), texts(told)[-1])


async def test_a_turn_that_fails_behind_an_answer_leaves_no_question(shopper: Caller) -> None:
    """The run ends with an error, and the page goes on with the next message."""
    async with node_client("ag_ui.mjs", shopper.url, shopper.token, new_id()) as page:
        await page.do("say", text="deploy, then fall")
        failed = await page.do("answer", payload={"approved": True})
        told = await page.do("say", text="hello")
    assert ([("RUN_FINISHED", None), ("RUN_ERROR", "turn-failed")], []) == (ends(failed), failed["interrupts"])
    assert (None, HELLO) == (told["error"], texts(told)[-1])


async def test_a_page_that_knows_of_no_question_just_writes(shopper: Caller) -> None:
    """Loaded again while a call waits, its message is answered, and its run ends by asking."""
    async with node_client("ag_ui.mjs", shopper.url, shopper.token, new_id()) as page:
        asked = await page.do("say", text="deploy the shop please")
        await page.do("load")
        told = await page.do("say", text="hello, are you still there?")
    assert (None, HELLO, asked["interrupts"]) == (told["error"], texts(told)[-1], told["interrupts"])

"""The executor as it is deployed: processes of their own on a real broker, killed and told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.executor.states import State
from shared.bus import Delivery
from shared.consumer import read_envelope
from shared.messages import Message, ToolCall, ToolCallFinished
from shared.rabbit import RabbitBus, _queue
from shared.topology import Destination, QueueSpec, executor_queue
from tests.builders import an_envelope, an_event
from tests.support.executor_house import Premises
from tests.support.executor_tools import BEGUN

ROOT = Path(__file__).parents[3]


class Processes:
    """Executors on one broker, and the answers that leave them."""

    def __init__(self, place: Premises, rabbitmq_url: str) -> None:
        self.place, self.url = place, rabbitmq_url
        self.bus = RabbitBus(rabbitmq_url, service="test", declare=True)
        self.bus.subscribe(QueueSpec("test.results", "test", (Destination("tool-results", "#"),)), self._catch)
        self.answers: asyncio.Queue[Message] = asyncio.Queue()
        self._running: list[Process] = []

    async def _catch(self, delivery: Delivery) -> None:
        for event in read_envelope(delivery.body)[0]:
            self.answers.put_nowait(event.message)

    def variables(self, **settings: Any) -> dict[str, str]:
        """Return the environment of an executor of this place."""
        fields = {"executor_lease_seconds": 2, "executor_sweep_seconds": 0.5, "drain_seconds": 30} | settings
        fields |= {"database_url": self.place.url, "rabbitmq_url": self.url}
        fields |= {"rulebook": self.place.rulebook, "keys": self.place.keys}
        return {f"PLACET_{name.upper()}": str(value) for name, value in fields.items()}

    async def start(self, **settings: Any) -> Process:
        """Start an executor."""
        environment = os.environ | self.variables(**settings)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.executor", cwd=ROOT, env=environment, stdout=PIPE
        )
        self._running.append(process)
        return process

    async def declare(self) -> None:
        """Make the pool's queue, as its first executor does."""
        spec = executor_queue("default")
        made = await self.bus._broker.declare_queue(_queue(spec, declare=True))
        for binding in spec.bindings:
            await made.bind(binding.exchange, routing_key=binding.key)

    async def permit(self, call: ToolCall) -> None:
        """Send a permit for `call` to the pool `default`."""
        event = an_event(self.place.permitted(call))
        destination = Destination("executions", "default")
        await self.bus.publish(destination, an_envelope(event), message_id=event.id, mandatory=True)

    async def answer(self) -> ToolCallFinished:
        """Return the next answer."""
        message = await self.answers.get()
        assert isinstance(message, ToolCallFinished)
        return message

    async def close(self) -> None:
        """End what still runs."""
        for process in self._running:
            if process.returncode is None:
                process.kill()
                await process.wait()
        await self.bus.stop()


@pytest.fixture
async def processes(place: Premises, rabbitmq_url: str) -> AsyncIterator[Processes]:
    """Nothing running yet, on a broker of its own."""
    opened = Processes(place, rabbitmq_url)
    await opened.bus.start()
    await opened.declare()
    yield opened
    await opened.close()


async def has_begun(process: Process) -> None:
    """Return when a tool of `process` has begun."""
    assert process.stdout is not None
    async for line in process.stdout:
        if line.decode().strip() == BEGUN:
            return
    pytest.fail("the executor ended before its tool had begun")


async def test_a_killed_executor_loses_nothing_and_repeats_nothing(processes: Processes) -> None:
    """Of three calls one hangs when its process is killed: it becomes unknown; the others run once, elsewhere."""
    ledger = processes.place.folder / "ledger"
    hanging = processes.place.call("write_ledger", ledger=str(ledger), hang=True)
    waiting = [processes.place.call("write_ledger", ledger=str(ledger), hang=False) for _ in range(2)]
    killed = await processes.start(executor_slots=1)
    await processes.permit(hanging)
    await has_begun(killed)
    for call in waiting:
        await processes.permit(call)
    killed.kill()
    await killed.wait()
    await processes.start()
    answers = [await processes.answer() for _ in range(3)]
    assert {hanging.call_id: "unknown"} | {call.call_id: "succeeded" for call in waiting} == {
        answer.call_id: answer.kind for answer in answers
    }
    assert 3 == len(ledger.read_text().splitlines())


async def test_a_stopped_executor_finishes_what_it_has_and_takes_no_more(processes: Processes) -> None:
    """SIGTERM: the running tool may end, its answer is sent, the process leaves with success; another takes over."""
    fifo = processes.place.folder / "fifo"
    os.mkfifo(fifo)
    call, later = processes.place.call("read_fifo", fifo=str(fifo)), processes.place.call("add", a=1, b=2)
    process = await processes.start()
    await processes.permit(call)
    await has_begun(process)
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(fifo.write_text, "go on")
    assert 0 == await process.wait()
    assert State.SUCCEEDED == processes.place.execution(call).state
    answer = await processes.answer()
    assert (call.call_id, "succeeded") == (answer.call_id, answer.kind)
    await processes.permit(later)
    assert processes.place.execution(later) is None
    following = await processes.start()
    assert later.call_id == (await processes.answer()).call_id
    following.send_signal(signal.SIGTERM)
    assert 0 == await following.wait()

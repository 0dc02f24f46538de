"""Executors as they are deployed: processes of their own on a real broker."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from placet.contracts.messages import Message, ToolCall, ToolCallFinished, ToolCallPermitted
from placet.contracts.topology import Destination, QueueSpec, executor_queue
from placet.runtime.bus import Delivery
from placet.runtime.consumer import read_envelope
from placet.runtime.declaring import declare_topology
from placet.runtime.rabbit import RabbitBus
from tests.builders import an_envelope, an_event
from tests.support.executor_house import Premises
from tests.support.executor_tools import BEGUN

ROOT = Path(__file__).parents[2]


async def has_begun(process: Process) -> None:
    """Return when a tool of `process` has begun."""
    assert process.stdout is not None
    async for line in process.stdout:
        if line.decode().strip() == BEGUN:
            return
    raise AssertionError("the executor ended before its tool had begun")


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
        fields: dict[str, Any] = {"executor_lease_seconds": 2, "executor_sweep_seconds": 0.5, "drain_seconds": 30}
        fields |= {"database_url": self.place.url, "rabbitmq_url": self.url} | settings
        fields |= {"rulebook": self.place.rulebook, "keys": self.place.keys}
        return {f"PLACET_{name.upper()}": str(value) for name, value in fields.items()}

    async def start(self, **settings: Any) -> Process:
        """Start an executor."""
        environment = os.environ | self.variables(**settings)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "placet.executor", cwd=ROOT, env=environment, stdout=PIPE
        )
        self._running.append(process)
        return process

    async def declare(self) -> None:
        """Make the pool's queue, as its first executor does."""
        await declare_topology(self.url, [executor_queue("default")])

    async def permit(self, call: ToolCall) -> None:
        """Send a permit for `call` to the pool `default`."""
        await self.send(self.place.permitted(call))

    async def send(self, permitted: ToolCallPermitted) -> None:
        """Send a permit to the pool `default`."""
        event = an_event(permitted)
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

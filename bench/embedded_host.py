"""Every service in one process without a broker, with the stub model: `python -m bench.embedded_host`.

What `placet up` runs, on a PostgreSQL that is there already. What happens to conversations is told to whoever connects
to the socket `heard` in PLACET_BENCH_FOLDER, an envelope a line, as a broker would. SIGUSR1 and SIGUSR2 begin and end
what `make house` watches.
"""

from __future__ import annotations

import asyncio
import signal

import uvloop

from bench import stub_agent
from bench.house import traced
from bench.tools import FOLDER
from placet.agent.settings import AgentSettings
from placet.contracts.topology import SERVICES, Destination
from placet.embedded import system
from placet.embedded.system import at_work
from placet.runtime.bus import Delivery
from placet.runtime.in_process import InProcessBus
from placet.runtime.logging import set_up_logging
from placet.runtime.service import Service, runtime_on

TOLD = (Destination("approvals", "approval.opened"), Destination("conversations", "items.#"))


async def _run() -> None:
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    start, end = traced(FOLDER / "traced")
    loop.add_signal_handler(signal.SIGUSR1, start)
    loop.add_signal_handler(signal.SIGUSR2, end)
    bus = InProcessBus()
    listening: set[asyncio.StreamWriter] = set()

    async def tell(delivery: Delivery) -> None:
        for writer in listening:
            writer.write(delivery.body + b"\n")

    bus.listen("bench", TOLD, tell)
    server = await asyncio.start_unix_server(lambda _, writer: listening.add(writer), FOLDER / "heard")
    async with server, at_work([_build(name, bus) for name in SERVICES], bus):
        await stopping.wait()


def _build(name: str, bus: InProcessBus) -> Service:
    settings = system.settings_type(name)()
    runtime = runtime_on(settings, name, bus)
    if isinstance(settings, AgentSettings):
        return stub_agent.build(settings, runtime)
    return system.build(name, settings, runtime)


if __name__ == "__main__":
    set_up_logging("warning")
    uvloop.run(_run())

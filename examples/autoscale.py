"""Keeps as many executors of a pool as its queue asks for: starts them while calls wait, drains them when none do.

Needs aio-pika and nothing of Placet. On one machine, with everything that an executor reads in the environment:

    export AUTOSCALE_RABBITMQ_URL=amqp://placet-executor:PASSWORD@localhost/placet
    python examples/autoscale.py payments --max 8 -- placet run executor --pool payments

Clusters have controllers for this: deploy/kubernetes/executor-autoscaling.yaml asks the same queue in the same way.
What the queue shows as ready is work that nobody has taken. An executor that is told to stop (SIGTERM) takes no more,
ends what it runs, and leaves; so a wrong guess costs a start, and never a call.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import Process

import aio_pika

Options = argparse.Namespace


def wanted(waiting: int, options: Options) -> int:
    """Return how many executors so many waiting calls ask for."""
    return int(min(options.max, max(options.min, -(-waiting // options.calls))))


class Crew:
    """The executors that run."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._running: list[Process] = []

    def count(self) -> int:
        """Return how many run; those that ended by themselves do not."""
        self._running = [each for each in self._running if each.returncode is None]
        return len(self._running)

    async def grow(self, number: int) -> None:
        """Start executors until there are `number`."""
        while self.count() < number:
            self._running.append(await asyncio.create_subprocess_exec(*self._command))

    async def shrink(self, number: int) -> None:
        """Drain the youngest until there are `number`."""
        surplus, self._running = self._running[number:], self._running[:number]
        for each in surplus:
            if each.returncode is None:
                each.send_signal(signal.SIGTERM)
        await asyncio.gather(*(each.wait() for each in surplus))


async def keep(options: Options, stop: asyncio.Event) -> None:
    """Look at the queue every few seconds until `stop`, then drain everybody."""
    crew, busy_at = Crew(options.command), time.monotonic()
    connection = await aio_pika.connect_robust(os.environ["AUTOSCALE_RABBITMQ_URL"])
    try:
        while not stop.is_set():
            async with connection.channel() as channel:
                queue = await channel.declare_queue(f"executor.{options.pool}", passive=True)
            waiting = queue.declaration_result.message_count or 0
            before, number = crew.count(), wanted(waiting, options)
            busy_at = time.monotonic() if waiting else busy_at
            await crew.grow(number)
            if number < before and time.monotonic() - busy_at >= options.quiet_seconds:
                await crew.shrink(number)
            if crew.count() != before:
                print(f"{options.pool}: {waiting} waiting, {before} -> {crew.count()} executors", flush=True)  # noqa: T201  # what a person watches
            await _pause(stop, options.every_seconds)
    finally:
        await crew.shrink(0)
        await connection.close()


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


async def _main(options: Options) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await keep(options, stop)
    return 0


def _options() -> Options:
    parser = argparse.ArgumentParser(description="Keep as many executors of a pool as its queue asks for.")
    parser.add_argument("pool")
    parser.add_argument("--min", type=int, default=0, help="executors that always run")
    parser.add_argument("--max", type=int, default=4, help="executors at most")
    parser.add_argument("--calls", type=int, default=4, help="waiting calls that ask for one executor")
    parser.add_argument("--every-seconds", type=float, default=2.0, help="pause between two looks")
    parser.add_argument(
        "--quiet-seconds", type=float, default=30.0, help="time without waiting calls before it shrinks"
    )
    parser.add_argument("command", nargs="+", help="what starts one executor, after --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(_options())))

"""CPU time of everything that takes part: this process and its children, the broker, the database.

Broker and database are known by where they listen, else by their names, so nothing else may use them while a benchmark
runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import psutil
import psycopg

POSTGRES_URL = os.environ.get("PLACET_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
RABBITMQ_URL = os.environ.get("PLACET_TEST_RABBITMQ_URL", "amqp://guest:guest@127.0.0.1:5672/")


class ProcessorTime:
    """Adds up CPU seconds between entering and leaving a block.

    Processes that end inside the block are lost from the sum: connections and services must outlive it.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        """CPU seconds spent, once the block has ended."""
        self._before: dict[psutil.Process, float] = {}

    def __enter__(self) -> Self:
        """Remember what everybody has used so far."""
        self._before = dict(_used())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add up what has been used since; a process that is new counts from its start."""
        self.seconds = sum(used - self._before.get(process, 0.0) for process, used in _used())


def servers() -> dict[str, list[psutil.Process]]:
    """Return the processes of the database and of the broker that are measured with."""
    with psycopg.connect(POSTGRES_URL) as connection:
        backend = connection.info.backend_pid
        try:
            main = psutil.Process(backend).parent()
        except psutil.NoSuchProcess:
            main = None
    postgres = [main, *main.children()] if main else _named("postgres")
    port = urlsplit(RABBITMQ_URL).port or 5672
    listening = {
        each.pid
        for each in psutil.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port and each.pid
    }
    return {"postgres": postgres, "rabbitmq": [*map(psutil.Process, listening)] or _named("beam.smp")}


def seconds(process: psutil.Process) -> float:
    """Return the CPU seconds of a process; none of one that has ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return times.user + times.system


def _named(name: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["name"]) if process.info["name"] == name]


def _used() -> Iterator[tuple[psutil.Process, float]]:
    this = psutil.Process()
    for process in {this, *this.children(recursive=True), *chain.from_iterable(servers().values())}:
        yield process, seconds(process)

"""CPU time of everything that takes part: this process and its children, the broker, the database.

Broker and database are known by their process names, so nothing else may use them while a benchmark runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import psutil

SERVERS = frozenset({"beam.smp", "postgres"})


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


def _used() -> Iterator[tuple[psutil.Process, float]]:
    this = psutil.Process()
    servers = (process for process in psutil.process_iter(["name"]) if process.info["name"] in SERVERS)
    for process in {this, *this.children(recursive=True), *servers}:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        yield process, times.user + times.system

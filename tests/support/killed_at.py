"""Runs a service, and ends it as a crash would at a named point: `-m tests.support.killed_at agent`.

`KILL_AT` names the point, `KILL_HIT` at which time that it is reached, from 1. It happens once, and only after the file
`KILL_MARK` with `.armed` behind it is there; then `KILL_MARK` is, so that the same command goes on the next time. Of
several points, with commas between them, each ends one process: the first one the first, and so on; before another
point `work.committed` counts only where the commit left something to send, which is what the next process is to find.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from placet.runtime import points
from placet.runtime.outbox import Outbox, OutboxRow

#: What is on its way when the process ends: the bytes are out, and no answer has come.
UNDER_WAY_SECONDS = 0.002


def kill_at(wanted: Sequence[str], hit: int, mark: Path) -> None:
    """End this process when the first point at which none has ended yet is reached for the `hit`-th time."""
    armed, times = Path(f"{mark}.armed"), 0
    marks = [*(Path(f"{mark}.{point}") for point in wanted[:-1]), mark]
    left = [(point, each) for point, each in zip(wanted, marks, strict=True) if not each.exists()]
    point, own = left[0] if left else ("", mark)

    def end() -> None:
        own.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def reached(name: str) -> None:
        nonlocal times
        if name != point or own.exists() or not armed.exists():
            return
        times += 1
        if times != hit:
            return
        if name == "outbox.publishing":
            threading.Timer(UNDER_WAY_SECONDS, end).start()
        else:
            end()

    if point == "work.committed" != wanted[-1]:
        send = Outbox.send

        def sends(outbox: Outbox, rows: Iterable[OutboxRow]) -> None:
            given = list(rows)
            if armed.exists() and not all(each.way.transient for each in given):
                end()
            send(outbox, given)

        Outbox.send = sends  # type: ignore[method-assign,assignment]
        return
    points.reached = reached


if __name__ == "__main__":
    kill_at(os.environ["KILL_AT"].split(","), int(os.environ.get("KILL_HIT", "1")), Path(os.environ["KILL_MARK"]))
    runpy.run_module(f"placet.{sys.argv[1]}", run_name="__main__")

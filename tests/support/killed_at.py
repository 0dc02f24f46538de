"""Runs the `placet` command, and ends it as a crash would at a named point: `-m tests.support.killed_at run agent`.

`KILL_AT` names the point, `KILL_HIT` at which time that it is reached, from 1. It happens once, and only after the file
`KILL_MARK` with `.armed` behind it is there; then `KILL_MARK` is, so that the same command goes on the next time.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from placet.cli.main import main
from placet.runtime import points

#: What is on its way when the process ends: the bytes are out, and no answer has come.
UNDER_WAY_SECONDS = 0.002


def kill_at(wanted: str, hit: int, mark: Path) -> None:
    """End this process when a point is reached for the `hit`-th time."""
    armed, times = Path(f"{mark}.armed"), 0

    def end() -> None:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def reached(name: str) -> None:
        nonlocal times
        if name != wanted or mark.exists() or not armed.exists():
            return
        times += 1
        if times != hit:
            return
        if name == "outbox.publishing":
            threading.Timer(UNDER_WAY_SECONDS, end).start()
        else:
            end()

    points.reached = reached


if __name__ == "__main__":
    kill_at(os.environ["KILL_AT"], int(os.environ.get("KILL_HIT", "1")), Path(os.environ["KILL_MARK"]))
    main()

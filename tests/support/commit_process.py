"""An executor in a process of its own, to be killed in a commit: `python -m tests.support.commit_process …`.

URL, FOLDER and EVENT are as in `executor_process`; STEP is `middle`, between two changes, or a step of the commit.
There it says so and stays.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from placet.executor.worker import Worker
from placet.runtime.consumer import read_envelope
from placet.tools import DecidedChange, ToolContext
from placet.tools.files.pack import Files, files_of
from placet.tools.files.paths import parts_of
from placet.tools.files.tree import Draft
from tests.support.executor_house import Premises, open_house
from tests.support.executor_tools import say_begun


class Stays(Files):
    """Makes one of several changes and stays there."""

    async def apply(self, changes: Sequence[DecidedChange], context: ToolContext) -> None:
        """Let the first new content take its place."""
        draft = Draft(files_of(context).tree(context), f"{context.idempotency_key}-{context.fence}")
        number, change = next((n, each) for n, each in enumerate(changes) if each.after)
        draft.place(number, parts_of(change.key), change.after or "", change.wanted)
        stay()


def stay() -> None:
    """Tell whoever watches, and never go on."""
    say_begun()
    threading.Event().wait()


async def main(url: str, folder: str, body: bytes, step: str) -> None:
    """Commit, and stay at the step."""
    async with open_house(Premises(url, Path(folder)), executor_worker="killed") as house:
        duty = next(each for each in house.service.duties if each.name == "recover-commits")
        worker: Worker = duty.run_once.__self__._worker  # type: ignore[attr-defined]
        if step == "middle":
            worker.committing.packs = {"files": Stays()}
        worker.committing._reached = lambda reached: stay() if reached == step else None
        (permitted,) = read_envelope(body)[0]
        await house.deliver_event(permitted)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_bytes(), sys.argv[4]))

"""An executor in a process of its own, to be killed: `python -m tests.support.executor_process URL FOLDER EVENT`.

It takes one permit from the file EVENT and then runs until somebody ends it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from placet.runtime.consumer import read_envelope
from tests.support.executor_house import Premises, open_house


async def main(url: str, folder: str, body: bytes) -> None:
    """Run the permitted call and stay."""
    place = Premises(url, Path(folder))
    async with open_house(place, executor_worker="killed") as house:
        (permitted,) = read_envelope(body)[0]
        await house.deliver_event(permitted)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]).read_bytes()))

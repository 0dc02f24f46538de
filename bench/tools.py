"""The tool of the benchmark: trivial, but it leaves a trace, so that running twice is found out."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from placet.tools import ToolContext

FOLDER = Path(os.environ.get("PLACET_BENCH_FOLDER", "."))


async def touch(product: str, quantity: int, note: str, context: ToolContext) -> str:
    """Append the call's id to the ledger."""
    del product, quantity, note
    append(FOLDER / "ledger", context.call_id)
    return "done"


async def sleep(milliseconds: int, context: ToolContext) -> str:
    """Take a while, and append the call's id to the ledger, and when it ended."""
    await asyncio.sleep(milliseconds / 1000)
    append(FOLDER / "ledger", f"{context.call_id} {time.perf_counter()}")
    return "done"


def append(path: Path, line: str) -> None:
    """Add a line to a file that several processes may write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)

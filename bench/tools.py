"""The tool of the benchmark: trivial, but it leaves a trace, so that running twice is found out."""

from __future__ import annotations

import os

from services.executor.tools import ToolContext


async def touch(product: str, quantity: int, note: str, context: ToolContext) -> str:
    """Append the call's id to the ledger."""
    del product, quantity, note
    descriptor = os.open(os.environ["PLACET_BENCH_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{context.call_id}\n".encode())
    finally:
        os.close(descriptor)
    return "done"

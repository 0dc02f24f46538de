"""Tools of the end-to-end tests: each writes what it did to a ledger outside the system, synced line by line."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from services.executor.tools import ToolContext, ToolError


def _write(context: ToolContext, what: str, tool: str, **facts: Any) -> None:
    line = {
        "what": what,
        "tool": tool,
        "call": context.call_id,
        "key": context.idempotency_key,
        "fence": context.fence,
        "tenant": context.tenant,
        "conversation": context.conversation_id,
        "message": context.message_id,
        "requester": context.requester,
        "at": time.monotonic(),
        **facts,
    }
    descriptor = os.open(os.environ["PLACET_TEST_LEDGER"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def deploy(service: str, version: str, context: ToolContext) -> dict[str, str]:
    """Deploy a service; must never run twice for one call."""
    _write(context, "begin", "deploy", service=service, version=version)
    await asyncio.sleep(0)
    _write(context, "end", "deploy")
    return {"service": service, "version": version, "url": f"https://{service}.example.test"}


def slow_deploy(service: str, context: ToolContext) -> dict[str, str]:
    """Deploy until somebody opens the gate, a named pipe; must never run twice for one call."""
    _write(context, "begin", "slow_deploy", service=service)
    Path(os.environ["PLACET_TEST_LEDGER"] + ".gate").read_bytes()
    _write(context, "end", "slow_deploy")
    return {"service": service}


async def set_flag(name: str, context: ToolContext) -> dict[str, str]:
    """Set a flag; safe to repeat with the same key."""
    _write(context, "begin", "set_flag", name=name)
    await asyncio.sleep(0.01)
    _write(context, "end", "set_flag")
    return {"name": name}


def read_status(service: str, context: ToolContext) -> dict[str, str]:
    """Read a service's status."""
    _write(context, "begin", "read_status", service=service)
    return {"service": service, "status": "green"}


def fail_on_purpose(context: ToolContext) -> None:
    """Fail with a text for the model."""
    _write(context, "begin", "fail_on_purpose")
    raise ToolError("the disk is full")


def refund(amount: float, context: ToolContext) -> dict[str, float]:
    """Give money back."""
    _write(context, "begin", "refund", amount=amount)
    return {"amount": amount}


def write_file(path: str, context: ToolContext) -> None:
    """Write a file; policy stages such calls, so this must never run."""
    _write(context, "begin", "write_file", path=path)

"""The tools that executor tests permit: each ends, hangs or breaks in one way that a test names.

A hanging tool meets its test at a gate, known to both by a name: the tool says that it has begun, the test says when
it may end.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placet.tools import (
    CannotTell,
    DidNotRun,
    Finding,
    Ran,
    ToolContext,
    ToolError,
    ToolOutcomeUnknown,
    ToolReply,
    secret,
)
from placet.tools.resources import PackSettings
from placet.tools.ui_blocks import NoticeBlock

#: What a tool says on standard output to a test that watches its process.
BEGUN = "tool begun"


def _tool(function: str, *required: str, **changes: Any) -> dict[str, Any]:
    types = {"a": "integer", "b": "integer", "hang": "boolean"}
    return {
        "description": f"Does {function}.",
        "category": "safe_compute",
        "function": f"{__name__}:{function}",
        "timeout_seconds": 20.0,
        "parameters": {
            "type": "object",
            "properties": {name: {"type": types.get(name, "string")} for name in required},
            "required": list(required),
        },
    } | changes


TOOLS = {
    "add": _tool("add", "a", "b"),
    "tell_context": _tool("tell_context"),
    "use_secret": _tool("use_secret", "taken"),
    "say_no": _tool("say_no"),
    "break_down": _tool("break_down"),
    "doubt": _tool("doubt"),
    "wait": _tool("wait", "gate"),
    "wait_repeatable": _tool("wait", "gate", idempotent=True),
    "hang": _tool("wait", "gate", timeout_seconds=0.05),
    "hang_repeatable": _tool("wait", "gate", timeout_seconds=0.05, idempotent=True),
    "block": _tool("block", "gate"),
    "hang_blocking": _tool("block", "gate", timeout_seconds=0.05),
    "write_ledger": _tool("write_ledger", "ledger", "hang"),
    "write_ledger_repeatable": _tool("write_ledger", "ledger", "hang", idempotent=True),
    "wait_verified": _tool("wait", "gate", verify=f"{__name__}:look"),
    "wait_repeatable_verified": _tool("wait", "gate", idempotent=True, verify=f"{__name__}:look"),
    "hang_verified": _tool("wait", "gate", timeout_seconds=0.05, verify=f"{__name__}:look"),
    "hang_blocking_verified": _tool("block", "gate", timeout_seconds=0.05, verify=f"{__name__}:look"),
    "doubt_verified": _tool("doubt_at", "gate", verify=f"{__name__}:look"),
    "read_fifo": _tool("read_fifo", "fifo"),
    "pay": _tool("wait", "gate", pool="payments"),
    "pay_repeatable": _tool("wait", "gate", pool="payments", idempotent=True),
    "final_answer": {
        "description": "Ends the turn; no executor runs it.",
        "category": "safe_compute",
        "parameters": {"type": "object", "properties": {}},
    },
}
#: The rulebook's text; YAML reads JSON.
RULEBOOK = json.dumps({"version": 1, "tools": TOOLS})


@dataclass
class Gate:
    """Where a test and a tool meet."""

    begun: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)
    #: Fence and idempotency key of each attempt that came here.
    attempts: list[tuple[int, str]] = field(default_factory=list)
    #: What the probe finds here, or raises; None lets it hang.
    finding: object = None
    #: Fence and idempotency key of each look.
    looks: list[tuple[int, str]] = field(default_factory=list)
    looked: threading.Event = field(default_factory=threading.Event)

    async def has_begun(self) -> None:
        """Return when the tool has begun."""
        await asyncio.to_thread(self.begun.wait)
        self.begun.clear()


GATES: dict[str, Gate] = {}


def a_gate(name: str) -> Gate:
    """Return the gate called `name`."""
    return GATES.setdefault(name, Gate())


@asynccontextmanager
async def open_resources(settings: PackSettings) -> AsyncIterator[dict[str, Any]]:
    """Open what these tools need while the executor runs: a word."""
    assert settings.database_url
    yield {"word": "hello"}


async def add(a: int, b: int) -> ToolReply:
    """Add, and show the sum to a person."""
    return ToolReply(data={"sum": a + b}, ui_blocks=[NoticeBlock(level="info", text=str(a + b))])


async def tell_context(context: ToolContext) -> dict[str, Any]:
    """Return what the executor says about the call."""
    names = ("tenant", "conversation_id", "call_id", "idempotency_key", "fence", "requester", "message_id", "language")
    told = {name: getattr(context, name) for name in names}
    return {**told, "word": context.resource("word", str)}


def use_secret(taken: str) -> None:
    """Ask a provider that takes the keys in a file."""
    if secret("PROVIDER_KEY") not in Path(taken).read_text().split():
        raise ToolError("The provider refuses the key.", code="refused")


async def say_no() -> None:
    """Fail on purpose."""
    raise ToolError("The product is sold out.", code="sold_out", data={"variants": ["38"]})


async def break_down() -> None:
    """Fail by mistake, with a text that is for nobody."""
    raise RuntimeError("password=hunter2")


async def doubt() -> None:
    """Not know."""
    raise ToolOutcomeUnknown("The provider did not answer.")


async def doubt_at(gate: str, context: ToolContext) -> None:
    """Not know, after having come to the gate."""
    a_gate(gate).attempts.append((context.fence, context.idempotency_key))
    raise ToolOutcomeUnknown("The provider did not answer.")


async def look(gate: str, context: ToolContext) -> Finding:
    """Find what the gate says."""
    here = a_gate(gate)
    here.looks.append((context.fence, context.idempotency_key))
    here.looked.set()
    match here.finding:
        case Ran() | DidNotRun() | CannotTell() as finding:
            return finding
        case None:
            await asyncio.Event().wait()
            raise AssertionError
        case BaseException() as error:
            raise error
        case other:
            return other  # type: ignore[return-value]  # a probe that breaks its promise


async def wait(gate: str, context: ToolContext) -> str:
    """Wait at the gate as a coroutine, which can be cancelled."""
    here = a_gate(gate)
    here.attempts.append((context.fence, context.idempotency_key))
    here.begun.set()
    try:
        while not here.opened.is_set():  # noqa: ASYNC110 - the gate is a thread's too, and this must be cancellable
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        here.cancelled.set()
        raise
    return f"done by attempt {context.fence}"


def block(gate: str, context: ToolContext) -> str:
    """Wait at the gate as a thread, which cannot be stopped."""
    here = a_gate(gate)
    here.attempts.append((context.fence, context.idempotency_key))
    here.begun.set()
    here.opened.wait(30)
    return f"done by attempt {context.fence}"


def write_ledger(ledger: str, *, hang: bool, context: ToolContext) -> str:
    """Write a line that survives the process, then hang for ever if this is the first attempt and it should."""
    with Path(ledger).open("a") as file:
        file.write(f"begin {context.idempotency_key} {context.fence}\n")
        file.flush()
        os.fsync(file.fileno())
    say_begun()
    if hang and context.fence == 1:
        threading.Event().wait()
    return f"written by attempt {context.fence}"


def read_fifo(fifo: str) -> str:
    """Say that it has begun, then return what somebody writes into `fifo`."""
    say_begun()
    return Path(fifo).read_text()


def say_begun() -> None:
    """Tell a test that watches the process."""
    sys.stdout.write(f"{BEGUN}\n")
    sys.stdout.flush()

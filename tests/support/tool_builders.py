"""Builders for tests of tools: catalogue entries, contexts, and modules that hold a test's own functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from uuid import uuid4

from placet.tools import ToolContext
from placet.tools.registry import LoadedTool, load_tools

MODULE = "tests_own_tool_pack"


@dataclass(frozen=True)
class Entry:
    """As much of a catalogue entry as the registry reads."""

    name: str
    parameters: dict[str, Any]
    function: str | None
    redact: tuple[str, ...] = ()
    verify: str | None = None
    stage: str | None = None


def a_schema(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a schema with these properties, of any type."""
    return {"type": "object", "properties": {name: {} for name in names}, "required": list(required)}


def a_context(**given: Any) -> ToolContext:
    """Return a context for a call of its own; what is given stands in place of the defaults."""
    defaults: dict[str, Any] = {
        "tenant": "acme",
        "conversation_id": "conversation-1",
        "call_id": f"call-{uuid4()}",
        "idempotency_key": f"key-{uuid4()}",
        "fence": 1,
        "requester": "visitor-1",
        "message_id": "message-1",
        "language": "en",
        "deadline": datetime.now(UTC) + timedelta(seconds=60),
    }
    return ToolContext(**{**defaults, **given})


@contextmanager
def a_module(name: str = MODULE, **members: Any) -> Iterator[str]:
    """Make a module with these members importable until the block ends; yields its name."""
    module = ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    sys.modules[name] = module
    try:
        yield name
    finally:
        del sys.modules[name]


def a_tool(
    function: Callable[..., Any], *names: str, required: tuple[str, ...] = (), redact: tuple[str, ...] = ()
) -> LoadedTool:
    """Load the function as the tool `sample` with a schema of these properties."""
    with a_module(function=function) as module:
        entry = Entry("sample", a_schema(*names, required=required), f"{module}:function", redact)
        return load_tools([entry])["sample"]

"""Builders for tests of tools: catalogue entries, contexts, and modules that hold a test's own functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from uuid import uuid4

from placet.domain.catalog import ToolSpec
from placet.tools import ToolContext
from placet.tools.registry import LoadedTool, load_tools

MODULE = "tests_own_tool_pack"


def a_spec(name: str, parameters: dict[str, Any], function: str | None, **given: Any) -> ToolSpec:
    """Return a catalogue entry as the registry reads it, which no rulebook has checked."""
    return ToolSpec.model_construct(name=name, parameters=parameters, function=function, **given)


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
        entry = a_spec("sample", a_schema(*names, required=required), f"{module}:function", redact=list(redact))
        return load_tools([entry])["sample"]

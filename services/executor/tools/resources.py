"""What tool packs need while the executor runs: database engines, HTTP clients.

Owns the convention: a module named in the catalogue may have an `open_resources`, an async context manager
that takes `PackSettings` and yields its resources by name. The executor enters all of them once at start
and leaves them at the end; tools find them in `ToolContext.resources`. So the executor knows no pack, and
no pack needs a global::

    @asynccontextmanager
    async def open_resources(settings: PackSettings) -> AsyncIterator[dict[str, object]]:
        async with httpx.AsyncClient() as client:
            yield {"weather": WeatherResources(client)}
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from services.executor.tools.registry import LoadedTool, ToolLoadError


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSettings:
    """What the executor tells every tool pack."""

    database_url: str = field(repr=False)
    """The executor's own database; a pack keeps its tables in its own schema there, unless it is told another."""
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Settings by pack name that go before the environment's; the embedded footing chooses its ports at run time."""


OpenResources = Callable[[PackSettings], AbstractAsyncContextManager[Mapping[str, object]]]


@asynccontextmanager
async def open_tool_resources(
    tools: Iterable[LoadedTool], settings: PackSettings
) -> AsyncIterator[Mapping[str, object]]:
    """Open each pack's resources once and yield them by name; close them in reverse order.

    ToolLoadError when two packs use one name.
    """
    resources: dict[str, object] = {}
    async with AsyncExitStack() as stack:
        for module, open_resources in _openers(tools).items():
            opened = await stack.enter_async_context(open_resources(settings))
            if taken := sorted(resources.keys() & opened.keys()):
                raise ToolLoadError(f"module {module!r} opens the resource {taken[0]!r}, which another has opened")
            resources.update(opened)
        yield resources


def _openers(tools: Iterable[LoadedTool]) -> dict[str, OpenResources]:
    openers: dict[str, OpenResources] = {}
    for module in (module for tool in tools for module in tool.modules):
        opener = getattr(sys.modules[module], "open_resources", None)
        # Two modules may re-export one opener: it is still one set of resources.
        if opener is not None and opener not in openers.values():
            openers[module] = opener
    return openers

"""What tools share while the executor runs: database engines, HTTP clients, secrets.

A module that the rulebook names may have an `open_resources`, an async context manager that takes `PackSettings` and
yields resources by name. The executor enters each once at its start and leaves it at its end; tools find them by
`ToolContext.resource`::

    @asynccontextmanager
    async def open_resources(settings: PackSettings) -> AsyncIterator[dict[str, object]]:
        headers = {"authorization": f"Bearer {secret('WEATHER_KEY')}"}
        async with httpx.AsyncClient(base_url="https://weather.example", headers=headers) as client:
            yield {"weather": client}
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from placet.contracts.errors import PlacetError


class ToolLoadError(PlacetError):
    """The executor must not start: a tool has no fitting function, or no resources. The text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSettings:
    """What the executor tells those who open resources."""

    database_url: str = field(repr=False)
    """The executor's own database. In its schema `tools` tools may create tables."""


OpenResources = Callable[[PackSettings], AbstractAsyncContextManager[Mapping[str, object]]]


@asynccontextmanager
async def open_tool_resources(modules: Iterable[str], settings: PackSettings) -> AsyncIterator[Mapping[str, object]]:
    """Open each pack's resources once and yield them by name; close them in reverse order.

    `modules` are imported already, and may repeat. ToolLoadError when two packs use one name.
    """
    resources: dict[str, object] = {}
    async with AsyncExitStack() as stack:
        for module, open_resources in _openers(modules).items():
            opened = await stack.enter_async_context(open_resources(settings))
            if taken := sorted(resources.keys() & opened.keys()):
                raise ToolLoadError(f"module {module!r} opens the resource {taken[0]!r}, which another has opened")
            resources.update(opened)
        yield resources


def _openers(modules: Iterable[str]) -> dict[str, OpenResources]:
    openers: dict[str, OpenResources] = {}
    for module in modules:
        opener = getattr(sys.modules[module], "open_resources", None)
        # Two modules may re-export one opener: it is still one set of resources.
        if opener is not None and opener not in openers.values():
            openers[module] = opener
    return openers

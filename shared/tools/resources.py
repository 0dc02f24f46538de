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

import inspect
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

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
            opened = await _open(stack, module, open_resources, settings)
            if taken := sorted(resources.keys() & opened.keys()):
                raise ToolLoadError(f"module {module!r} opens the resource {taken[0]!r}, which another has opened")
            resources.update(opened)
        yield resources


async def _open(
    stack: AsyncExitStack, module: str, open_resources: OpenResources, settings: PackSettings
) -> Mapping[str, object]:
    manager = open_resources(settings)
    if not isinstance(manager, AbstractAsyncContextManager):
        raise ToolLoadError(_NO_MANAGER.format(module=module))
    try:
        opened = await stack.enter_async_context(manager)
    except SystemExit as error:
        raise ToolLoadError(f"module {module!r}: open_resources ends the process: {error}") from error
    if not isinstance(opened, Mapping):
        raise ToolLoadError(f"module {module!r}: open_resources yields no dict of resources by name")
    return opened


def find_opener(module: str) -> OpenResources | None:
    """Return how an imported module opens resources, if it does; ToolLoadError where that cannot work."""
    opener: OpenResources | None = getattr(sys.modules[module], "open_resources", None)
    if opener is None:
        return None
    if not callable(opener):
        raise ToolLoadError(f"module {module!r}: open_resources is no function")
    # What a decorator has made is told by its code: of the standard ones it is known what they need beneath.
    made = getattr(opener, "__code__", None)
    written = inspect.unwrap(opener) if made is _DECORATED else opener
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction)
    if made is _DECORATED_PLAIN or inspect.isasyncgenfunction(opener) or any(kind(written) for kind in kinds):
        raise ToolLoadError(_NO_MANAGER.format(module=module))
    try:
        inspect.signature(opener).bind(None)
    except TypeError:
        raise ToolLoadError(f"module {module!r}: open_resources must take one argument, the settings") from None
    return opener


def _openers(modules: Iterable[str]) -> dict[str, OpenResources]:
    openers: dict[str, OpenResources] = {}
    for module in modules:
        opener = find_opener(module)
        # Two modules may re-export one opener: it is still one set of resources.
        if opener is not None and opener not in openers.values():
            openers[module] = opener
    return openers


_NO_MANAGER = (
    "module {module!r}: open_resources is no async context manager (@asynccontextmanager, async def, one yield)"
)


@asynccontextmanager
async def _decorated() -> AsyncIterator[None]:
    yield


@contextmanager
def _decorated_plain() -> Iterator[None]:
    yield


_DECORATED, _DECORATED_PLAIN = _decorated.__code__, _decorated_plain.__code__


class SecretMissing(PlacetError):
    """The executor has no such secret; asked for in `open_resources`, it stops the start with this one line."""


def secret(name: str) -> str:
    """Return the secret in the variable `name`, or in the file that `<name>_FILE` names, without a line's end.

    Names that begin with `PLACET_` are Placet's own. Raises SecretMissing.
    """
    if value := os.environ.get(name):
        return value
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SecretMissing(f"the secret {name} cannot be read: {error}") from error
    raise SecretMissing(f"the secret {name} is missing: set {name}, or {name}_FILE to a file that has it")

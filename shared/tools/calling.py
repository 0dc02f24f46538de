"""Calling a foreign function, async or not, and saying where it broke off."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from placet.tools.threads import call_in_thread


async def call_function(function: Callable[..., Any], keywords: Mapping[str, Any], *, name: str) -> Any:
    """Call `function` once, in a thread of its own where it is not async; return or raise what it does."""
    call = partial(function, **keywords)
    if inspect.iscoroutinefunction(function):
        return await call()
    returned = await call_in_thread(call, name=name)
    # A decorator may hide an async function behind a plain one.
    return await returned if inspect.isawaitable(returned) else returned


def place_of(error: BaseException) -> str:
    """Return file and line where an error was raised; unlike its text, they quote no argument."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""

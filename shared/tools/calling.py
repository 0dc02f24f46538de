"""Calling a foreign function, async or not, and saying where it broke off."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from placet.runtime.threads import call_in_thread
from placet.runtime.watchdog import at_leisure
from placet.tools.replies import REPLY_BYTES_MAX


async def call_function(function: Callable[..., Any], keywords: Mapping[str, Any], *, name: str) -> Any:
    """Call `function` once, in a thread of its own where it is not async; return or raise what it does.

    It may take its time: it is the operator's own. What is done with what it returned is not.
    """
    call = partial(function, **keywords)
    with at_leisure():
        if inspect.iscoroutinefunction(function):
            return _whole(await call())
        returned = await call_in_thread(lambda: _whole(call()), name=f"tool {name}")
        # A decorator may hide an async function behind a plain one.
        return _whole(await returned) if inspect.isawaitable(returned) else returned


def _whole(returned: Any) -> Any:
    """Return what comes one by one as a list, as far as a reply can hold it: to make it is the function's work."""
    if not isinstance(returned, Iterator) or inspect.isawaitable(returned):
        return returned
    return list(islice(returned, REPLY_BYTES_MAX))

"""One daemon thread per blocking call of what is not ours: a tool, or the machine's resolver.

Not the event loop's thread pool: a blocking function cannot be stopped, so a hung one would keep a place in the pool
for ever, starve what is behind it, and hold the process open at shutdown. Who calls bounds the number: the executor by
its slots, the notifier by the names of its webhooks and by what a place of Apprise has not answered.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any


async def call_in_thread(function: Callable[[], Any], *, name: str) -> Any:
    """Call `function` in a thread of its own and return or raise what it does.

    Cancelling stops the waiting, not the function: its outcome is lost and its effect may still happen.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        value, error = context.run(_outcome, function)
        try:
            loop.call_soon_threadsafe(_settle, ended, (value, error))
        except RuntimeError:  # the loop has closed meanwhile: nobody waits any more
            return

    threading.Thread(target=work, name=name, daemon=True).start()
    value, error = await ended
    if error is not None:
        raise error
    return value


def _outcome(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    # Handed over as a value: a future refuses to carry StopIteration as its exception.
    try:
        return function(), None
    except BaseException as error:  # noqa: BLE001  # whatever ended the function belongs to the waiting call
        return None, error


def _settle(ended: asyncio.Future[Any], outcome: tuple[Any, BaseException | None]) -> None:
    if not ended.done():
        ended.set_result(outcome)

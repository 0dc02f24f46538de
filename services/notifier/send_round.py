"""What all rounds of sending have in common: each try goes to its own end, and a bug is a failed try."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from typing import TypeVar

import structlog

from placet.notifier.channels import ChannelFailed
from placet.runtime.database import is_outage

log = structlog.get_logger(__name__)

Whom = TypeVar("Whom", bound=Hashable)

#: Pause between two looks for what is due, in seconds; also while somebody is awaited.
LOOK_EVERY_SECONDS = 1.0


async def side_by_side(tries: Iterable[Awaitable[None]]) -> None:
    """Return when every try has ended; then raise the first error among them, so that it is loud."""
    for error in await asyncio.gather(*tries, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


async def in_turns(
    begin: Callable[[Collection[Whom]], Awaitable[Mapping[Whom, Iterable[Awaitable[None]]]]],
) -> None:
    """Send to everybody in rounds of their own until nothing is left: who is slow keeps nobody else.

    `begin` hears to whom something is sent now, and returns tries for others; it is asked as soon as a round has ended,
    and every so often. Raises the first error once every try has ended.
    """
    rounds: dict[asyncio.Task[None], Whom] = {}
    errors: list[BaseException] = []
    try:
        while True:
            if not errors:
                try:
                    begun = await begin(set(rounds.values()))
                except Exception as error:  # noqa: BLE001 - raised as soon as the others have ended
                    errors.append(error)
                else:
                    rounds |= {asyncio.create_task(side_by_side(tries)): whom for whom, tries in begun.items()}
            if not rounds:
                break
            ended, _ = await asyncio.wait(
                rounds, timeout=None if errors else LOOK_EVERY_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for each in ended:
                del rounds[each]
            errors += filter(None, [each.exception() for each in ended])
    finally:
        for each in rounds:
            each.cancel()
        await asyncio.gather(*rounds, return_exceptions=True)
    if errors:
        raise errors[0]


def failed_by_bug(error: Exception, **about: str) -> ChannelFailed:
    """Return an error that nobody expected as a failed try, so that its tries end; log it with `about`.

    It is raised where the database was away, which is nobody's fault: the try is made again when its lease has ended.
    """
    if is_outage(error):
        raise error
    log.error("delivery.bug", exc_info=error, **about)
    return ChannelFailed(f"bug: {type(error).__name__}")

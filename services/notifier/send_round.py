"""What all rounds of sending have in common: each try goes to its own end, and a bug is a failed try."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

import structlog

from placet.notifier.channels import ChannelFailed
from placet.runtime.database import is_outage

log = structlog.get_logger(__name__)


async def side_by_side(tries: Iterable[Awaitable[None]]) -> None:
    """Return when every try has ended; then raise the first error among them, so that it is loud."""
    for error in await asyncio.gather(*tries, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


def failed_by_bug(error: Exception, **about: str) -> ChannelFailed:
    """Return an error that nobody expected as a failed try, so that its tries end; log it with `about`.

    It is raised where the database was away, which is nobody's fault: the try is made again when its lease has ended.
    """
    if is_outage(error):
        raise error
    log.error("delivery.bug", exc_info=error, **about)
    return ChannelFailed(f"bug: {type(error).__name__}")

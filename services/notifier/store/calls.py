"""The one order of the notifier's locks: calls come first, all of them at once, and then their cards.

Who waits for cards has taken their calls before, so it meets there only who waits for nobody: claims, recounts and
what tells of stops pass over the cards that others have locked, and look again soon.
"""

from __future__ import annotations

from collections.abc import Iterable

from placet.runtime.queries import load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__, "calls.sql")


async def take(
    work: Work, names: Iterable[str] = (), *, approval_ids: Iterable[str] = (), delivery_ids: Iterable[str] = ()
) -> None:
    """Return when no other transaction has these calls, nor those of these approvals and deliveries.

    Once, before any lock: from then on the work finds the cards of these calls and of no other. `names` are ids of
    calls, or of webhook events.
    """
    if work.held:
        raise RuntimeError("a transaction takes its calls once")
    given = {"names": [*names], "approval_ids": [*approval_ids], "delivery_ids": [*delivery_ids]}
    if any(given.values()):
        work.held.update((row["name"], "taken") for row in await work.run(QUERIES.take, **given))

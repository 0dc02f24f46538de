"""SQL of what is parked: named statements in `parked.sql`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from placet.contracts.permit import AnswerPlace
from placet.runtime.queries import load_queries
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__, "parked.sql")


@dataclass(frozen=True, slots=True)
class Parked:
    """A permit that waits for its turn."""

    event_id: str
    pool: str
    tenant: str
    #: The envelope, as it came.
    body: str
    #: Where it stands in its answer; None where it may run beside others.
    place: AnswerPlace | None = None


async def count_parked(connection: Connection, pools: Sequence[str]) -> dict[str, int]:
    """Return how many calls of each pool are parked."""
    return {row["pool"]: row["calls"] for row in await connection.run(QUERIES.count_parked, pools=list(pools))}


async def some_tenants(connection: Connection) -> set[str]:
    """Return tenants that have working keys, two at most."""
    return {row["tenant"] for row in await connection.run(QUERIES.some_tenants)}


async def park(connection: Connection, several: Sequence[Parked]) -> None:
    """Keep permits; the same event twice is one."""
    places = [each.place for each in several]
    await connection.run(
        QUERIES.park,
        **{f"{name}s": [getattr(each, name) for each in several] for name in ("event_id", "pool", "tenant")},
        bodies=[each.body for each in several],
        answers=[place and place.answer for place in places],
        positions=[place and place.position for place in places],
        ends=[place and place.expires_at for place in places],
    )


async def take_parked(
    connection: Connection, pools: Sequence[str], *, most: int, limit: int, busy: Mapping[str, int], lent: timedelta
) -> tuple[list[Parked], dict[str, bool]]:
    """Borrow up to `limit` parked permits for a while, and return them with all tenants of which some are parked.

    Of each tenant, whether some of its may begin as soon as there is a slot: others wait for calls of their answers.
    `busy` says how many slots each tenant has, and `most` how many it may have.
    """
    counts = {"most": most, "limit": limit, "tenants": list(busy), "busy": list(busy.values())}
    rows = await connection.run(QUERIES.take_parked, pools=list(pools), lent=lent, **counts)
    taken = [Parked(row["event_id"], row["pool"], row["tenant"], row["body"]) for row in rows if row["event_id"]]
    return taken, {row["tenant"]: row["may_begin"] for row in rows if not row["event_id"]}


async def keep_parked(connection: Connection, event_id: str, pause: timedelta) -> None:
    """Leave a borrowed permit for a while, behind the others of its tenant."""
    await connection.run(QUERIES.keep_parked, event_id=event_id, pause=pause)


async def forget_parked(connection: Connection, event_id: str) -> None:
    """Forget a permit that was handled."""
    await connection.run(QUERIES.forget_parked, event_id=event_id)

"""Pages of the history: the histories of all services as one, newest first.

Each service numbers its own rows, and a page ends in each history at a row of its own: so no row is ever on two pages
or on none, in whatever order services commit. A page looks through at most LOOKED_AT rows of each history, so that it
costs the same however large they are and however rare what is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from placet.gateway.audit import store
from placet.runtime.sql import Connection

Row = Mapping[str, Any]

#: Rows of one history that a page looks through at most; more where a call is named, which an index finds.
LOOKED_AT = 10_000
#: How far apart the order of ids and the order of times may be.
SLACK = timedelta(minutes=1)
#: Behind every id that a row can have.
NEWEST = 2**63


@dataclass(slots=True)
class Stream:
    """What was found in one history, newest first."""

    rows: Sequence[Row]
    #: Where the page begins in it.
    before: int
    #: From which row on was looked, and when that one was written; None where there is nothing older to look at.
    floor: int
    floor_at: datetime | None
    taken: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether all that was found is taken."""
        return self.taken == len(self.rows)

    @property
    def following(self) -> int:
        """Where the next page begins in it; 0 where it is read to its end."""
        if self.is_empty:
            return self.floor if self.floor_at else 0
        return int(self.rows[self.taken - 1]["id"]) if self.taken else self.before


def merged(streams: Sequence[Stream], most: int) -> list[Row]:
    """Take at most `most` rows, the newest first, and none that could be older than one not looked at yet."""
    found: list[Row] = []
    while len(found) < most:
        heads = [each for each in streams if not each.is_empty]
        unseen = [each.floor_at for each in streams if each.is_empty and each.floor_at]
        newest = max(heads, key=lambda each: each.rows[each.taken]["at"], default=None)
        if newest is None or any(at > newest.rows[newest.taken]["at"] for at in unseen):
            break
        found.append(newest.rows[newest.taken])
        newest.taken += 1
    return found


async def load_page(
    connection: Connection, asked: Mapping[str, Any], places: Mapping[str, int] | None, most: int
) -> tuple[list[Row], dict[str, int] | None]:
    """Return rows from before `places` on (None: the newest), and the places of the next page; None: it is the last.

    `asked` has a tenant and what else is asked of rows: a `service`, and what `store.load_changes` filters by.
    A page may hold fewer rows than `most`, even none, while there is more to look through.
    """
    streams: dict[str, Stream] = {}
    for service in store.ORDER:
        before = NEWEST if places is None else places.get(service, 0)
        if before and asked.get("service", service) == service:
            streams[service] = await _stream(connection, service, asked, before, most)
    rows = merged(list(streams.values()), most)
    following = {service: each.following for service, each in streams.items() if each.following}
    return rows, following or None


async def stretch(
    connection: Connection, service: str, since: datetime | None, until: datetime | None, before: int
) -> tuple[int, int]:
    """Return between which ids of a history all rows of a time are: from the first, and before the second.

    `before` is where the page before ended, NEWEST on the first. Rows of up to SLACK beyond the time are among them.
    """
    ends = lowest, highest = await store.ends(connection, service)
    if since:
        lowest = await store.first_since(connection, service, since - SLACK, ends)
    if until and before == NEWEST:
        before = await store.first_since(connection, service, until + SLACK, ends)
    return lowest, min(before, highest + 1)


async def _stream(connection: Connection, service: str, asked: Mapping[str, Any], before: int, most: int) -> Stream:
    lowest, before = await stretch(connection, service, asked.get("since"), asked.get("until"), before)
    floor = lowest if "call_id" in asked else max(lowest, before - LOOKED_AT)
    # One more than the page holds: then not all can be taken, and the next page goes on where this one ends.
    filters = {name: value for name, value in asked.items() if name != "service"}
    rows = await store.load_changes(connection, service, filters, (floor, before), most + 1)
    older = await store.newest_before(connection, service, floor) if floor > lowest and len(rows) <= most else None
    if older is None or older < lowest:
        return Stream(rows, before, floor, None)
    # Ids may have a gap larger than all that a page looks through.
    return Stream(rows, before, older + 1, await store.written_at(connection, service, floor))

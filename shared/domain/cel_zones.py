"""Time zones in an expression of CEL: only those that stand in it, and that are known.

The library takes what it is given for the name of a file, opens that wherever it leads, and waits for what stands in
it; and it keeps every name for ever. So no such name may come from a call.
"""

from __future__ import annotations

from collections.abc import Iterator

from placet.domain.cel_tree import Tree
from placet.domain.time_zones import is_offset, is_zone

#: Functions that a time is looked at with, in UTC or in the zone that their argument names.
IN_ZONE = (
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
)


def zone_problems(tree: Tree) -> Iterator[tuple[int, str]]:
    """Yield each time zone that nobody may look up: the number of its node, and what is wrong with it."""
    for call in tree.calls(IN_ZONE):
        for zone in call.below[1:]:
            if zone.text is None:
                yield (
                    zone.number,
                    f'{call.name} takes a time zone that stands here, such as "Europe/Berlin" or "+02:00"',
                )
            elif not zone.text or not (is_zone(zone.text) or is_offset(zone.text)):
                yield zone.number, f"no time zone is called {zone.text[:80]!r}"

"""Hours without new cards for people: a person's own, else those of the tenant. Pure but for who is who now."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from placet.domain.directory import Directory
from placet.domain.time_zones import is_zone
from placet.notifier.card_limits import is_held_up
from placet.notifier.rules import Delivery, Moved
from placet.notifier.states import Event

_HOURS = re.compile(
    r"(?P<begin>(?:[01]\d|2[0-3]):[0-5]\d)-(?P<end>(?:[01]\d|2[0-3]):[0-5]\d)(?: (?P<zone>[A-Za-z0-9_+/-]+))?"
)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """When people are left in peace, each day."""

    begin: time
    end: time
    zone: str = "UTC"

    def until(self, at: datetime) -> datetime | None:
        """Return when the quiet hours end in which `at` falls; None where it falls in none."""
        local = at.astimezone(ZoneInfo(self.zone))
        now = local.time()
        over_night = self.begin > self.end
        inside = now >= self.begin or now < self.end if over_night else self.begin <= now < self.end
        if not inside:
            return None
        day = local.date() + timedelta(days=1) if over_night and now >= self.begin else local.date()
        # In an hour that a clock shows twice it is the same one of the two: an end must not be in the past.
        end = datetime.combine(day, self.end, tzinfo=ZoneInfo(self.zone)).replace(fold=local.fold)
        return end.astimezone(at.tzinfo)


def quiet_hours(words: str) -> QuietHours | None:
    """Return the quiet hours that `22:00-07:00 Europe/Berlin` means, None for no words; raise ValueError otherwise."""
    if not words:
        return None
    found = _HOURS.fullmatch(words)
    if found is None:
        raise ValueError(f"quiet hours are written like 22:00-07:00 Europe/Berlin, not {words!r}")
    begin, end = time.fromisoformat(found["begin"]), time.fromisoformat(found["end"])
    zone = found["zone"] or "UTC"
    if not is_zone(zone):
        raise ValueError(f"no time zone is called {zone!r}")
    return QuietHours(begin, end, zone)


def hush(claimable: Iterable[Delivery], hours_of: Callable[[Delivery], QuietHours | None], at: datetime) -> list[Moved]:
    """Return the deliveries that wait for the end of quiet hours; an update of a card that is shown never waits."""
    hushed: list[Moved] = []
    for delivery in claimable:
        hours = hours_of(delivery) if is_held_up(delivery) else None
        until = hours.until(at) if hours else None
        if until is not None:
            after = replace(delivery, due_at=until, error=f"quiet hours until {until.isoformat(timespec='minutes')}")
            hushed.append(Moved(delivery, after, Event.REVISED))
    return hushed


def hours_of(delivery: Delivery, directory: Callable[[], Directory], tenants: Mapping[str, str]) -> QuietHours | None:
    """Return the quiet hours of a delivery; None where there are none."""
    person = directory().people.get(delivery.address.person)
    words = (person.quiet_hours if person else "") or tenants.get(delivery.tenant, tenants.get("*", ""))
    return _hours(words)


@cache
def _hours(words: str) -> QuietHours | None:
    try:
        return quiet_hours(words)
    except ValueError:
        # The directory names a time zone that this machine does not know: a card at night is better than none.
        return None

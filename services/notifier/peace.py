"""Whose quiet hours hold for a delivery: the person's own, else those of the tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from services.notifier.crowds import QuietHours, quiet_hours
from services.notifier.rules import Delivery
from shared.directory import Directory


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

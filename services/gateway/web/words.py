"""Values as people read them: names, times, risks and events. Pure; what hides in a text is shown as its code point."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from shared.approvers import read_approver
from shared.canonical import canonical_text
from shared.card_text import visible, visible_lines
from shared.errors import Refused
from shared.visitors import ANONYMOUS

_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))

#: What a tool of each category does to the world, in a word.
RISKS: Mapping[str, str] = {
    "safe_read": "reads",
    "safe_search": "searches",
    "safe_compute": "computes",
    "unsafe_write": "writes",
    "unsafe_api": "acts outside",
    "unsafe_exec": "executes",
}


def plain(value: Any) -> str:
    """Return an argument's name or value as people read it: a text as it is, all else as JSON, and nothing hidden."""
    return visible(value if isinstance(value, str) else canonical_text(value))


def lined(value: Any) -> str:
    """Return an argument's value as `plain` does, a text in its lines: for a place that is a box of its own."""
    return visible_lines(value) if isinstance(value, str) else plain(value)


def exact(moment: datetime) -> str:
    """Return a moment to the second, with its zone."""
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z")


def who(name: str) -> str:
    """Return whom a rule or a history names: `ada` for `person:ada`, `finance` for `group:finance`."""
    named = read_approver(name)
    if named.kind == "requester":
        return "the requester"
    if name.startswith(ANONYMOUS):
        return visible(f"visitor {name.removeprefix(ANONYMOUS)[:8]}")
    return visible(named.name or name)


def ago(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was."""
    seconds = (now - moment).total_seconds()
    return "just now" if seconds < 1 else f"{_span(seconds)} ago"


def due(moment: datetime, now: datetime) -> str:
    """Return how long it is until a deadline."""
    seconds = (moment - now).total_seconds()
    return f"in {_span(seconds)}" if seconds > 0 else "overdue"


def _span(seconds: float) -> str:
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    count = int(seconds // size)
    return f"{count} {unit}{'s' if unit == 'day' and count != 1 else ''}"


def risk(category: str | None) -> str:
    """Return what a tool of a category does to the world, in a word or two."""
    return RISKS.get(category or "", "unknown")


def event(name: str) -> str:
    """Return an event or a state as words."""
    return visible(name).replace("_", " ")


def reason_of(refusal: Refused) -> str:
    """Return what a refusal says beside its title."""
    by = refusal.facts.get("decided_by")
    return f"Decided by {who(str(by))}." if by else str(refusal.facts.get("detail") or "")

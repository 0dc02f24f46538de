"""What fits a filter, looked over: in which order it stands, into which groups it falls, and how often each value is.

Pure. A survey sees at most COUNT_MAX + 1 approvals, so that it costs the same among a million: where there are more,
its counts are told as "at least".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, Literal

from placet.contracts.messages.tool_calls import Category
from placet.gateway.approvals.search import COUNT_MAX

Row = Mapping[str, Any]
#: How a list may stand. Oldest first is by age; the other three are sorted among what a survey sees.
Order = Literal["newest", "oldest", "deadline", "risk", "amount"]
#: What a list may be grouped by -> the column.
GROUPS: Mapping[str, str] = {"conversation": "conversation_id", "tool": "tool", "requester": "requester"}
#: Ages that are counted, in seconds.
AGES = (600, 3_600, 86_400)
#: Values of one filter that are offered, and days.
VALUES_MAX = 8
#: Characters of arguments in which an amount is looked for: a thousand calls are looked through for one page.
ARGUMENTS_MAX = 4_000
#: Names of arguments that say how much: `amount`, `total_price`, `sum`.
_AMOUNT = re.compile(
    r"(?:^|[_-])(amount|total|price|sum|cost|fee|value|betrag|preis|summe|tutar)(?:s|$|[_-])", re.IGNORECASE
)
#: Categories, what does most to the world last.
_RISKS = {category.value: at for at, category in enumerate(Category)}


@dataclass(frozen=True, slots=True)
class Counted:
    """One value of a filter, and how many have it."""

    value: str
    count: int


@dataclass(frozen=True)
class Survey:
    """Approvals that fit, newest first or oldest first: rows with the columns that a list is sorted and counted by."""

    rows: Sequence[Row]
    #: Whether these are all that fit.
    complete: bool

    @property
    def total(self) -> int:
        """Return how many fit; COUNT_MAX + 1 stands for any number above COUNT_MAX."""
        return len(self.rows) if self.complete else COUNT_MAX + 1

    def facet(self, name: str) -> tuple[Counted, ...]:
        """Return the values of a filter, which is a column, the most frequent first."""
        found = Counter(str(row[name]) for row in self.rows if row[name] is not None)
        return tuple(
            Counted(*each) for each in sorted(found.items(), key=lambda each: (-each[1], each[0]))[:VALUES_MAX]
        )

    def ages(self, now: datetime) -> tuple[Counted, ...]:
        """Return how many are older than each of AGES; its value is in seconds."""
        counts = [(age, sum(row["created_at"] <= now - timedelta(seconds=age) for row in self.rows)) for age in AGES]
        return tuple(Counted(str(age), count) for age, count in counts if count)

    def days(self, zone: tzinfo) -> tuple[Counted, ...]:
        """Return on how many days they were opened, the latest first; a value is `2026-11-24`."""
        found = Counter(row["created_at"].astimezone(zone).date().isoformat() for row in self.rows)
        return tuple(Counted(*each) for each in sorted(found.items(), reverse=True)[:VALUES_MAX])

    def ordered(self, order: Order, group: str = "") -> list[Row]:
        """Return the rows in an order; grouped, what shares a group stands together, where the first of it would."""
        key = _key(order)
        rows = sorted(self.rows, key=key) if key else list(self.rows)
        return [row for each in in_groups(rows, group) for row in each]

    def page(self, order: Order, group: str, after: Row | None, limit: int) -> tuple[list[Row], Row | None]:
        """Return a page from after a row on, and the row that the next page begins after; None on the last.

        The row may fit no more, because it was decided meanwhile: it is put where it would stand.
        """
        if after is None:
            rows = self.ordered(order, group)
        else:
            others = [row for row in self.rows if row["approval_id"] != after["approval_id"]]
            older = sum(_stamp(row) < _stamp(after) for row in others)
            # What is equal in an order stays as it stood, and so must this one.
            is_oldest_first = bool(others) and _stamp(others[0]) < _stamp(others[-1])
            at = older if is_oldest_first else len(others) - older
            rows = Survey([*others[:at], after, *others[at:]], self.complete).ordered(order, group)
            place = next(n for n, row in enumerate(rows) if row["approval_id"] == after["approval_id"])
            rows = rows[place + 1 :]
        return rows[:limit], rows[limit - 1] if len(rows) > limit else None

    @cached_property
    def has_amounts(self) -> bool:
        """Whether any of them has an amount to sort by."""
        return any(amount_of(row["arguments"]) is not None for row in self.rows)


def in_groups(rows: Iterable[Row], group: str) -> list[list[Row]]:
    """Return rows by a group of GROUPS, each where its first row stood; without a group all in one list."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row[GROUPS[group]]) if group else "", []).append(row)
    return list(found.values())


def amount_of(arguments: str) -> float | None:
    """Return the largest number among arguments whose name says how much; None where there is none, or much else."""
    if len(arguments) > ARGUMENTS_MAX:
        return None
    try:
        found = json.loads(arguments)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    numbers = [_number(value) for name, value in found.items() if _AMOUNT.search(name)]
    return max((each for each in numbers if each is not None), default=None)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, dict):
        return _number(value.get("amount") or value.get("value"))
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None


def _stamp(row: Row) -> tuple[Any, ...]:
    return (row["created_at"], row["approval_id"])


def _key(order: Order) -> Callable[[Row], Any] | None:
    """Return what an order sorts by; what is equal stays as it stood."""
    match order:
        case "deadline":
            return lambda row: row["expires_at"]
        case "risk":
            return lambda row: -_RISKS.get(row["category"] or "", -1)
        case "amount":
            return lambda row: -(amount if (amount := amount_of(row["arguments"])) is not None else -1.0)
        case "oldest":
            return _stamp
        case _:
            return None

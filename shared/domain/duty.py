"""Who of a group is on duty, and when a group works. Pure; time is an argument.

Being on duty changes who is told first and what a card says, and never who may decide. What is unclear asks more
people, not fewer: where nobody is on duty, or a calendar cannot be read, the whole group is told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias
from zoneinfo import ZoneInfo

from placet.domain.addresses import without_case

if TYPE_CHECKING:
    from placet.domain.directory import Person

#: Days of the week as a directory writes them, Monday first.
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: Days that are looked through for the next working hours.
DAYS_AHEAD = 366

#: Why the whole group is told: it has no on-call plan, nobody is on duty now, its calendar cannot be read, or four eyes
#: exclude who is on duty. Empty where somebody in particular is on duty.
WhyAll: TypeAlias = Literal["", "no_plan", "nobody", "unreadable", "excluded"]


@dataclass(frozen=True, slots=True)
class Shift:
    """A time for which somebody is on duty, `begins` included and `ends` not."""

    begins: datetime
    ends: datetime
    #: Ids of people, e-mail addresses and words that may name them, without their case.
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hours:
    """The working hours of a group."""

    begin: time
    #: Not after `begin`: the hours end on the next day.
    end: time
    #: Weekdays on which they begin, Monday is 0.
    days: frozenset[int] = frozenset(range(5))
    zone: str = "UTC"
    #: Days on which none begin.
    holidays: frozenset[date] = frozenset()

    def next_open(self, at: datetime) -> datetime:
        """Return `at` within working hours, else when the next ones begin; `at` too where none come within a year."""
        today = at.astimezone(ZoneInfo(self.zone)).date()
        for ahead in range(-1, DAYS_AHEAD):
            day = today + timedelta(days=ahead)
            if day.weekday() not in self.days or day in self.holidays:
                continue
            begins, ends = self._span(day)
            if at < ends:
                return max(at, begins)
        return at

    def _span(self, day: date) -> tuple[datetime, datetime]:
        last = day if self.end > self.begin else day + timedelta(days=1)
        return _instant(datetime.combine(day, self.begin), self.zone), _instant(
            datetime.combine(last, self.end), self.zone
        )


@dataclass(frozen=True, slots=True)
class Rotation:
    """People who are on duty one after the other, over and over."""

    #: Ids of people in their order.
    people: tuple[str, ...]
    #: When the first turn begins, by the clock on the wall of `zone`.
    starts_at: datetime
    #: Length of a turn in days: turns change at the same time of the day, also where clocks are changed.
    days: int
    zone: str = "UTC"

    def shift(self, at: datetime) -> Shift | None:
        """Return the turn that `at` falls in; None before the first one."""
        turn = timedelta(days=self.days)
        wall = at.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        number = (wall - self.starts_at) // turn
        # An hour that the clock on the wall has twice belongs to one turn only.
        if at < self._boundary(number):
            number -= 1
        elif at >= self._boundary(number + 1):
            number += 1
        if number < 0:
            return None
        name = self.people[number % len(self.people)]
        return Shift(self._boundary(number), self._boundary(number + 1), frozenset({without_case(name)}))

    def _boundary(self, number: int) -> datetime:
        return _instant(self.starts_at + number * timedelta(days=self.days), self.zone)


def _no_shifts(_at: datetime) -> Sequence[Shift]:
    return ()


@dataclass(frozen=True, slots=True)
class CalendarFile:
    """An on-call calendar (iCalendar, RFC 5545) that a group names."""

    #: Path of the file.
    file: str
    #: Time zone of events that name none.
    zone: str = "UTC"
    #: SHA-256 of its bytes; empty where it was not read.
    digest: str = ""
    #: Why it cannot be used; empty where it can.
    problem: str = "it was not read"
    #: Returns the events at a moment; may raise any error, which makes the calendar one that cannot be read.
    shifts: Callable[[datetime], Sequence[Shift]] = field(default=_no_shifts, compare=False)


@dataclass(frozen=True, slots=True)
class GroupDuty:
    """When a group works, and who of it is on duty when."""

    hours: Hours | None = None
    plan: Rotation | CalendarFile | None = None


@dataclass(frozen=True, slots=True)
class OnDuty:
    """Who of a group is told first at a moment."""

    group: str
    #: Ids of those on duty; of the whole group where `why_all` says why.
    people: frozenset[str]
    #: When that changes, as far as it is known.
    until: datetime | None = None
    why_all: WhyAll = ""

    def without(self, excluded: Collection[str]) -> OnDuty:
        """Return it for a call that those with these ids may not decide: they are not named as on duty."""
        left = self.people.difference(excluded)
        if self.why_all or left == self.people:
            return self
        return replace(self, people=left) if left else replace(self, until=None, why_all="excluded")


def on_duty(group: str, duty: GroupDuty, people: Collection[Person], at: datetime) -> OnDuty:
    """Return who of a group's active `people` is on duty at a moment: the whole group where nobody is."""
    everyone = frozenset(person.id for person in people)
    if duty.plan is None:
        return OnDuty(group, everyone, why_all="no_plan")
    try:
        shifts = list(_shifts(duty.plan, at))
    except Exception:  # noqa: BLE001 - a calendar is written by others: whatever is wrong with it, people are told
        return OnDuty(group, everyone, why_all="unreadable")
    if isinstance(duty.plan, CalendarFile) and duty.plan.problem:
        return OnDuty(group, everyone, why_all="unreadable")
    theirs = {person.id: [each for each in shifts if each.names & names_of(person)] for person in people}
    found = frozenset(name for name, mine in theirs.items() if mine)
    if not found:
        return OnDuty(group, everyone, why_all="nobody")
    return OnDuty(group, found, min(each.ends for mine in theirs.values() for each in mine))


def opens_at(duty: GroupDuty | None, at: datetime, latest: datetime | None) -> datetime:
    """Return when a notice to a group may go out: within its hours, and at once where these begin after `latest`."""
    if duty is None or duty.hours is None:
        return at
    begins = duty.hours.next_open(at)
    return at if latest is not None and begins >= latest else begins


def names_of(person: Person) -> frozenset[str]:
    """Return by what a calendar names a person: id and e-mail addresses, without their case."""
    return frozenset(without_case(each) for each in (person.id, *person.emails))


def _shifts(plan: Rotation | CalendarFile, at: datetime) -> Iterable[Shift]:
    if isinstance(plan, CalendarFile):
        return [each for each in plan.shifts(at) if each.begins <= at < each.ends]
    shift = plan.shift(at)
    return [shift] if shift else []


def _instant(wall: datetime, zone: str) -> datetime:
    """Return the moment at which a clock on the wall shows a time; the first of two where it is set back."""
    return wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)

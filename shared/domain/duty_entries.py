"""Working hours and on-call plans of groups, as a directory's file says them: checked, and made values of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from placet.domain.duty import WEEKDAYS, CalendarFile, GroupDuty, Hours, Rotation
from placet.domain.time_zones import is_zone
from placet.domain.yaml_source import Steps, WrittenEntry, YamlSource


def _is_whole(person: str) -> str:
    # An erasure finds an id wherever it stands: in no other's, and with an end that no escape in JSON moves.
    if ":" in person or person.endswith("\\"):
        raise PydanticCustomError(
            "person_id", "'{id}' has a ':' or ends with a backslash, which no id of a person may", {"id": person}
        )
    return person


#: Nothing that separates: lists of who may have asked are written with spaces.
PersonId = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f\x7f]{1,128}$"), AfterValidator(_is_whole)]
_Zone = Annotated[str, Field(pattern=r"^[A-Za-z0-9_+/-]{1,64}$")]
_TIME = r"([01]\d|2[0-3]):[0-5]\d"
_TURN = re.compile(r"(?P<count>[1-9]\d{0,2}) (?P<unit>day|week)s?", re.ASCII)
Weekday: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
#: Days on which most people work.
_WORKDAYS: tuple[Weekday, ...] = ("mon", "tue", "wed", "thu", "fri")


class HoursEntry(WrittenEntry):
    """A group's `hours`."""

    time: Annotated[
        str, Field(pattern=rf"^{_TIME}-{_TIME}$", description="From and to: `09:00-17:30`; `22:00-06:00` is a night.")
    ]
    days: Annotated[
        list[Weekday],
        Field(min_length=1, description="Weekdays on which they begin."),
    ] = Field(default_factory=lambda: list(_WORKDAYS))
    time_zone: Annotated[_Zone, Field(description="In which they are meant: `Europe/Berlin`.")] = "UTC"
    holidays: Annotated[list[date], Field(description="Days on which none begin: `2026-12-25`.")] = Field(
        default_factory=list
    )

    def value(self) -> Hours:
        """Return the working hours."""
        begin, end = (time.fromisoformat(each) for each in self.time.split("-"))
        days = frozenset(WEEKDAYS.index(each) for each in self.days)
        return Hours(begin, end, days, self.time_zone, frozenset(self.holidays))


class OnCallEntry(WrittenEntry):
    """A group's `on_call`: a rotation (`people`, `starts_at`, `turn`) or a `calendar`."""

    people: Annotated[list[PersonId], Field(description="Who is on duty, one after the other, over and over.")] = Field(
        default_factory=list
    )
    starts_at: Annotated[
        datetime | None, Field(description="When the first turn begins, without an offset: `2026-01-05 09:00`.")
    ] = None
    turn: Annotated[str, Field(description="How long one turn is: `1 week`, `2 days`.")] = ""
    calendar: Annotated[str, Field(description="An iCalendar file beside this one, instead of a rotation.")] = ""
    time_zone: Annotated[_Zone, Field(description="In which that is meant, and events that name no zone.")] = "UTC"

    def value(self, beside: Path) -> Rotation | CalendarFile:
        """Return the plan, a calendar yet to be read; raise ValueError for an entry that has problems."""
        if self.calendar:
            return CalendarFile(str(beside.parent / self.calendar), self.time_zone)
        found = _TURN.fullmatch(self.turn)
        if found is None or self.starts_at is None:
            raise ValueError("an on-call plan is a rotation or a calendar")
        days = int(found["count"]) * (7 if found["unit"] == "week" else 1)
        return Rotation(tuple(self.people), self.starts_at, days, self.time_zone)


class GroupEntry(WrittenEntry):
    """One of `groups`; the list of its people alone is enough where it has no hours."""

    people: Annotated[list[PersonId], Field(description="Ids of its people.")]
    hours: Annotated[HoursEntry | None, Field(description="When it works; else it always does.")] = None
    on_call: Annotated[OnCallEntry | None, Field(description="Who of it is on duty when; else all of it are.")] = None

    def duty(self, beside: Path) -> GroupDuty | None:
        """Return its working hours and its plan; None where it has neither. Files are named beside `beside`."""
        if self.hours is None and self.on_call is None:
            return None
        hours = self.hours.value() if self.hours else None
        return GroupDuty(hours, self.on_call.value(beside) if self.on_call else None)


def widen_groups(source: YamlSource) -> None:
    """Let the list of a group's people stand for a mapping with `people`, each part at the place where it stands."""
    groups = source.data.get("groups")
    if not isinstance(groups, dict):
        return
    widened = {}
    for name, value in groups.items():
        here: Steps = ("groups", name)
        if isinstance(value, dict):
            widened[name] = value
        elif isinstance(value, list):
            widened[name] = {"people": value}
            source.values[*here, "people"] = source.values[here]
            for index in range(len(value)):
                source.values[*here, "people", index] = source.values[*here, index]
        else:
            source.report(here, f"{name!r} should be the list of its people, or a mapping")
    source.data = {**source.data, "groups": widened}


def duty_problems(groups: Mapping[str, GroupEntry]) -> Iterator[tuple[Steps, str]]:
    """Yield what is wrong with the hours and plans of groups."""
    for name, entry in groups.items():
        here: Steps = ("groups", name)
        if entry.hours is not None and not is_zone(entry.hours.time_zone):
            yield (*here, "hours", "time_zone"), f"no time zone is called {entry.hours.time_zone!r}"
        if entry.on_call is not None:
            for steps, problem in _plan_problems(entry.on_call, entry.people):
                yield (*here, "on_call", *steps), problem


def _plan_problems(plan: OnCallEntry, members: list[str]) -> Iterator[tuple[Steps, str]]:
    if not is_zone(plan.time_zone):
        yield ("time_zone",), f"no time zone is called {plan.time_zone!r}"
    if plan.calendar:
        if plan.people or plan.turn or plan.starts_at:
            yield ("calendar",), "a calendar says who is on duty: it takes no 'people', 'starts_at' or 'turn'"
        return
    if not plan.people or plan.starts_at is None or not plan.turn:
        yield (), "'on_call' needs 'people', 'starts_at' and 'turn', or a 'calendar'"
        return
    if plan.starts_at.tzinfo is not None:
        yield ("starts_at",), "'starts_at' is meant in 'time_zone': it takes no offset"
    if not _TURN.fullmatch(plan.turn):
        yield ("turn",), "'turn' should be like '1 week' or '2 days'"
    for index, person in enumerate(plan.people):
        if person not in members:
            yield ("people", index), f"{person!r} is not in the group, so nobody would be asked"

"""On-call calendars: iCalendar files (RFC 5545) as shifts. Their text is read once, their events day by day.

An event names who is on duty: by an attendee's address, or by an address or a person's id in its summary. All other
words of it say nothing. Cancelled events are none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from time import thread_time
from typing import Any
from zoneinfo import ZoneInfo

import icalendar
import recurring_ical_events

from placet.domain.addresses import without_case
from placet.domain.directory import Person
from placet.domain.duty import CalendarFile, Shift, names_of

#: Largest calendar read, in bytes.
CALENDAR_BYTES_MAX = 1024 * 1024
#: Characters of an event's summary that are read for names.
SUMMARY_MAX = 1_000
#: Days of calendars whose events are kept at hand.
DAYS_KEPT = 512
#: Days in which a calendar should name somebody of its group.
CHECKED_DAYS = 28
#: What reading a calendar may take, and what looking up a day in it, in seconds of CPU. Some milliseconds are usual;
#: rules that repeat every second, since the year 1, or never, would keep everything else waiting for minutes.
_CPU_SECONDS_MAX = 1.0
_WORD = re.compile(r"[^\s,;:()<>\[\]\"']+")


@dataclass(eq=False, slots=True)
class _Parsed:
    """A calendar's events as the library repeats them; hashed as itself."""

    events: Any
    zone: str
    #: Whether a day of it took too long to work out. It is asked no more then: the library's locks stay taken.
    given_up: bool = False

    def shifts(self, at: datetime) -> Sequence[Shift]:
        """Return the events of the day that `at` falls in, and of the hours around it; none where that takes long."""
        try:
            return () if self.given_up else _shifts_of(self, at.astimezone(UTC).date())
        except _TooCostlyError:
            self.given_up = True
            return ()


class _TooCostlyError(Exception):
    """Working out events took too long."""


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise _TooCostlyError in what is done within once it has taken too long: the libraries loop as long as told to.

    Whatever function they call next is where that is noticed.
    """
    ends = thread_time() + _CPU_SECONDS_MAX

    def look(*_: object) -> None:
        if thread_time() > ends:
            sys.setprofile(before)
            raise _TooCostlyError

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def read_calendar(named: CalendarFile) -> CalendarFile:
    """Return a calendar with its file read; one that cannot be used says why in `problem`. Never raises."""
    try:
        with Path(named.file).open("rb") as stream:
            content = stream.read(CALENDAR_BYTES_MAX + 1)
    except OSError as error:
        return replace(named, digest="", problem=f"cannot be read: {error.strerror}", shifts=_none)
    return parse_calendar(named, content, datetime.now(UTC))


def parse_calendar(named: CalendarFile, content: bytes, at: datetime) -> CalendarFile:
    """Return a calendar with `content` as its text; one that cannot be used says why in `problem`. Never raises.

    Its events around `at` are looked for, so that what is wrong with them is found too.
    """
    digest = sha256(content).hexdigest()
    if len(content) > CALENDAR_BYTES_MAX:
        return replace(named, digest=digest, problem=f"larger than {CALENDAR_BYTES_MAX} bytes", shifts=_none)
    parsed = _Parsed(None, named.zone)
    try:
        with _bounded():
            calendar = icalendar.Calendar.from_ical(content)
            events = calendar.walk("VEVENT")
            parsed = _Parsed(recurring_ical_events.of(calendar), named.zone)
        # What the library finds wrong only when it looks for events is found now.
        _shifts_of(parsed, at.astimezone(UTC).date())
        problem = "" if events else "it has no events"
    except _TooCostlyError:
        problem = "working out its events takes too long: they repeat too often, since too long ago, or never"
    except Exception as error:  # noqa: BLE001 - the libraries raise what they like about a file that others wrote
        # What the file says is kept out of the words: they go into logs.
        problem = f"it is no iCalendar file that can be used ({type(error).__name__})"
    return replace(named, digest=digest, problem=problem, shifts=_none if problem else parsed.shifts)


def names_anybody(calendar: CalendarFile, people: Collection[Person], at: datetime) -> bool:
    """Tell whether an event of the next CHECKED_DAYS days names somebody among `people`."""
    names = {name for person in people for name in names_of(person)}
    days = (at + timedelta(days=ahead) for ahead in range(CHECKED_DAYS))
    return any(not names.isdisjoint(each.names) for day in days for each in calendar.shifts(day))


def _none(_at: datetime) -> Sequence[Shift]:
    return ()


@lru_cache(maxsize=DAYS_KEPT)
def _shifts_of(parsed: _Parsed, day: date) -> Sequence[Shift]:
    """Return the events that touch a day of UTC. An event without a zone may be up to a day off, so more are asked."""
    begins = datetime.combine(day, time(), UTC)
    with _bounded():
        found = parsed.events.between(begins - timedelta(days=1), begins + timedelta(days=2))
        shifts = (_shift(each, parsed.zone) for each in found if str(each.get("STATUS", "")).upper() != "CANCELLED")
        return tuple(each for each in shifts if each.ends > begins and each.begins < begins + timedelta(days=1))


def _shift(event: Any, zone: str) -> Shift:
    return Shift(_moment(event.start, zone), _moment(event.end, zone), frozenset(_names(event)))


def _moment(value: date, zone: str) -> datetime:
    """Return a date or a time of an event as a moment; one without a zone is meant in `zone`."""
    wall = value if isinstance(value, datetime) else datetime.combine(value, time())
    return (wall if wall.tzinfo else wall.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)


def _names(event: Any) -> set[str]:
    attendees = event.get("ATTENDEE", [])
    listed = attendees if isinstance(attendees, list) else [attendees]
    listed = [each for each in listed if str(each.params.get("PARTSTAT", "")).upper() != "DECLINED"]
    names = {re.sub(r"^mailto:", "", str(each), flags=re.IGNORECASE) for each in listed}
    names |= {word.rstrip(".") for word in _WORD.findall(str(event.get("SUMMARY", ""))[:SUMMARY_MAX])}
    return {without_case(each) for each in names}

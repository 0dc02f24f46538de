"""Who is on duty: turns, hours and calendars, also when clocks change, and whoever is told where nobody is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from time import thread_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.directory import Directory, Person
from placet.domain.duty import CalendarFile, GroupDuty, Hours, OnDuty, Rotation, Shift, opens_at
from placet.domain.duty_calendar import CALENDAR_BYTES_MAX, names_anybody, parse_calendar, read_calendar

BERLIN = "Europe/Berlin"
PEOPLE = {
    "ada": Person("ada", "Ada", emails=("ada@example.org",)),
    "ben": Person("ben", emails=("ben@example.org",)),
    "eve": Person("eve", active=False),
}
WEEKLY = Rotation(("ada", "ben"), datetime(2026, 1, 5, 9), 7, BERLIN)  # noqa: DTZ001 - a clock on a wall
DAY = Hours(time(9), time(17), zone=BERLIN)
#: Moments of some years, among them every change of the clock in Europe.
MOMENTS = st.datetimes(datetime(2026, 1, 6), datetime(2029, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
STARTS = st.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1))  # noqa: DTZ001

ICS = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//test//EN
BEGIN:VEVENT
UID:1
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Berlin:20260105T090000
DTEND;TZID=Europe/Berlin:20260105T170000
RRULE:FREQ=DAILY
SUMMARY:On call: Ada
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTAMP:20260101T000000Z
DTSTART;VALUE=DATE:20260601
DTEND;VALUE=DATE:20260602
SUMMARY:somebody
ATTENDEE:MAILTO:Ben@Example.org
ATTENDEE;PARTSTAT=DECLINED:mailto:ada@example.org
END:VEVENT
BEGIN:VEVENT
UID:3
DTSTAMP:20260101T000000Z
DTSTART:20260701T200000
DTEND:20260701T220000
STATUS:CANCELLED
SUMMARY:ben
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n")


TAKES_LONG = "working out its events takes too long: they repeat too often, since too long ago, or never"
_SIXTY = ",".join(map(str, range(60)))
#: Rules that would keep everything else waiting for minutes.
DEAR = [
    "FREQ=SECONDLY",
    "FREQ=SECO\r\n NDLY",
    f"FREQ=HOURLY;BYMINUTE={_SIXTY};BYSECOND={_SIXTY}",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=3",
    "FREQ=HOURLY;BYMONTH=2;BYMONTHDAY=30",
]


def at(words: str, zone: str = BERLIN) -> datetime:
    """Return a moment as a clock on a wall shows it."""
    return datetime.fromisoformat(words).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def a_calendar(text: str = ICS) -> CalendarFile:
    """Return a calendar with this text, whose events without a zone are meant in Berlin."""
    return parse_calendar(CalendarFile("ops.ics", BERLIN), text.encode(), at("2026-01-05"))


def asked(duty: GroupDuty, when: datetime, *, members: tuple[str, ...] = ("ada", "ben", "eve")) -> OnDuty:
    """Return who of a group is told first."""
    return Directory(people=PEOPLE, groups={"ops": frozenset(members)}, duty={"ops": duty}).on_duty("ops", when)


@given(MOMENTS, STARTS, st.integers(1, 30), st.integers(1, 5), st.sampled_from([BERLIN, "UTC", "America/New_York"]))
def test_each_moment_belongs_to_one_turn(when: datetime, starts: datetime, days: int, count: int, zone: str) -> None:
    """Turns have neither gaps nor overlaps, whatever the clocks do: who ends a turn is followed by the next in line."""
    rotation = Rotation(tuple(f"p{number}" for number in range(count)), starts, days, zone)
    turn = rotation.shift(when)
    assert turn is not None
    following = rotation.shift(turn.ends)
    assert following is not None
    assert turn.begins <= when < turn.ends
    assert turn.ends == following.begins
    first, second = (int(next(iter(each.names))[1:]) for each in (turn, following))
    assert (first + 1) % count == second


@given(MOMENTS)
def test_working_hours_that_come_next_are_working_hours(when: datetime) -> None:
    """A notice waits until people work and no longer than over a weekend, and in working hours it does not wait."""
    opens = DAY.next_open(when)
    wall = opens.astimezone(ZoneInfo(BERLIN))
    assert when <= opens <= when + timedelta(days=3)
    assert wall.weekday() < 5
    assert time(9) <= wall.time() < time(17)
    assert opens == DAY.next_open(opens)


@given(MOMENTS, st.sampled_from([None, WEEKLY, CalendarFile("gone.ics"), a_calendar()]))
def test_somebody_of_the_group_is_told_at_any_time(when: datetime, plan: Rotation | CalendarFile | None) -> None:
    """Never nobody, nobody from elsewhere, and nobody who left; where nobody in particular is on duty, all of them."""
    found = asked(GroupDuty(plan=plan), when)
    assert set() < found.people <= {"ada", "ben"}
    assert not found.why_all or found.people == {"ada", "ben"}


@pytest.mark.parametrize(
    ("when", "person", "until"),
    [
        ("2026-01-05 09:00", "ada", "2026-01-12 09:00"),
        ("2026-01-12 08:59", "ada", "2026-01-12 09:00"),
        ("2026-01-12 09:00", "ben", "2026-01-19 09:00"),
        # Summer time begins on March 29: the turn changes at nine on the wall, and is an hour shorter.
        ("2026-03-30 08:59", "ben", "2026-03-30 09:00"),
        ("2026-03-30 09:00", "ada", "2026-04-06 09:00"),
    ],
)
def test_turns_change_at_the_same_time_of_the_day(when: str, person: str, until: str) -> None:
    """A turn includes its first minute and not its last; clocks that change do not move it."""
    assert OnDuty("ops", frozenset({person}), at(until)) == asked(GroupDuty(plan=WEEKLY), at(when))


def test_an_hour_that_comes_twice_has_one_change_of_turns() -> None:
    """At half past two on the night in October the next one begins, once."""
    nightly = Rotation(("ada", "ben"), datetime(2026, 10, 24, 2, 30), 1, BERLIN)  # noqa: DTZ001
    begins = at("2026-10-25 02:30")
    turns = [nightly.shift(begins + timedelta(minutes=minutes)) for minutes in (-1, 0, 45, 60, 90)]
    assert ["ada", "ben", "ben", "ben", "ben"] == [next(iter(each.names)) for each in turns if each]


def out_of_range(_: datetime) -> Sequence[Shift]:
    """Work out no events: a date among them is none that there can be."""
    raise OverflowError


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (None, "no_plan"),
        (Rotation(("ada",), datetime(2027, 1, 1), 7), "nobody"),  # noqa: DTZ001
        (Rotation(("eve",), datetime(2026, 1, 1), 7), "nobody"),  # noqa: DTZ001
        (Rotation(("zoe",), datetime(2026, 1, 1), 7), "nobody"),  # noqa: DTZ001
        (CalendarFile("ops.ics"), "unreadable"),
        (CalendarFile("ops.ics", problem="", shifts=out_of_range), "unreadable"),
    ],
)
def test_where_nobody_is_on_duty_all_are(plan: Rotation | CalendarFile | None, why: str) -> None:
    """Before the first turn, where who has it left the group or the house, without a plan, and whatever goes wrong."""
    assert OnDuty("ops", frozenset({"ada", "ben"}), None, why) == asked(GroupDuty(plan=plan), at("2026-06-01"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("when", "people", "until"),
    [
        ("2026-02-02 09:00", {"ada"}, "2026-02-02 17:00"),
        # The day of the attendee begins at midnight of the zone that the group says.
        ("2026-06-01 00:00", {"ben"}, "2026-06-02 00:00"),
        # Two are on duty; that changes when the first of them goes.
        ("2026-06-01 12:00", {"ada", "ben"}, "2026-06-01 17:00"),
        ("2026-03-29 16:59", {"ada"}, "2026-03-29 17:00"),
    ],
)
def test_a_calendar_says_who_is_on_duty(when: str, people: set[str], until: str) -> None:
    """By a word of the summary or an attendee's address, repeated events too, also when clocks change."""
    assert OnDuty("ops", frozenset(people), at(until)) == asked(GroupDuty(plan=a_calendar()), at(when))


def test_a_cancelled_event_and_a_gap_are_nobody() -> None:
    """The group is told then."""
    found = [asked(GroupDuty(plan=a_calendar()), at(each)) for each in ("2026-07-01 21:00", "2026-02-02 17:00")]
    assert ["nobody", "nobody"] == [each.why_all for each in found]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it is no iCalendar file that can be used (ValueError)"),
        ("root:x:0:0", "it is no iCalendar file that can be used (ValueError)"),
        ("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nEND:VCALENDAR\r\n", "it has no events"),
        (" " * (CALENDAR_BYTES_MAX + 1), f"larger than {CALENDAR_BYTES_MAX} bytes"),
        *((ICS.replace("FREQ=DAILY", rule), TAKES_LONG) for rule in DEAR),
        (ICS.replace("FREQ=DAILY", "FREQ=NEVER"), "it is no iCalendar file that can be used (BadRuleStringFormat)"),
        (
            ICS.replace("DTSTART;TZID=Europe/Berlin:20260105T090000", "DTSTART:soon"),
            "it is no iCalendar file that can be used (BrokenCalendarProperty)",
        ),
    ],
)
def test_a_bad_calendar_tells_all_and_says_why(text: str, problem: str) -> None:
    """Its words are not repeated, and the whole group is told."""
    calendar = a_calendar(text)
    assert problem == calendar.problem
    assert asked(GroupDuty(plan=calendar), at("2026-02-02 10:00")).people == {"ada", "ben"}


def test_a_day_that_takes_too_long_to_work_out_has_nobody() -> None:
    """The whole group is told then, and ever after: what was broken off in the library may hold its locks."""
    calendar, begun = a_calendar(ICS.replace("FREQ=DAILY", "FREQ=HOURLY")), thread_time()
    assert "" == calendar.problem
    told = [asked(GroupDuty(plan=calendar), at(f"{year}-02-02 10:00")).people for year in (2027, 9000, 9001, 2027)]
    assert [1, 2, 2, 2] == [len(people) for people in told]
    assert thread_time() - begun < 3.0


def test_names_are_read_in_the_same_time() -> None:
    """Each repetition has its summary: two seconds and half a gigabyte for one of 100 kB."""
    words = " ".join(map(str, range(20_000)))
    text = ICS.replace("FREQ=DAILY", "FREQ=MINUTELY;COUNT=200").replace("On call: Ada", f"Ada {words}")
    begun, calendar = thread_time(), a_calendar(text)
    assert "" == calendar.problem
    assert asked(GroupDuty(plan=calendar), at("2026-01-05 10:00")).people == {"ada"}
    assert thread_time() - begun < 3.0


def test_a_calendar_that_is_not_there_says_so(tmp_path: Path) -> None:
    """Reading never raises."""
    assert "cannot be read: No such file or directory" == read_calendar(CalendarFile(str(tmp_path / "x"))).problem
    (tmp_path / "ops.ics").write_text(ICS)
    assert "" == read_calendar(CalendarFile(str(tmp_path / "ops.ics"))).problem


def test_a_calendar_of_strangers_is_seen() -> None:
    """Its author finds out before a night in which nobody in particular was on duty."""
    people = PEOPLE.values()
    assert names_anybody(a_calendar(), people, at("2026-02-02"))
    assert not names_anybody(a_calendar(ICS.replace("Ada", "Zoe")), people, at("2026-02-02"))


@pytest.mark.parametrize(
    ("hours", "when", "opens"),
    [
        (DAY, "2026-03-27 17:00", "2026-03-30 09:00"),
        (DAY, "2026-03-30 08:59", "2026-03-30 09:00"),
        (DAY, "2026-03-30 16:59", "2026-03-30 16:59"),
        (
            Hours(time(9), time(17), zone=BERLIN, holidays=frozenset({date(2026, 12, 25)})),
            "2026-12-24 18:00",
            "2026-12-28 09:00",
        ),
        # A night that began on Friday lasts into Saturday.
        (Hours(time(22), time(6), zone=BERLIN), "2026-03-28 05:59", "2026-03-28 05:59"),
        (Hours(time(22), time(6), zone=BERLIN), "2026-03-28 06:00", "2026-03-30 22:00"),
        (Hours(time(0), time(0), frozenset(range(7)), BERLIN), "2026-03-29 02:30", "2026-03-29 02:30"),
        # Hours that never begin hold nothing up.
        (Hours(time(9), time(17), frozenset()), "2026-03-28 06:00", "2026-03-28 06:00"),
    ],
)
def test_a_notice_waits_for_working_hours(hours: Hours, when: str, opens: str) -> None:
    """Evenings, weekends and holidays are over when the next hours begin."""
    assert at(opens) == opens_at(GroupDuty(hours), at(when), None)


def test_a_notice_that_would_come_too_late_goes_out_at_once() -> None:
    """A deadline before the morning is no reason to be silent."""
    evening, morning = at("2026-03-24 20:00"), at("2026-03-25 09:00")
    assert evening == opens_at(GroupDuty(DAY), evening, morning)
    assert morning == opens_at(GroupDuty(DAY), evening, morning + timedelta(minutes=1))
    assert evening == opens_at(None, evening, None)


def test_a_rotation_finds_its_people_however_their_ids_are_written() -> None:
    """The directory keeps the case of an id, and so does the plan; who is on duty is found all the same."""
    people = {"Ada": Person("Ada"), "Ben": Person("Ben")}
    rotation = Rotation(("Ada", "Ben"), datetime(2026, 1, 5, 9), 7)  # noqa: DTZ001
    directory = Directory(people=people, groups={"ops": frozenset(people)}, duty={"ops": GroupDuty(plan=rotation)})
    found = directory.on_duty("ops", at("2026-01-06 09:00"))
    assert frozenset({"Ada"}) == found.people

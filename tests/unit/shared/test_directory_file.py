"""The directory of people: what a file may say, how its mistakes are told, and how a change is taken over."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time
from pathlib import Path

import pytest

from placet.domain.directory import Directory, Person, SlackUser
from placet.domain.directory_file import ACTIVATIONS, LOOK_EVERY_SECONDS, RELOAD_FAILURES, DirectoryFile, directory_from
from placet.domain.duty import CalendarFile, GroupDuty, Hours, Rotation
from placet.domain.yaml_source import RulebookInvalid, parse_yaml

PEOPLE = """\
people:
  ada:
    name: Ada Lovelace
    emails: [Ada@Example.org]
    slack: [{team: T1, user: U1}]
    attributes: {department: finance}
  bob: {active: false}
groups:
  finance: [ada, bob]
owners:
  shop: [bob]
"""


#: A group whose plan follows.
PLAN = "groups:\n  ops:\n    people: [ada]\n    on_call: "


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def pass_by(self) -> None:
        """Let as much time pass as makes a directory look again."""
        self.now += LOOK_EVERY_SECONDS


def written(path: Path, text: str) -> None:
    """Put a new version in the place of a file, as editors and orchestrators do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def problems_of(text: str) -> list[str]:
    """Return what is wrong with the directory in a rulebook called `f`."""
    source = parse_yaml("f", text.encode())
    directory_from(source)
    return [str(problem) for problem in sorted(source.problems)]


def test_people_groups_and_owners_are_read_as_they_stand() -> None:
    """Each field arrives in the value; addresses are compared in lower case."""
    source = parse_yaml("f", PEOPLE.encode())
    ada = Person("ada", "Ada Lovelace", ("ada@example.org",), (SlackUser("T1", "U1"),), {"department": "finance"})
    groups = {"finance": frozenset({"ada", "bob"})}
    owners = {"shop": frozenset({"bob"})}
    expected = Directory(source.digest, {"ada": ada, "bob": Person("bob", active=False)}, groups, owners)

    assert expected == directory_from(source)


def test_rulebook_without_people_has_an_empty_directory() -> None:
    """People are then known by their keys alone, and that is no problem."""
    assert ([], {}) == (problems_of("tools: {}"), directory_from(parse_yaml("f", b"tools: {}")).people)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("people: {ada: {nmae: A}}", "f:1:16: unknown key 'nmae'"),
        ("people: {ada: }", "f:1:14: 'ada' should be a mapping"),
        ("people: {ada: {active: 'no'}}", "f:1:24: 'active' should be a valid boolean"),
        # Lists of who may have asked are written with spaces between them.
        ("people: {ada lovelace: {}}", "f:1:10: 'ada lovelace' should match pattern"),
        # An erasure finds an id as a whole: where another's stands in it, nothing would say whose it is.
        ("people: {'x/person:ada': {}}", "f:1:10: 'x/person:ada' has a ':' or ends with a backslash"),
        ("people: {'visitor:ada': {}}", "f:1:10: 'visitor:ada' has a ':' or ends with a backslash"),
        ("people: {'ada\\': {}}", "f:1:10: 'ada\\' has a ':' or ends with a backslash"),
        ("people: {ada: {}}\ngroups: {lead: [eve]}", "f:2:17: unknown person 'eve'"),
        ("people: {ada: {time_zone: Mars/Base}}", "f:1:27: no time zone is called 'Mars/Base'"),
        ("people: {ada: {}}\nowners: {shop: [eve]}", "f:2:17: unknown person 'eve'"),
        (
            "people:\n  ada: {emails: [a@b.c]}\n  bob: {emails: [A@B.C]}",
            "f:3:18: 'ada' has this already: it must tell one person",
        ),
        (
            "people:\n  ada: {slack: [{team: T1, user: U1}]}\n  bob: {slack: [{team: T1, user: U1}]}",
            "f:3:17: 'ada' has this already: it must tell one person",
        ),
        ("groups: {ops: {hours: {time: '9-17'}, people: []}}", "f:1:30: 'time' should match pattern"),
        (
            "groups: {ops: {hours: {time: 09:00-17:00, days: [monday]}, people: []}}",
            "f:1:50: item 1 of 'days' should be",
        ),
        (
            "groups:\n  ops: {people: [], hours: {time: 09:00-17:00, time_zone: Mars}}",
            "f:2:59: no time zone is called 'Mars'",
        ),
        ("groups: {ops: {people: [], on_call: {turn: 1 week}}}", "f:1:37: 'on_call' needs 'people', 'starts_at' and"),
        (
            PLAN + "{people: [ben], starts_at: 2026-01-05 09:00, turn: 1 week}",
            "f:4:24: 'ben' is not in the group, so nobody would be asked",
        ),
        (
            PLAN + "{people: [ada], starts_at: 2026-01-05 09:00, turn: 1 month}",
            "f:4:65: 'turn' should be like '1 week' or '2 days'",
        ),
        (
            PLAN + "{people: [ada], starts_at: 2026-01-05T09:00Z, turn: 1 day}",
            "f:4:41: 'starts_at' is meant in 'time_zone': it takes no offset",
        ),
        (
            "groups:\n  ops:\n    people: []\n    on_call: {calendar: a.ics, turn: 1 week, time_zone: UTC}",
            "f:4:25: a calendar says who is on duty: it takes no 'people', 'starts_at' or 'turn'",
        ),
        ("groups: {Lead: [ada]}", "f:1:10: 'Lead' should match pattern '^[a-z0-9][a-z0-9-]{0,63}$'"),
        ("directory: [a]", "f:1:12: 'directory' should be the name of a file"),
    ],
)
def test_each_mistake_is_told_with_its_place(text: str, problem: str) -> None:
    """One line, one place; the words of a schema go on with what it would take."""
    (found,) = problems_of(text)
    assert found.startswith(problem)


def test_mistake_in_a_file_of_its_own_is_told_with_that_files_name(tmp_path: Path) -> None:
    """Who reads the problem knows which of the two files to open; nothing else may stand there."""
    people = tmp_path / "people.yaml"
    people.write_text("groups: {lead: ada}\nrules: []\n")
    source = parse_yaml(str(tmp_path / "rulebook.yaml"), b"directory: people.yaml\npeople: {}\n")

    directory_from(source)

    assert [
        f"{people}:1:16: 'lead' should be the list of its people, or a mapping",
        f"{people}:2:1: unknown key 'rules'",
        f"{source.file}:2:1: 'people' stands in the file that 'directory' names",
    ] == [str(problem) for problem in sorted(source.problems)]


def test_changed_file_is_used_without_a_restart(tmp_path: Path) -> None:
    """The next look after a second finds the new version, of the named file too."""
    rulebook, people, clock = tmp_path / "rulebook.yaml", tmp_path / "people.yaml", Clock()
    rulebook.write_text("directory: people.yaml\n")
    people.write_text("groups: {lead: [ada]}\n")
    watched = DirectoryFile(rulebook, clock)
    written(people, "groups: {lead: [ada, bob]}\n")

    before = set(watched.current().members("lead"))
    clock.pass_by()

    assert ({"ada"}, {"ada", "bob"}) == (before, set(watched.current().members("lead")))


def test_a_directory_that_takes_over_is_counted_and_other_changes_of_the_file_are_not(tmp_path: Path) -> None:
    """Also one that leaves a group without people: who left has left, and it is told."""
    rulebook, clock = tmp_path / "rulebook.yaml", Clock()
    rulebook.write_text("groups: {ops: [ada]}\n")
    watched, before = DirectoryFile(rulebook, clock), ACTIVATIONS._value.get()
    counted = []
    for text in ("groups: {ops: [ada]} # a remark\n", "groups: {ops: []}\n"):
        written(rulebook, text)
        clock.pass_by()
        watched.current()
        counted.append(ACTIVATIONS._value.get() - before)

    assert ([0, 1], set()) == (counted, set(watched.current().members("ops")))


def test_file_is_looked_at_at_most_once_a_second(tmp_path: Path) -> None:
    """Between two looks the same value is returned, whatever happened to the file."""
    rulebook, clock = tmp_path / "rulebook.yaml", Clock()
    rulebook.write_text("groups: {lead: [ada]}\n")
    watched = DirectoryFile(rulebook, clock)
    rulebook.unlink()
    clock.now += LOOK_EVERY_SECONDS / 2

    assert watched.current() is watched.current()


@pytest.mark.parametrize("bad", ["groups: {lead: ada}\n", "{", "directory: nowhere.yaml\n"])
def test_bad_new_file_keeps_the_old_one_and_is_counted_once(tmp_path: Path, bad: str) -> None:
    """A mistake takes nobody their rights, and the mended file is used."""
    rulebook, clock = tmp_path / "rulebook.yaml", Clock()
    rulebook.write_text("groups: {lead: [ada]}\n")
    watched, failures = DirectoryFile(rulebook, clock), RELOAD_FAILURES._value.get()
    written(rulebook, bad)
    members = []
    for _ in range(2):
        clock.pass_by()
        members.append(set(watched.current().members("lead")))
    counted = RELOAD_FAILURES._value.get() - failures
    written(rulebook, "groups: {lead: [eve]}\n")
    clock.pass_by()

    assert ([{"ada"}, {"ada"}], 1, {"eve"}) == (members, counted, set(watched.current().members("lead")))


def test_vanished_file_keeps_the_old_directory(tmp_path: Path) -> None:
    """Somebody who replaces the file clumsily takes nobody their rights."""
    rulebook, clock = tmp_path / "rulebook.yaml", Clock()
    rulebook.write_text("groups: {lead: [ada]}\n")
    watched = DirectoryFile(rulebook, clock)
    rulebook.unlink()
    clock.pass_by()

    assert {"ada"} == set(watched.current().members("lead"))


def test_named_file_that_was_missing_and_comes_is_used(tmp_path: Path) -> None:
    """A rulebook that begins to name a file is read again when that file is there."""
    rulebook, clock = tmp_path / "rulebook.yaml", Clock()
    rulebook.write_text("groups: {lead: [ada]}\n")
    watched = DirectoryFile(rulebook, clock)
    written(rulebook, "directory: people.yaml\n")
    clock.pass_by()
    before = set(watched.current().members("lead"))
    written(tmp_path / "people.yaml", "groups: {lead: [eve]}\n")
    clock.pass_by()

    assert ({"ada"}, {"eve"}) == (before, set(watched.current().members("lead")))


@pytest.mark.parametrize("broken", ["rules: [\n", None])
def test_people_in_a_file_of_their_own_are_read_while_the_rulebook_is_broken(
    tmp_path: Path, broken: str | None
) -> None:
    """Who is made inactive there has left, whatever is wrong with the rulebook; a mistake there changes nothing."""
    rulebook, people, clock = tmp_path / "rulebook.yaml", tmp_path / "people.yaml", Clock()
    rulebook.write_text("directory: people.yaml\n")
    people.write_text("people: {ada: {}, bob: {}}\n")
    watched, failures = DirectoryFile(rulebook, clock), RELOAD_FAILURES._value.get()
    if broken is None:
        rulebook.unlink()
    else:
        written(rulebook, broken)
    active = []
    for text in (
        "people: {ada: {}, bob: {}}\n",
        "people: {ada: {active: false}, bob: {}}\n",
        "people: {ada",
        "people: {ada: {}, bob: {active: false}}\n",
    ):
        written(people, text)
        clock.pass_by()
        active.append({name for name in ("ada", "bob") if watched.current().is_active(name)})
    assert ([{"ada", "bob"}, {"bob"}, {"bob"}, {"ada"}], True) == (active, RELOAD_FAILURES._value.get() > failures)


def test_bad_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    """Nothing runs with a directory that nobody could read."""
    rulebook = tmp_path / "rulebook.yaml"
    rulebook.write_text("groups: {lead: ada}\n")

    with pytest.raises(RulebookInvalid, match="'lead' should be the list of its people, or a mapping"):
        DirectoryFile(rulebook)


def test_a_calendar_is_read_again_when_it_changes_and_keeps_nobody_in_office(tmp_path: Path) -> None:
    """One that cannot be used leaves who is who up to date; only whoever asks who is on duty has it read."""
    rulebook, calendar, clock = tmp_path / "rulebook.yaml", tmp_path / "ops.ics", Clock()
    rulebook.write_text("groups: {ops: {people: [ada], on_call: {calendar: ops.ics}}}\n")
    read: list[str] = []

    def reader(named: CalendarFile) -> CalendarFile:
        read.append(named.file)
        return replace(named, problem="", digest=Path(named.file).read_text() if calendar.exists() else "")

    watched, other = DirectoryFile(rulebook, clock, calendars=reader), DirectoryFile(rulebook, clock)
    written(calendar, "first")
    clock.pass_by()
    first = watched.current().duty["ops"].plan
    written(calendar, "another")
    clock.pass_by()
    second = watched.current().duty["ops"].plan

    assert isinstance(first, CalendarFile)
    assert isinstance(second, CalendarFile)
    assert ("first", "another") == (first.digest, second.digest)
    assert [str(calendar)] * 3 == read
    assert CalendarFile(str(calendar)) == other.current().duty["ops"].plan


def test_hours_and_plan_of_a_group_are_read_as_they_stand() -> None:
    """A group with a plan has the same people as one that is a list."""
    text = """\
groups:
  ops:
    people: [ada, bob]
    hours: {time: "22:00-06:00", days: [fri, sat], time_zone: Europe/Berlin, holidays: [2026-12-25]}
    on_call: {people: [bob, ada], starts_at: 2026-01-05 09:00, turn: 2 weeks, time_zone: Europe/Berlin}
"""
    hours = Hours(time(22), time(6), frozenset({4, 5}), "Europe/Berlin", frozenset({date(2026, 12, 25)}))
    plan = Rotation(("bob", "ada"), datetime(2026, 1, 5, 9), 14, "Europe/Berlin")  # noqa: DTZ001 - a clock on a wall
    found = directory_from(parse_yaml("f", text.encode()))

    assert {"ops": frozenset({"ada", "bob"})} == found.groups
    assert {"ops": GroupDuty(hours, plan)} == found.duty


def test_an_address_that_only_unicode_takes_for_another_ones_is_another() -> None:
    """It stays as it is written: mail to it must not go to whoever has the other."""
    directory = directory_from(parse_yaml("f", "people: {a: {emails: ['\u212a@B.c']}, b: {emails: [k@b.c]}}".encode()))
    assert (("\u212a@b.c",), ("k@b.c",)) == (directory.people["a"].emails, directory.people["b"].emails)

"""People, groups and owners as a file says them: read, checked, and read again when the file changes.

They stand in the rulebook itself or, with `directory: FILE` there, in a file of their own beside it. A reload is safe:
a new version with a mistake is not used, the one before stays, and a metric and a log line say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import structlog
from prometheus_client import Counter
from pydantic import Field, Strict, ValidationError

from placet.domain.addresses import without_case
from placet.domain.directory import Directory, Person, SlackUser
from placet.domain.duty import CalendarFile
from placet.domain.duty_entries import GroupEntry, PersonId, duty_problems, widen_groups
from placet.domain.time_zones import is_zone
from placet.domain.yaml_source import RulebookInvalid, Steps, WrittenEntry, YamlSource, read_yaml

log = structlog.get_logger(__name__)

#: Shortest time between two looks at the files, in seconds.
LOOK_EVERY_SECONDS = 1.0
#: Keys of a directory, in the rulebook or in a file of its own.
KEYS = ("people", "groups", "owners")

RELOAD_FAILURES = Counter(
    "placet_directory_reload_failures_total", "Changed directories that were not used because of a mistake in them."
)

ACTIVATIONS = Counter("placet_directory_activations_total", "Changed directories that took over.")

GroupName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
_Short = Annotated[str, Field(min_length=1, max_length=200)]


class SlackEntry(WrittenEntry):
    """One of a person's `slack`."""

    team: Annotated[str, Field(pattern=r"^[TE][A-Z0-9]{1,30}$", description="Id of the Slack team, `T…`.")]
    user: Annotated[str, Field(pattern=r"^[UW][A-Z0-9]{1,30}$", description="Id of the user there, `U…`.")]


class PersonEntry(WrittenEntry):
    """One of `people`."""

    name: Annotated[str, Field(max_length=200, description="As others call them.")] = ""
    emails: Annotated[
        list[Annotated[str, Field(pattern=r"^[^@\s]{1,64}@[^@\s]{1,189}$")]],
        Field(description="Addresses that reach them; each belongs to one person."),
    ] = Field(default_factory=list)
    slack: Annotated[list[SlackEntry], Field(description="Who they are in Slack; each belongs to one person.")] = Field(
        default_factory=list
    )
    quiet_hours: Annotated[
        str,
        Field(
            pattern=r"^(([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d( [A-Za-z0-9_+/-]+)?)?$",
            description="When they are left in peace: `22:00-07:00 Europe/Berlin`.",
        ),
    ] = ""
    time_zone: Annotated[
        str,
        Field(pattern=r"^([A-Za-z0-9_+/-]{1,64})?$", description="In which they read times: `Europe/Berlin`."),
    ] = ""
    language: Annotated[str, Field(pattern=r"^([a-z]{2})?$", description="In which they are written to.")] = ""
    subjects: Annotated[
        list[_Short], Field(description="Who they are at the sign-in service (`sub`); each belongs to one person.")
    ] = Field(default_factory=list)
    attributes: Annotated[dict[_Short, _Short], Field(description="Free facts for conditions.")] = Field(
        default_factory=dict
    )
    active: Annotated[
        bool, Strict(), Field(description="False: they decide nothing any more, and votes they gave count no more.")
    ] = True


class DirectoryEntry(WrittenEntry):
    """A directory file: people, groups and owners, and nothing else."""

    people: Annotated[dict[PersonId, PersonEntry], Field(description="Id to person: `ada` for `person:ada`.")] = Field(
        default_factory=dict
    )
    groups: Annotated[
        dict[GroupName, GroupEntry], Field(description="Name to the ids of its people, and when it works.")
    ] = Field(default_factory=dict)
    owners: Annotated[
        dict[_Short, list[PersonId]], Field(description="Agent to the ids of the people who own it, for four eyes.")
    ] = Field(default_factory=dict)


def directory_from(source: YamlSource) -> Directory:
    """Return the directory that a rulebook has, or names with `directory: FILE` relative to itself.

    What is wrong is noted in `source`, with the name of the file that it stands in. Without any of it the directory
    is empty: people are then known by their keys alone.
    """
    named = source.data.get("directory")
    if named is None:
        return _directory_in(source)
    for key in KEYS:
        if key in source.data:
            source.report((key,), f"{key!r} stands in the file that 'directory' names", at_key=True)
    if not isinstance(named, str) or not named:
        source.report(("directory",), "'directory' should be the name of a file")
        return Directory()
    try:
        return _directory_of(_beside(source.file, named))
    except RulebookInvalid as error:
        source.problems += error.problems
        return Directory()


class _Look(NamedTuple):
    """What tells one version of a file from another without reading it."""

    path: str
    inode: int
    size: int
    changed_ns: int


class DirectoryFile:
    """The directory of a rulebook file as it is now. `current()` looks at the files at most once a second.

    People in a file of their own stay up to date while the rulebook cannot be read: who leaves has left.
    """

    def __init__(
        self,
        rulebook: Path | str,
        clock: Callable[[], float] = time.monotonic,
        *,
        calendars: Callable[[CalendarFile], CalendarFile] | None = None,
    ) -> None:
        """Read it; raise RulebookInvalid where it cannot be used.

        `calendars` reads the on-call calendars of groups, for whoever asks who is on duty. One that cannot be read
        keeps nothing else from being used.
        """
        self._path = Path(rulebook)
        self._clock = clock
        self._calendars = calendars
        self._looked_at = clock()
        self._seen: tuple[_Look, ...] = ()
        #: The file of its own that the last good rulebook named.
        self._named: Path | None = None
        self._current = Directory()
        self._current = self._read()

    def current(self) -> Directory:
        """Return the newest directory that had no mistake in it."""
        now = self._clock()
        if now - self._looked_at >= LOOK_EVERY_SECONDS:
            self._looked_at = now
            if tuple(_look_at(Path(each.path)) for each in self._seen) != self._seen:
                self._reload()
        return self._current

    def _reload(self) -> None:
        before = self._current
        try:
            self._current = self._read()
            self._tell(before)
        except RulebookInvalid as error:
            self._reject(error)

    def _reject(self, error: RulebookInvalid) -> None:
        RELOAD_FAILURES.inc()
        log.warning("directory.rejected", file=str(self._path), problem=str(error.problems[0]))

    def _tell(self, before: Directory) -> None:
        """Tell that another directory took over; the file may have changed in other places, or not at all."""
        now = self._current
        if now == replace(before, digest=now.digest):
            return
        ACTIVATIONS.inc()
        empty = sorted(name for name in now.groups if not now.members(name))
        log.info("directory.activated", file=str(self._path), digest=now.digest, groups_without_people=empty)

    def _read(self) -> Directory:
        # Looked at first: what changes while it is read is read again at the next look.
        known = [Path(each.file) for each in _calendars_of(self._current)] if self._calendars else []
        self._seen = tuple(_look_at(path) for path in (self._path, self._named, *known) if path)
        try:
            source = read_yaml(self._path)
        except RulebookInvalid as error:
            if self._named is None:
                raise
            self._reject(error)
            return self._with_calendars(_directory_of(self._named))
        name = source.data.get("directory")
        named = _beside(source.file, name) if isinstance(name, str) else None
        if named and named != self._named:
            self._seen += (_look_at(named),)
        # What is wrong with the rest of the rulebook is policy's business.
        source.problems.clear()
        directory = directory_from(source)
        source.check()
        self._named = named
        return self._with_calendars(directory)

    def _with_calendars(self, directory: Directory) -> Directory:
        """Return a directory with its calendars read; say which of them cannot be used."""
        if self._calendars is None:
            return directory
        looked_at = {each.path for each in self._seen}
        new = {each.file for each in _calendars_of(directory)} - looked_at
        self._seen += tuple(_look_at(Path(each)) for each in sorted(new))
        directory = with_calendars(directory, self._calendars)
        for each in _calendars_of(directory):
            if each.problem:
                log.warning("directory.calendar_unusable", file=each.file, problem=each.problem)
        return directory


def with_calendars(directory: Directory, read: Callable[[CalendarFile], CalendarFile]) -> Directory:
    """Return a directory with the on-call calendars that its groups name, as `read` returns each."""
    found = {
        name: replace(each, plan=read(each.plan)) if isinstance(each.plan, CalendarFile) else each
        for name, each in directory.duty.items()
    }
    return replace(directory, duty=found)


def _calendars_of(directory: Directory) -> Iterator[CalendarFile]:
    return (each.plan for each in directory.duty.values() if isinstance(each.plan, CalendarFile))


def _look_at(path: Path) -> _Look:
    try:
        found = path.stat()
    except OSError:
        return _Look(str(path), 0, 0, 0)
    return _Look(str(path), found.st_ino, found.st_size, found.st_mtime_ns)


def _beside(file: str, named: str) -> Path:
    return Path(file).parent / named


def _directory_of(file: Path) -> Directory:
    """Return the directory in a file of its own; raise RulebookInvalid where it cannot be used."""
    source = read_yaml(file)
    for key in source.data.keys() - set(KEYS):
        source.report((key,), f"unknown key {key!r}", at_key=True)
    directory = _directory_in(source)
    source.check()
    return directory


def _directory_in(source: YamlSource) -> Directory:
    widen_groups(source)
    data = {key: source.data[key] for key in KEYS if key in source.data}
    try:
        entry = DirectoryEntry.model_validate(data)
    except ValidationError as error:
        source.report_validation(error, ())
        return Directory()
    wrong = [*_problems(entry), *duty_problems(entry.groups)]
    for steps, problem in wrong:
        source.report(steps, problem)
    duty = {} if wrong else {name: group.duty(Path(source.file)) for name, group in entry.groups.items()}
    return Directory(
        digest=source.digest,
        people={name: _person(name, person) for name, person in entry.people.items()},
        groups={name: frozenset(group.people) for name, group in entry.groups.items()},
        owners={agent: frozenset(people) for agent, people in entry.owners.items()},
        duty={name: each for name, each in duty.items() if each is not None},
    )


def _person(name: str, entry: PersonEntry) -> Person:
    return Person(
        id=name,
        name=entry.name,
        emails=tuple(without_case(email) for email in entry.emails),
        slack=tuple(SlackUser(each.team, each.user) for each in entry.slack),
        language=entry.language,
        quiet_hours=entry.quiet_hours,
        time_zone=entry.time_zone,
        subjects=tuple(entry.subjects),
        attributes=dict(entry.attributes),
        active=entry.active,
    )


def _problems(entry: DirectoryEntry) -> Iterator[tuple[Steps, str]]:
    """Yield who is listed nowhere, zones that are none, and what two people share: one vote must not count twice."""
    if entry.people:
        lists: dict[Steps, list[str]] = {("groups", name, "people"): each.people for name, each in entry.groups.items()}
        lists |= {("owners", name): people for name, people in entry.owners.items()}
        for steps, people in lists.items():
            for index, member in enumerate(people):
                if member not in entry.people:
                    yield (*steps, index), f"unknown person {member!r}"
    yield from _shared_marks(entry)
    for name, person in entry.people.items():
        if not is_zone(person.time_zone):
            yield ("people", name, "time_zone"), f"no time zone is called {person.time_zone!r}"


def _shared_marks(entry: DirectoryEntry) -> Iterator[tuple[Steps, str]]:
    taken: dict[Any, str] = {}
    for name, person in entry.people.items():
        marks: list[tuple[str, list[Any]]] = [
            ("emails", [without_case(email) for email in person.emails]),
            ("slack", [(each.team, each.user) for each in person.slack]),
            ("subjects", [("subject", each) for each in person.subjects]),
        ]
        for key, values in marks:
            for index, value in enumerate(values):
                other = taken.setdefault(value, name)
                if other != name:
                    yield ("people", name, key, index), f"{other!r} has this already: it must tell one person"

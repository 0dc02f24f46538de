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
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from prometheus_client import Counter
from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from placet.domain.directory import Directory, Person, SlackUser
from placet.domain.yaml_source import RulebookInvalid, Steps, YamlSource, read_yaml

log = structlog.get_logger(__name__)

#: Shortest time between two looks at the files, in seconds.
LOOK_EVERY_SECONDS = 1.0
#: Keys of a directory, in the rulebook or in a file of its own.
KEYS = ("people", "groups", "owners")

RELOAD_FAILURES = Counter(
    "placet_directory_reload_failures_total", "Changed directories that were not used because of a mistake in them."
)

ACTIVATIONS = Counter("placet_directory_activations_total", "Changed directories that took over.")

PersonId = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,128}$")]
GroupName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
_Short = Annotated[str, Field(min_length=1, max_length=200)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SlackEntry(_Entry):
    """One of a person's `slack`."""

    team: Annotated[str, Field(pattern=r"^[TE][A-Z0-9]{1,30}$", description="Id of the Slack team, `T…`.")]
    user: Annotated[str, Field(pattern=r"^[UW][A-Z0-9]{1,30}$", description="Id of the user there, `U…`.")]


class PersonEntry(_Entry):
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


class DirectoryEntry(_Entry):
    """A directory file: people, groups and owners, and nothing else."""

    people: Annotated[dict[PersonId, PersonEntry], Field(description="Id to person: `ada` for `person:ada`.")] = Field(
        default_factory=dict
    )
    groups: Annotated[dict[GroupName, list[PersonId]], Field(description="Name to the ids of its people.")] = Field(
        default_factory=dict
    )
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

    def __init__(self, rulebook: Path | str, clock: Callable[[], float] = time.monotonic) -> None:
        """Read it; raise RulebookInvalid where it cannot be used."""
        self._path = Path(rulebook)
        self._clock = clock
        self._looked_at = clock()
        self._seen: tuple[_Look, ...] = ()
        #: The file of its own that the last good rulebook named.
        self._named: Path | None = None
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
        self._seen = tuple(_look_at(path) for path in (self._path, self._named) if path)
        try:
            source = read_yaml(self._path)
        except RulebookInvalid as error:
            if self._named is None:
                raise
            self._reject(error)
            return _directory_of(self._named)
        name = source.data.get("directory")
        named = _beside(source.file, name) if isinstance(name, str) else None
        if named and named != self._named:
            self._seen += (_look_at(named),)
        # What is wrong with the rest of the rulebook is policy's business.
        source.problems.clear()
        directory = directory_from(source)
        source.check()
        self._named = named
        return directory


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
    data = {key: source.data[key] for key in KEYS if key in source.data}
    try:
        entry = DirectoryEntry.model_validate(data)
    except ValidationError as error:
        source.report_validation(error, ())
        return Directory()
    for steps, problem in _problems(entry):
        source.report(steps, problem)
    return Directory(
        digest=source.digest,
        people={name: _person(name, person) for name, person in entry.people.items()},
        groups={name: frozenset(members) for name, members in entry.groups.items()},
        owners={agent: frozenset(people) for agent, people in entry.owners.items()},
    )


def _person(name: str, entry: PersonEntry) -> Person:
    return Person(
        id=name,
        name=entry.name,
        emails=tuple(email.lower() for email in entry.emails),
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
        for key, lists in (("groups", entry.groups), ("owners", entry.owners)):
            for name, people in lists.items():
                for index, member in enumerate(people):
                    if member not in entry.people:
                        yield (key, name, index), f"unknown person {member!r}"
    yield from _shared_marks(entry)
    for name, person in entry.people.items():
        if not _is_zone(person.time_zone):
            yield ("people", name, "time_zone"), f"no time zone is called {person.time_zone!r}"


def _shared_marks(entry: DirectoryEntry) -> Iterator[tuple[Steps, str]]:
    taken: dict[Any, str] = {}
    for name, person in entry.people.items():
        marks: list[tuple[str, list[Any]]] = [
            ("emails", [email.lower() for email in person.emails]),
            ("slack", [(each.team, each.user) for each in person.slack]),
            ("subjects", [("subject", each) for each in person.subjects]),
        ]
        for key, values in marks:
            for index, value in enumerate(values):
                other = taken.setdefault(value, name)
                if other != name:
                    yield ("people", name, key, index), f"{other!r} has this already: it must tell one person"


def _is_zone(name: str) -> bool:
    """Tell whether this machine knows a zone; none at all is the house's."""
    try:
        ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True

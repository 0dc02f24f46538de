"""The rulebook that policy judges by: the file as it was when it was last right, and a row for each change of it.

A new version of the file is checked as a whole; a good one takes over without a restart, a bad one changes nothing.
People are another matter: who left has left, whatever a rule still asks of them. So a change of people always takes
over, Placet starts with whoever is there, and what the rules lack then is told.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import structlog
from prometheus_client import Counter, Gauge, Info

from placet.domain.directory import Directory
from placet.domain.directory_file import DirectoryFile
from placet.domain.yaml_source import Problem, RulebookInvalid, YamlSource, parse_yaml, read_yaml
from placet.policy import records
from placet.policy.rulebook import rulebook_from
from placet.policy.rules import Rulebook, grants
from placet.policy.rules.people import outline
from placet.policy.states import GrantEvent
from placet.policy.store import grants as grant_store
from placet.policy.store import rulebooks
from placet.runtime.work import UnitOfWork

log = structlog.get_logger(__name__)

#: Pause between two looks at the file, in seconds.
LOOK_EVERY_SECONDS = 1.0
#: Who a change of the file is put down to; the file does not say who wrote it.
BY_FILE = "file"

ACTIVATIONS = Counter("placet_rulebook_activations_total", "New versions of the rulebook that took over.")
REJECTIONS = Counter("placet_rulebook_rejections_total", "New versions of the rulebook with a mistake in them.")
PEOPLE_MISSING = Gauge(
    "placet_rulebook_people_missing", "Places in the rulebook that ask people or groups who are not there, or too few."
)
INFO = Info("placet_rulebook", "The rulebook that policy judges by.")


class ActiveRulebook:
    """One process's rulebook, with the directory as it is now."""

    def __init__(self, path: Path, units: UnitOfWork) -> None:
        """Read the file; raise RulebookInvalid where it is not right."""
        self._path = path
        self._units = units
        self._people = DirectoryFile(path)
        self._source = read_yaml(path)
        self._rulebook = rulebook_from(self._source, lenient=True)
        self._recorded = False
        #: Digests of the rulebook and of the directory that were looked at last for who is missing.
        self._looked_for = ("", "")
        #: Digest of the newest people that were recorded and are not those of the rulebook; empty for none.
        self._own_people = ""
        #: The directory that was looked at last.
        self._known: Directory | None = None
        #: Digests of the version that was refused last, and of the directory that it was checked with.
        self._refused = ("", "")
        INFO.info({"digest": self._rulebook.digest})

    @property
    def rulebook(self) -> Rulebook:
        """The rulebook to judge by now."""
        people = self._people.current()
        if people is not self._rulebook.directory:
            self._rulebook = replace(self._rulebook, directory=people)
        return self._rulebook

    @property
    def as_file(self) -> tuple[str, Directory]:
        """The text of the rulebook to judge by now, and the people."""
        return self._source.text, self._people.current()

    async def look(self) -> int:
        """Take over a new version of the file, or refuse it; a duty. Return 0: there is never more to do at once."""
        if not self._recorded:
            await self._record(self._source, self._rulebook)
            self._recorded = True
        found = await asyncio.to_thread(self._new_version, self._people.current().digest)
        if found is not None:
            await self._take_over(*found)
        await self._look_for_people(self._people.current())
        return 0

    async def _look_for_people(self, people: Directory) -> None:
        """Keep a change of people, and tell whom the rulebook asks in vain by now."""
        both = (self._source.digest, people.digest)
        if both == self._looked_for:
            return
        # A rulebook that is refused may have the people that it had before: that is no change of theirs.
        kept = self._known is not None and people == replace(self._known, digest=people.digest)
        changed = not (kept and people.digest == self._refused[0])
        of_rulebook = people.digest == self._source.digest
        # Where those of a refused version were recorded, that the rulebook's own are back is news as well.
        news = self._own_people not in {"", people.digest} if of_rulebook else people.digest != self._looked_for[1]
        if changed and people.digest and news:
            self._own_people = "" if of_rulebook else people.digest
            async with self._units.begin() as work:
                text = outline(people)
                await rulebooks.add_activation(work, digest=people.digest, source=text, by=BY_FILE, kind="directory")
        missing = await asyncio.to_thread(self._missing, people)
        PEOPLE_MISSING.set(len(missing))
        for problem in missing:
            log.warning("rulebook.people_missing", problem=str(problem))
        self._looked_for, self._known = both, people

    def _missing(self, people: Directory) -> list[Problem]:
        source = parse_yaml(str(self._path), self._source.text.encode())
        rulebook_from(source, people, lenient=True)
        return sorted(source.about_people)

    def _new_version(self, people: str) -> tuple[YamlSource, Rulebook] | None:
        """Return the file where it is right, and neither the active version nor the one that was refused last."""
        try:
            content = self._path.read_bytes()
        except OSError as error:
            self._refuse((f"unreadable: {error.strerror}", people), f"cannot be read: {error.strerror}")
            return None
        version = (sha256(content).hexdigest(), people)
        if version[0] == self._source.digest or version == self._refused:
            return None
        try:
            source = parse_yaml(str(self._path), content)
            return source, rulebook_from(source)
        except RulebookInvalid as error:
            self._refuse(version, str(error.problems[0]))
            return None

    def _refuse(self, version: tuple[str, str], problem: str) -> None:
        """Tell once of a version that is not used."""
        if version != self._refused:
            self._refused = version
            REJECTIONS.inc()
            log.warning("rulebook.rejected", file=str(self._path), problem=problem)

    async def _take_over(self, source: YamlSource, rulebook: Rulebook) -> None:
        await self._record(source, rulebook)
        self._source, self._rulebook, self._refused = source, rulebook, ("", "")
        ACTIVATIONS.inc()
        INFO.info({"digest": rulebook.digest})
        log.info("rulebook.activated", file=str(self._path), digest=rulebook.digest)

    async def _record(self, source: YamlSource, rulebook: Rulebook) -> None:
        """Keep that a version takes over; grants for tools that it changes are void from then on, and for good."""
        tools = {name: grants.entry_digest(spec) for name, spec in rulebook.tools.items()}
        async with self._units.begin() as work:
            await rulebooks.add_activation(work, digest=source.digest, source=source.text, by=BY_FILE)
            for each in await grant_store.void_changed(work, tools):
                detail = {"reason": each.reason, "rulebook_digest": source.digest}
                where = (each.tenant, each.grant_id)
                work.record(records.of_grant(where, GrantEvent.VOID, each.before, BY_FILE, None, detail))

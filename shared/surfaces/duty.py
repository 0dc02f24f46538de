"""Who is on duty, and when groups work, in words. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from placet.domain.approvers import group_in, identity_of
from placet.domain.directory import Directory
from placet.domain.duty import WhyAll
from placet.surfaces.card import names_in
from placet.surfaces.texts import moment, text, weekdays


def duty_words(locale: str, group: str, people: Iterable[str], until: str, why_all: WhyAll) -> str:
    """Return who of a group is on duty until when, by their names, or why the whole group is asked."""
    if why_all == "unreadable":
        return text(locale, "unknown: the calendar of {group} cannot be read, so the whole group is asked", group=group)
    if why_all:
        return text(locale, "nobody in {group}, so the whole group is asked", group=group)
    return text(locale, "{people} until {moment} ({group})", people=", ".join(people), moment=until, group=group)


def duty_now(directory: Directory, group: str, locale: str, at: datetime) -> str:
    """Return who of a group is on duty at a moment, times in the zone of its plan; empty where it has no plan."""
    duty = directory.duty.get(group)
    if duty is None or duty.plan is None:
        return ""
    found, name_of = directory.on_duty(group, at), names_in(directory)
    names = [name_of(identity_of(each)) for each in sorted(found.people)]
    until = moment(locale, found.until, duty.plan.zone) if found.until else ""
    return duty_words(locale, group, names, until, found.why_all)


@dataclass(frozen=True, slots=True)
class DutyNow:
    """Who is on duty at a moment, for the cards of one page: each group is worked out once."""

    directory: Directory
    locale: str
    at: datetime
    _known: dict[str, str] = field(default_factory=dict)

    def of(self, approvers: Iterable[str]) -> tuple[str, ...]:
        """Return who is on duty of each group that approvers name and that has an on-call plan."""
        groups = dict.fromkeys(group_in(each) for each in approvers)
        return tuple(self._words(name) for name in groups if self.directory.has_plan(name))

    def _words(self, group: str) -> str:
        if group not in self._known:
            self._known[group] = duty_now(self.directory, group, self.locale, self.at)
        return self._known[group]


def hours_words(directory: Directory, group: str, locale: str) -> str:
    """Return when a group works: `Mon, Tue 09:00-17:00 Europe/Berlin`; empty where it always does."""
    duty = directory.duty.get(group)
    if duty is None or duty.hours is None:
        return ""
    hours = duty.hours
    return f"{weekdays(locale, hours.days)} {hours.begin:%H:%M}-{hours.end:%H:%M} {hours.zone}"

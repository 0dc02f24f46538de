"""Who is on duty, and when groups work, in words. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from placet.domain.approvers import group_in, identity_of
from placet.domain.directory import Directory
from placet.domain.duty import OnDuty, WhyAll
from placet.surfaces.card import names_in
from placet.surfaces.texts import moment, text, weekdays


def duty_words(locale: str, group: str, people: Iterable[str], until: str, why_all: WhyAll) -> str:
    """Return who of a group is on duty until when, by their names, or why the whole group is asked."""
    if why_all == "unreadable":
        return text(locale, "unknown: the calendar of {group} cannot be read, so the whole group is asked", group=group)
    if why_all == "excluded":
        return text(locale, "nobody in {group} who may decide this, so the whole group is asked", group=group)
    if why_all:
        return text(locale, "nobody in {group}, so the whole group is asked", group=group)
    return text(locale, "{people} until {moment} ({group})", people=", ".join(people), moment=until, group=group)


def duty_now(directory: Directory, group: str, locale: str, at: datetime) -> str:
    """Return who of a group is on duty at a moment, times in the zone of its plan; empty where it has no plan."""
    duty = directory.duty.get(group)
    if duty is None or duty.plan is None:
        return ""
    return _told(directory, directory.on_duty(group, at), duty.plan.zone, locale)


def _told(directory: Directory, found: OnDuty, zone: str, locale: str) -> str:
    name_of = names_in(directory)
    names = [name_of(identity_of(each)) for each in sorted(found.people)]
    until = moment(locale, found.until, zone) if found.until else ""
    return duty_words(locale, found.group, names, until, found.why_all)


@dataclass(frozen=True, slots=True)
class DutyNow:
    """Who is on duty at a moment, for the cards of one page: each group is worked out once."""

    directory: Directory
    locale: str
    at: datetime
    _known: dict[str, OnDuty] = field(default_factory=dict)

    def of(self, approvers: Iterable[str], excluded: Collection[str] = ()) -> tuple[str, ...]:
        """Return who is on duty of each group that approvers name and that has an on-call plan.

        `excluded`: ids of whom four eyes exclude from the call.
        """
        groups = dict.fromkeys(group_in(each) for each in approvers)
        return tuple(filter(None, (self._words(name, excluded) for name in groups)))

    def _words(self, group: str, excluded: Collection[str]) -> str:
        duty = self.directory.duty.get(group)
        if duty is None or duty.plan is None:
            return ""
        if group not in self._known:
            self._known[group] = self.directory.on_duty(group, self.at)
        return _told(self.directory, self._known[group].without(excluded), duty.plan.zone, self.locale)


def hours_words(directory: Directory, group: str, locale: str) -> str:
    """Return when a group works: `Mon, Tue 09:00-17:00 Europe/Berlin`; empty where it always does."""
    duty = directory.duty.get(group)
    if duty is None or duty.hours is None:
        return ""
    hours = duty.hours
    return f"{weekdays(locale, hours.days)} {hours.begin:%H:%M}-{hours.end:%H:%M} {hours.zone}"

"""People and groups: who is who, on every channel. Read from the rulebook or from a file of its own.

A directory is a value: whoever judges by it is given one, and gets another when the file has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from placet.contracts.visitors import ANSWERED
from placet.domain.approvers import OPERATORS, name_of, person_id, read_approver
from placet.domain.duty import GroupDuty, OnDuty, on_duty


@dataclass(frozen=True, slots=True)
class SlackUser:
    """A person in Slack. A user id alone says nothing: it is unique inside its team only."""

    team: str
    user: str


@dataclass(frozen=True, slots=True)
class Person:
    """One person that the house knows."""

    #: Stable id, without the prefix: `ada` for `person:ada`.
    id: str
    name: str = ""
    emails: tuple[str, ...] = ()
    slack: tuple[SlackUser, ...] = ()
    #: Free facts for conditions, for example `{"department": "finance"}`.
    attributes: Mapping[str, str] = field(default_factory=dict)
    #: False: they may decide nothing any more, and votes they gave count no more.
    active: bool = True
    #: Language in which they are written to, such as `de`; empty: the installation's.
    language: str = ""
    #: When they are left in peace, such as `22:00-07:00 Europe/Berlin`; empty: as their tenant is.
    quiet_hours: str = ""
    #: Where they read the time, such as `Europe/Berlin`; empty: where their quiet hours are meant.
    time_zone: str = ""
    #: Who they are at the sign-in service (OpenID Connect `sub`).
    subjects: tuple[str, ...] = ()

    @property
    def zone(self) -> str:
        """The time zone in which they are told when something ends."""
        return self.time_zone or self.quiet_hours.partition(" ")[2] or "UTC"

    def users_in(self, team: str) -> tuple[str, ...]:
        """Return who they are in a Slack team: the ids of its users that are theirs."""
        return tuple(each.user for each in self.slack if each.team == team)


@dataclass(frozen=True, slots=True)
class Directory:
    """Everybody, and who belongs together."""

    #: SHA-256 of what it was read from; pinned where somebody is judged by it.
    digest: str = ""
    people: Mapping[str, Person] = field(default_factory=dict)
    #: Group -> ids of its people.
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Agent -> ids of the people who own it, for four eyes.
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: API keys that work no more, of those that were looked up: they prove nobody.
    revoked_keys: frozenset[str] = frozenset()
    #: Group -> its working hours and who of it is on duty when; only groups that say so. Nobody is judged by it.
    duty: Mapping[str, GroupDuty] = field(default_factory=dict)

    def without(self, keys: frozenset[str]) -> Directory:
        """Return this directory, in which `keys` prove nobody either."""
        return replace(self, revoked_keys=self.revoked_keys | keys) if keys else self

    def person(self, identity: str) -> Person | None:
        """Return the person behind `person:<id>`; None for anybody the directory does not list."""
        name = person_id(identity)
        return None if name is None else self.people.get(name)

    def person_in_slack(self, team: str, user: str) -> Person | None:
        """Return whom the directory lists with this Slack account; None where nobody has it."""
        account = SlackUser(team, user)
        return next((person for person in self.people.values() if account in person.slack), None)

    def is_operator(self, identity: str) -> bool:
        """Tell whether somebody who shows no API key is an operator: the group of that name says who is."""
        person = self.person(identity)
        return person is not None and self.is_member(person.id, OPERATORS)

    def is_member(self, name: str, group: str) -> bool:
        """Tell whether somebody is in a group and may act. Costs the same however many they are."""
        return name in self.groups.get(group, frozenset()) and self.is_active(name)

    def members(self, group: str) -> frozenset[str]:
        """Return the ids of a group's active people; an unknown group has none."""
        return frozenset(name for name in self.groups.get(group, frozenset()) if self.is_active(name))

    def on_duty(self, group: str, at: datetime) -> OnDuty:
        """Return who of a group is told first at a moment: the whole group where nobody in particular is on duty."""
        listed = [self.people.get(name) or Person(name) for name in self.members(group)]
        return on_duty(group, self.duty.get(group, GroupDuty()), listed, at)

    def excluded(self, exclude: Collection[str], requester: str, agent: str, opened_by: str = "") -> frozenset[str]:
        """Return the ids of whom a rule's four eyes exclude from deciding about a call; `requester` is an identity.

        `opened_by`: who may have asked beside them, as `Voter` has it.
        """
        askers = (requester, *opened_by.split()) if "requester" in exclude else ()
        asked = frozenset(name for each in askers if (name := person_id(each.removeprefix(ANSWERED))) is not None)
        return asked | self.owners.get(agent, frozenset()) if "agent_owner" in exclude else asked

    def has_plan(self, group: str) -> bool:
        """Tell whether a group says who of it is on duty when."""
        return group in self.duty and self.duty[group].plan is not None

    def behind(self, text: str) -> frozenset[str]:
        """Return the ids of the people whom an approver names, whoever asks: none for `requester`.

        A person need not be listed, nor active. `operators` has those of the group of that name, which are not all.
        """
        named = read_approver(text)
        match named.kind:
            case "person":
                return frozenset({named.name})
            case "group":
                return self.members(named.name)
            case "operators":
                return self.members(OPERATORS)
            case _:
                return frozenset()

    def groups_of(self, identity: str) -> tuple[str, ...]:
        """Return the names of the groups in which somebody may act, sorted; none for anybody it does not list."""
        person = self.person(identity)
        if person is None:
            return ()
        return tuple(sorted(name for name in self.groups if self.is_member(person.id, name)))

    def is_active(self, name: str) -> bool:
        """Tell whether a listed person may act; somebody not listed is judged by their key alone."""
        person = self.people.get(name)
        return person is None or person.active

    def has_lost(
        self, people: Iterable[str], panels: Mapping[str, Sequence[Sequence[str]]], listed: Iterable[str]
    ) -> bool:
        """Tell whether one of these people may decide nothing any more, or is in no group of one of their panels.

        Whoever is not listed is judged by their key alone; those of `listed` have shown none.
        """
        if any(self.person(person) is None for person in listed):
            return True
        return any(not self.is_active(name_of(person)) for person in {*people, *panels}) or any(
            not any(self.is_member(name_of(person), group) for group in groups)
            for person, each in panels.items()
            for groups in each
        )

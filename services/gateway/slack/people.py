"""Who somebody in Slack is to Placet: what the directory says of their team and user id, and nothing else. Pure.

Names, e-mail addresses and roles in Slack say nothing: people change them. Whom the directory does not list is nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placet.contracts.errors import Refused
from placet.domain.approvers import identity_of
from placet.domain.directory import Directory, Person
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.slack.interactions import Sender
from placet.surfaces.slack import Slack, Subject
from placet.surfaces.texts import language_of


@dataclass(frozen=True)
class Hearing:
    """How somebody in Slack is spoken to: in which language, and by which names others are called."""

    locale: str
    people: Mapping[str, Person]


def hearing_of(sender: Sender, directory: Directory, default: str) -> Hearing:
    """Return how to speak to somebody in Slack: in the language that the directory says, else in the default one."""
    person = directory.person_in_slack(sender.home, sender.user)
    return Hearing(language_of(person.language if person else "", default), directory.people)


def caller_of(sender: Sender, subject: Subject, slack: Slack, directory: Directory) -> Caller:
    """Return the person who acts, in the tenant of what they act on; raise Refused where they are nobody there."""
    person = directory.person_in_slack(sender.home, sender.user)
    if person is None:
        title = "Your Slack account is not in Placet's directory. Ask the person who maintains it to add you."
        raise Refused(title, status=403, kind="not-an-approver")
    if not person.active:
        raise Refused("You can no longer decide here.", status=403, kind="not-an-approver")
    team = slack.by_team.get(sender.team)
    if team is None or subject.tenant not in team.tenants:
        raise Refused("There is no such approval.", status=404, kind="not-found")
    identity = identity_of(person.id)
    operator = directory.is_operator(identity)
    return Caller(subject.tenant, identity, "slack", frozenset({Scope.DECIDE}), operator=operator)

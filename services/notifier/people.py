"""Which people an approval asks, who of them first, and when. Pure; time is an argument.

Of a group those on duty are told first. All of it is told where they could not decide: nobody is on duty, they are too
few for the rule, the rule's condition may not be about them, they may have asked for the call or have no address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from placet.contracts.messages import ApprovalRule
from placet.contracts.messages.approvals import Panel
from placet.domain.approvers import REQUESTER, group_in, identity_of, is_person
from placet.domain.directory import Directory, Person
from placet.domain.duty import opens_at


@dataclass(frozen=True, slots=True)
class Case:
    """What decides who is told of an approval."""

    directory: Directory
    requester: str
    at: datetime
    agent: str = ""
    #: Whether working hours count: what escalates waits for none.
    waits: bool = False
    #: From then on they hold nothing up; None: it has no deadline.
    latest: datetime | None = None
    #: Whom four eyes exclude: `requester`, `agent_owner`.
    excludes: Sequence[str] = ()
    #: Who may have asked beside the requester.
    opened_by: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A person whom an approval asks."""

    person: Person
    #: When they are told: now, or when the working hours of their group begin.
    at: datetime


def first_people(rule: ApprovalRule, case: Case) -> list[Asked]:
    """Return who is told as soon as an approval opens: those on duty, as far as they are enough; and who may veto."""
    case = replace(case, excludes=rule.exclude)
    found = [*_panel(Panel(approvers=rule.approvers, approvals=rule.approvals), rule.condition, case)]
    found += (each for panel in rule.alternatives for each in _panel(panel, rule.condition, case))
    for demand in rule.also:
        condition = rule.condition or demand.condition
        found += (each for panel in demand.panels for each in _panel(panel, condition, case))
    return _once([*found, *_asked(rule.veto, case)])


def everybody(rule: ApprovalRule, case: Case) -> list[Asked]:
    """Return all whom an approval may ask when it opens, on duty or not."""
    return _once(_asked([*named_by(rule), *rule.veto], replace(case, excludes=rule.exclude)))


def named_by(rule: ApprovalRule) -> list[str]:
    """Return the approvers of every panel of a rule."""
    others = [*rule.alternatives, *(panel for demand in rule.also for panel in demand.panels)]
    return [*rule.approvers, *(name for panel in others for name in panel.approvers)]


def all_of(approvers: Iterable[str], case: Case) -> list[Asked]:
    """Return the active people whom approvers name and who may decide, once each.

    `operators` are who has a key that may decide, so only a group of that name tells who they are.
    """
    return _once(_asked(approvers, case))


def on_duty_of(approvers: Sequence[str], case: Case) -> list[Asked]:
    """Return who of the people whom an escalation names is on duty; all of them where that is the requester alone."""
    found = _once(_asked(approvers, case, duty=True))
    if all(identity_of(each.person.id) == case.requester or not each.person.emails for each in found):
        return all_of(approvers, case)
    return found


def _panel(panel: Panel, condition: str, case: Case) -> list[Asked]:
    found = _once(_asked(panel.approvers, case, duty=True))
    able = [each for each in found if each.person.emails]
    return all_of(panel.approvers, case) if condition or len(able) < panel.approvals else found


def _is_excluded(person: Person, case: Case) -> bool:
    return person.id in case.directory.excluded(case.excludes, case.requester, case.agent, case.opened_by)


def _asked(approvers: Iterable[str], case: Case, *, duty: bool = False) -> Iterator[Asked]:
    for approver in approvers:
        if approver == REQUESTER and not is_person(case.requester):
            continue
        at, names = case.at, case.directory.behind(case.requester if approver == REQUESTER else approver)
        if group := group_in(approver):
            at = opens_at(case.directory.duty.get(group), at, case.latest) if case.waits else at
            names = case.directory.on_duty(group, at).people if duty and case.directory.has_plan(group) else names
        known = (case.directory.people.get(each) for each in sorted(names))
        able = (each for each in known if each is not None and each.active and not _is_excluded(each, case))
        yield from (Asked(person, at) for person in able)


def _once(asked: Iterable[Asked]) -> list[Asked]:
    """Return each person once, as early as any way to ask them is."""
    found: dict[str, Asked] = {}
    for each in asked:
        before = found.get(each.person.id)
        if before is None or each.at < before.at:
            found[each.person.id] = each
    return list(found.values())

"""Whom an approval asks first: those on duty, and everybody where they could not decide; and when they are told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any

import pytest

from placet.contracts.messages import ApprovalRule
from placet.domain.catalog import Catalog
from placet.domain.directory import Directory, Person
from placet.domain.duty import CalendarFile, GroupDuty, Hours, Rotation
from placet.notifier.announcing import Announcer
from placet.notifier.cards import DutyShown, VoteShown
from placet.notifier.people import Case
from placet.notifier.rules import Delivery, first_addresses, later_places
from placet.notifier.states import State
from tests.builders import NOON, a_call, an_approval_rule
from tests.support.cards import opened, progressed

#: A night shift that begins when Ada's turn does.
STARTS = NOON.replace(tzinfo=None) - timedelta(hours=1)
PEOPLE = {name: Person(name, name.title(), emails=(f"{name}@example.org",)) for name in ("ada", "ben", "cem", "lea")}
GROUPS = {"ops": frozenset({"ada", "ben", "cem"}), "leads": frozenset({"lea", "ben"}), "staff": frozenset({"cem"})}
TURNS = GroupDuty(plan=Rotation(("ada", "ben"), STARTS, 1))
#: They work from an hour after noon.
AFTERNOON = Hours(time(NOON.hour + 1), time(NOON.hour + 5), frozenset(range(7)))
OPENS = NOON + timedelta(hours=1)
DIRECTORY = Directory(people=PEOPLE, groups=GROUPS, duty={"ops": TURNS})


def a_rule(**changes: Any) -> ApprovalRule:
    """Return a rule that mails a group of three."""
    fields: dict[str, Any] = {"channels": ["email"], "approvers": ["group:ops"], "expires_after_seconds": 86_400}
    return an_approval_rule(**(fields | changes))


def first(rule: ApprovalRule, directory: Directory = DIRECTORY, requester: str = "v", **case: Any) -> list[str]:
    """Return the people who are told first of an approval that opens at noon."""
    return [each.address.person for each in first_addresses(rule, Case(directory, requester, NOON, **case))]


def with_duty(**duty: GroupDuty) -> Directory:
    """Return the directory in which groups are on duty so."""
    return replace(DIRECTORY, duty=duty)


def deliveries_of(directory: Directory, at: datetime = NOON, **changes: Any) -> list[Delivery]:
    """Return what an approval of a day makes due, and what it lets sleep."""
    news = opened(approval=a_rule(**changes), expires_at=NOON + timedelta(days=1))
    return list(Announcer(lambda: directory, Catalog([]), "", "en").open(news, at))


def awake(deliveries: list[Delivery]) -> set[str]:
    """Return the people who are told."""
    return {each.address.person for each in deliveries if each.state is State.DUE}


def test_who_is_on_duty_is_told_first_and_the_group_later() -> None:
    """The others' cards sleep, and wake where nobody else can be told."""
    rule = a_rule(escalations=[{"after_seconds": 60, "approvers": ["group:leads"]}])
    later = later_places(rule, Case(DIRECTORY, "v", NOON))
    assert (["ada"], ["ben", "cem", "lea"]) == (first(rule), [each.address.person for each in later])
    assert [0, 0, 60] == [(each.at - NOON).total_seconds() for each in later]


@pytest.mark.parametrize(
    ("changes", "case"),
    [
        ({"approvals": 2}, {}),
        ({"condition": "person.id != 'person:ada'"}, {}),
        ({"exclude": ["requester"]}, {"requester": "person:ada"}),
        ({"exclude": ["requester"]}, {"opened_by": "person:lea ~person:ada"}),
        (
            {"exclude": ["agent_owner"]},
            {"agent": "shop", "directory": replace(DIRECTORY, owners={"shop": frozenset({"ada"})})},
        ),
        ({}, {"directory": with_duty(ops=GroupDuty(plan=CalendarFile("gone.ics")))}),
        ({}, {"directory": replace(DIRECTORY, people=PEOPLE | {"ada": Person("ada")})}),
        ({"veto": ["group:ops"]}, {}),
        ({"approvers": ["group:ops", "group:staff", "person:ben"]}, {}),
    ],
)
def test_everybody_is_told_where_who_is_on_duty_may_not_be_enough(
    changes: dict[str, Any], case: dict[str, Any]
) -> None:
    """Too few, perhaps not allowed, without an address, or unknown: more are asked, not fewer; and who may veto."""
    told = set(first(a_rule(**changes), **case))
    assert {"ben", "cem"} <= told


def test_enough_people_on_duty_are_enough_for_two_votes() -> None:
    """Two groups with one on duty in each are two people."""
    directory = with_duty(ops=TURNS, leads=GroupDuty(plan=Rotation(("lea", "ben"), STARTS, 1)))
    assert ["ada", "lea"] == first(a_rule(approvers=["group:ops", "group:leads"], approvals=2), directory)


def test_a_notice_waits_for_working_hours_and_asks_who_is_on_duty_then() -> None:
    """Who is asked by name, or through a group that works now, is told at once; programs and places are, too."""
    hours = GroupDuty(AFTERNOON, Rotation(("ada", "ben"), OPENS.replace(tzinfo=None) - timedelta(days=1), 1))
    directory = with_duty(ops=hours)
    rule = a_rule(approvers=["group:ops", "person:lea"], channels=["email", "slack:#ops"])
    places = first_addresses(rule, Case(directory, "v", NOON, waits=True, latest=NOON + timedelta(days=1)))
    assert [("ben", OPENS), ("lea", NOON), ("", NOON)] == [(each.address.person, each.at) for each in places]


def test_a_notice_that_would_come_too_late_is_sent_at_once() -> None:
    """What expires before the morning is told in the night."""
    case = Case(with_duty(ops=GroupDuty(AFTERNOON)), "v", NOON, waits=True, latest=OPENS)
    assert {NOON} == {each.at for each in first_addresses(a_rule(), case)}


def test_a_waiting_delivery_says_why_and_news_do_not_hurry_it() -> None:
    """A vote or a reminder in the night changes its card and not its time; an escalation does."""
    directory = with_duty(ops=GroupDuty(AFTERNOON))
    news = opened(approval=a_rule(), expires_at=NOON + timedelta(days=1))
    announcer = Announcer(lambda: directory, Catalog([]), "", "en")
    waiting = list(announcer.open(news, NOON))
    soon = NOON + timedelta(minutes=1)
    voted = [each.after for each in announcer.progress(progressed(news, 2), waiting, soon)]
    asking = {"kind": "escalated", "approvers": ["group:ops"]}
    asked = [each.after for each in announcer.progress(progressed(news, 3, **asking), voted, soon)]

    assert {(OPENS, "working hours begin at " + OPENS.isoformat(timespec="minutes"))} == {
        (each.due_at, each.error) for each in [*waiting, *voted]
    }
    assert {(soon, True)} == {(each.due_at, each.urgent) for each in asked}


def test_an_escalation_tells_who_is_on_duty_then() -> None:
    """Of the group that it names; the rest of it sleeps on."""
    directory = with_duty(leads=GroupDuty(plan=Rotation(("lea", "ben"), STARTS, 1)))
    changes = {"approvers": ["group:staff"], "escalations": [{"after_seconds": 60, "approvers": ["group:leads"]}]}
    news = opened(approval=a_rule(**changes), expires_at=NOON + timedelta(days=3))
    announcer = Announcer(lambda: directory, Catalog([]), "", "en")
    before = list(announcer.open(news, NOON))
    step = progressed(news, 2, kind="escalated", approvers=["group:leads"], person="")
    today, tomorrow = (
        [each.after for each in announcer.progress(step, before, at)] for at in (NOON, NOON + timedelta(days=1))
    )
    assert ({"cem"}, {"cem", "lea"}, {"cem", "ben"}) == (awake(before), awake(today), awake(tomorrow))


@pytest.mark.parametrize("exclude", ["requester", "agent_owner"])
def test_nobody_is_asked_who_is_excluded(exclude: str) -> None:
    """Neither at first, nor later, nor by an escalation: four eyes let them decide nothing."""
    directory = Directory(people=PEOPLE, groups=GROUPS, owners={"shop": frozenset({"lea"})})
    changes: dict[str, Any] = {"approvers": ["group:staff", "person:lea"], "exclude": [exclude]}
    changes["escalations"] = [{"after_seconds": 60, "approvers": ["group:leads"]}]
    call = a_call(requester="person:lea", agent="shop")
    news = opened(approval=a_rule(**changes), expires_at=NOON + timedelta(days=3), call=call)
    announcer = Announcer(lambda: directory, Catalog([]), "", "en")
    before = list(announcer.open(news, NOON))
    step = progressed(news, 2, kind="escalated", approvers=["group:leads"], person="")
    joined = list(announcer.join(step, before, NOON))
    told = [each.after for each in announcer.progress(step, before, NOON)]
    assert ({"cem"}, {"cem", "ben"}, []) == (awake(before), awake(told), joined)


def test_an_escalation_calls_nobody_who_has_voted() -> None:
    """Who has said yes waits for the others as everybody does."""
    news = opened(approval=a_rule(approvals=2, channels=["slack:#ops"]), expires_at=NOON + timedelta(days=3))
    announcer = Announcer(lambda: DIRECTORY, Catalog([]), "", "en")
    (shown,) = announcer.open(news, NOON)
    shown = replace(shown, card=replace(shown.card, votes=[VoteShown("person:ben")]))
    step = progressed(news, 2, kind="escalated", approvers=["person:ben", "person:lea"], person="")
    (told,) = announcer.progress(step, [shown], NOON)
    assert ["person:lea"] == told.after.card.asks


def test_an_escalation_to_those_who_were_told_already_asks_the_others() -> None:
    """Who is on duty has the card and has not decided."""
    news = opened(approval=a_rule(), expires_at=NOON + timedelta(days=1))
    announcer = Announcer(lambda: DIRECTORY, Catalog([]), "", "en")
    shown = [
        replace(each, sent_version=1, state=State.SENT) if each.state is State.DUE else each
        for each in announcer.open(news, NOON)
    ]
    step = progressed(news, 2, kind="escalated", approvers=["group:ops"], person="")
    assert {"ada", "ben", "cem"} == awake([each.after for each in announcer.progress(step, shown, NOON)])


def test_a_reminder_also_reaches_who_has_come_on_duty_since() -> None:
    """The turn changed while it waited."""
    before = deliveries_of(DIRECTORY)
    news = progressed(opened(), 2, kind="reminded", person="")
    announcer = Announcer(lambda: DIRECTORY, Catalog([]), "", "en")
    after = [each.after for each in announcer.progress(news, before, NOON + timedelta(hours=23))]
    assert ({"ada"}, {"ada", "ben"}) == (awake(before), awake(after))


def test_a_card_says_who_is_on_duty_until_when() -> None:
    """Of each group with a plan that the rule asks; where nobody is on duty, why all of them are asked."""
    until = NOON + timedelta(hours=23)
    card = deliveries_of(DIRECTORY, approvers=["group:ops", "group:staff"])[0].card
    assert [DutyShown("ops", ["person:ada"], until)] == card.on_duty
    assert ["Ada until soon (ops)"] == card.duty_lines(lambda _: "soon")
    lost = deliveries_of(with_duty(ops=GroupDuty(plan=CalendarFile("gone.ics"))))[0].card
    assert ["unknown: the calendar of ops cannot be read, so the whole group is asked"] == lost.duty_lines(str)


def test_a_card_names_nobody_as_on_duty_who_may_not_decide_it() -> None:
    """Where the one on duty asked for the call it says that all are asked, also when it escalates."""
    news = opened(
        approval=a_rule(exclude=["requester"]), expires_at=NOON + timedelta(days=1), call=a_call(requester="person:ada")
    )
    announcer = Announcer(lambda: DIRECTORY, Catalog([]), "", "en")
    before = list(announcer.open(news, NOON))
    step = progressed(news, 2, kind="escalated", approvers=["group:ops"], person="")
    after = [each.after for each in announcer.progress(step, before, NOON)]
    told = ["nobody in ops who may decide this, so the whole group is asked"]
    assert [told] * 4 == [each.card.duty_lines(str) for each in (*before, *after)]
    assert {"ben", "cem"} == awake(before)


def test_a_group_without_a_plan_is_told_as_ever() -> None:
    """Nothing about duty is on its cards."""
    found = deliveries_of(with_duty())
    assert ({"ada", "ben", "cem"}, 3, []) == (awake(found), len(found), found[0].card.on_duty)

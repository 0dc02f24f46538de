"""Whom the notifier tells, and how often it tries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from placet.contracts.messages import ApprovalRule
from placet.domain.directory import Directory, Person
from placet.notifier.cards import Address
from placet.notifier.people import Case, all_of
from placet.notifier.rules import (
    ASKED_TRIES_MAX,
    RETRY_SECONDS,
    Place,
    delivery_id,
    escalation_places,
    first_addresses,
    later_places,
    retry_after,
)
from tests.builders import NOON, an_approval_rule

ADA = Person("ada", "Ada", emails=("ada@example.org", "ada@example.com"))
BEN = Person("ben", emails=("ben@example.org",))
EVE = Person("eve", emails=("eve@example.org",), active=False)
NOMAIL = Person("noor")
DIRECTORY = Directory(
    people={person.id: person for person in (ADA, BEN, EVE, NOMAIL)},
    groups={"finance": frozenset({"ada", "eve", "noor"}), "legal": frozenset({"ben"})},
)


def a_rule(*channels: str, later: list[list[str]] | None = None, **changes: Any) -> ApprovalRule:
    """Return a rule that tells `channels` first, and each list of `later` by an escalation."""
    steps = [{"after_seconds": 60, "approvers": ["group:legal"], "channels": each} for each in later or []]
    return an_approval_rule(channels=list(channels), escalations=steps, **changes)


def first(rule: ApprovalRule, directory: Directory = DIRECTORY) -> list[Address]:
    """Return whom an approval of Ada's call tells first."""
    return [place.address for place in first_addresses(rule, Case(directory, "person:ada", NOON))]


def test_a_rule_without_channels_tells_the_log() -> None:
    """Nobody is left untold because a rule names no channel."""
    assert [Address("log")] == first(a_rule())


def later(rule: ApprovalRule) -> dict[Address, float]:
    """Return whom an approval may tell later, each with the seconds until it may."""
    return {each.address: (each.at - NOON).total_seconds() for each in later_places(rule, Case(DIRECTORY, "v", NOON))}


def test_an_escalation_adds_the_places_that_were_not_told() -> None:
    """Once each, however many escalations name them; the log stands for a rule without channels here too."""
    rule = a_rule("slack", later=[["slack", "pager"], ["pager", "slack:#boss"]])
    assert [Address("pager"), Address("slack:#boss", "#boss")] == list(later(rule))
    assert [Address("pager")] == list(later(a_rule(later=[["log", "pager"]])))


@pytest.mark.parametrize(
    ("approvers", "pager", "mails"),
    [
        (["group:legal"], 60, {"ben": 60}),
        (["group:finance"], 0, {"ada": 0}),
        (["person:ada", "group:legal"], 0, {"ada": 0, "ben": 60}),
        (["group:nobody"], 60, {"": 60}),
    ],
)
def test_who_may_decide_by_an_escalation_alone_is_told_by_it(
    approvers: list[str], pager: float, mails: dict[str, float]
) -> None:
    """Whoever may decide anyway can be told ahead of it, and so can a place where one of them is asked."""
    step = {"after_seconds": 60, "approvers": approvers, "channels": ["pager", "email"]}
    told = later(an_approval_rule(channels=["slack"], approvers=["group:finance"], escalations=[step]))
    by_mail = {each.person: seconds for each, seconds in told.items() if each.channel == "email"}
    assert (pager, mails) == (told[Address("pager")], by_mail)


def test_a_channel_named_twice_gets_one_card() -> None:
    """Channels are told once each, in the rule's order."""
    assert [Address("slack"), Address("log")] == first(a_rule("slack", "log", "slack"))


def test_mail_goes_to_each_person_who_may_decide() -> None:
    """Members of groups, named people and who may veto; the first address of each, once, nobody inactive."""
    rule = a_rule("email", approvers=["group:finance", "person:ada"], veto=["person:ben"])
    assert [Address("email", "ada@example.org", "ada"), Address("email", "ben@example.org", "ben")] == first(rule)


def test_mail_to_nobody_is_a_delivery_that_says_so() -> None:
    """Where nobody who may decide has an address, one delivery is there to fail and to be seen."""
    assert [Address("email")] == first(a_rule("email", approvers=["group:nobody", "person:noor", "person:eve"]))


def test_a_requester_with_an_entry_is_written_to_and_a_visitor_is_not() -> None:
    """A visitor's id is chosen by the chat frontend and names nobody in the directory."""
    rule = a_rule("email", approvers=["requester"])
    assert [Address("email", "ada@example.org", "ada")] == first(rule)
    assert [Address("email")] == [place.address for place in first_addresses(rule, Case(DIRECTORY, "ada", NOON))]


def test_an_escalation_writes_to_its_people_by_the_channels_used_so_far() -> None:
    """Whom an escalation names gets a mail where the rule mails, also where the step names no channel."""
    case = Case(DIRECTORY, "v", NOON)
    found = escalation_places([], ["slack:#ops", "email"], all_of(["group:legal"], case), case)
    assert [Place(Address("email", "ben@example.org", "ben"), NOON)] == found


def test_one_delivery_per_approval_and_address() -> None:
    """The id of a delivery follows from what it is for."""
    mail = [Address("email", f"{name}@example.org") for name in ("ada", "ben")]
    assert delivery_id("a", mail[0]) == delivery_id("a", Address("email", "ada@example.org", "ada"))
    assert 4 == len({delivery_id(approval, address) for approval in ("a", "b") for address in mail})


def test_tries_wait_longer_and_then_end() -> None:
    """A channel that keeps failing is given up."""
    assert [*RETRY_SECONDS, None] == [retry_after(attempt) for attempt in range(1, len(RETRY_SECONDS) + 2)]
    assert timedelta(hours=1) > timedelta(seconds=sum(RETRY_SECONDS))


def test_a_channel_that_says_when_is_tried_then() -> None:
    """A busy channel is no broken one: it is waited for as long as it asks, and more often, but not for ever."""
    asked = [retry_after(attempt, 0.5) for attempt in range(1, ASKED_TRIES_MAX + 1)]
    assert [*[0.5] * (ASKED_TRIES_MAX - 1), None] == asked

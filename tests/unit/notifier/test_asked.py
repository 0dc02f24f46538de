"""Whom a card calls by name: those it asks, in places that can do that, where they are few."""

from __future__ import annotations

from datetime import timedelta

import pytest

from placet.contracts.messages import ApprovalCommented, ApprovalOpened
from placet.domain.catalog import Catalog
from placet.domain.directory import Directory, Person
from placet.notifier.announcing import ASKED_MAX, Announcer
from placet.notifier.rules import Delivery
from tests.builders import NOON
from tests.support.cards import opened, progressed

MANY = [f"p{number}" for number in range(ASKED_MAX + 1)]
DIRECTORY = Directory(
    people={name: Person(name, emails=(f"{name}@example.org",)) for name in ("ada", "ben", *MANY)},
    groups={"few": frozenset({"ada", "ben"}), "many": frozenset(MANY)},
)
ANNOUNCER = Announcer(lambda: DIRECTORY, Catalog([]), "", "en", mail_window=timedelta(seconds=5))


def asking(approvers: list[str]) -> ApprovalOpened:
    """Return the news of a call about which people are asked in Slack and by mail."""
    news = opened("slack:#ops", "email", expires_at=NOON + timedelta(hours=1))
    return news.model_copy(update={"approval": news.approval.model_copy(update={"approvers": approvers})})


def deliveries(approvers: list[str]) -> list[Delivery]:
    """Return the deliveries of such a call, which came at noon."""
    return list(ANNOUNCER.open(asking(approvers), NOON))


@pytest.mark.parametrize(
    ("approvers", "asked"),
    [
        (["group:few"], ["person:ada", "person:ben"]),
        (["group:few", "person:ada", "person:zoe"], ["person:ada", "person:ben"]),
        (["group:many"], []),
        (["operators"], []),
    ],
)
def test_a_card_in_slack_calls_few_people_and_no_crowd(approvers: list[str], asked: list[str]) -> None:
    """Each person of the directory once; a mail calls nobody, for it is one person's."""
    made = deliveries(approvers)
    assert asked == made[0].card.asks
    assert all([] == each.card.asks for each in made if each.address.kind == "email")


def test_only_mails_wait_for_others() -> None:
    """A card in Slack is due when its news comes, a mail when its window is over."""
    waits = {each.address.kind: each.due_at - NOON for each in deliveries(["person:ada"])}
    assert {"slack": timedelta(0), "email": timedelta(seconds=5)} == waits


def test_an_escalation_calls_whom_it_asks_too() -> None:
    """And other news of a waiting approval leaves things as they were."""
    news = asking(["person:ada"])
    made = list(ANNOUNCER.open(news, NOON))[:1]
    steps = [
        progressed(news, 2, kind="escalated", approvers=["person:ben"]),
        progressed(news, 2, kind="voted"),
    ]
    asked = [[moved.after.card.asks for moved in ANNOUNCER.progress(step, made, NOON)] for step in steps]
    assert [[["person:ben"]], [["person:ada"]]] == asked


def test_a_comment_changes_cards_that_have_a_thread() -> None:
    """A mail has none; a comment that came already changes nothing, and another tenant's neither."""
    made = deliveries(["person:ada"])
    said = ApprovalCommented(tenant="acme", approval_id="a", comment_id="c", person="person:ben", text="Why?\u202e")
    moved = list(ANNOUNCER.comment(said, made, NOON))
    (card,) = [each.after.card for each in moved]
    assert (["slack"], [("c", "Why?[U+202E]")], "commented") == (
        [each.after.address.kind for each in moved],
        [(each.comment_id, each.words) for each in card.comments],
        card.happened,
    )
    assert [] == list(ANNOUNCER.comment(said, [each.after for each in moved], NOON))
    assert [] == list(ANNOUNCER.comment(said.model_copy(update={"tenant": "rival"}), made, NOON))

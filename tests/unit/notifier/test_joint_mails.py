"""Which calls share a mail, and how long the first one waits for others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.notifier import joint_mails, rules
from placet.notifier.cards import Address, VoteShown
from placet.notifier.joint_mails import CALLS_MAX
from placet.notifier.rules import Delivery
from placet.notifier.states import State
from tests.builders import NOON
from tests.support.cards import a_delivery

WINDOW = timedelta(seconds=5)
ADA = Address("email", "ada@example.org", "ada")
BEN = Address("email", "ben@example.org", "ben")
#: Two people, one mailbox.
TEAM = tuple(Address("email", "team@example.org", person) for person in ("ada", "ben"))


def asked(number: int = 1, address: Address = ADA) -> Delivery:
    """Return the delivery of one of several calls that somebody is about to be asked about."""
    return replace(a_delivery(), delivery_id=f"d{number:03}", approval_id=f"a{number:03}", address=address)


def ids(mails: list[list[Delivery]]) -> list[list[str]]:
    """Return which deliveries stand in which mail."""
    return [[each.delivery_id for each in mail] for mail in mails]


@given(st.floats(0, 600), st.floats(-60, 7200))
def test_a_mail_waits_for_its_window_and_never_past_half_of_the_time_left(window: float, left: float) -> None:
    """Whatever the window and the deadline; a deadline in the past leaves nothing to wait for."""
    span = timedelta(seconds=window)
    waits = joint_mails.waits(NOON, NOON + timedelta(seconds=left), span)
    assert timedelta(0) <= waits <= span
    assert waits <= max(timedelta(0), timedelta(seconds=left) / 2)
    assert span == joint_mails.waits(NOON, None, span)


def test_a_first_ask_is_due_when_its_window_is_over() -> None:
    """A minute before the deadline it waits for five seconds, four seconds before for two."""
    due = [replace(asked(), card=replace(asked().card, deadline=NOON + timedelta(seconds=each))) for each in (60, 4)]
    waits = [joint_mails.delayed(each, WINDOW).due_at - NOON for each in due]
    assert [timedelta(seconds=5), timedelta(seconds=2)] == waits


@pytest.mark.parametrize(
    "changed",
    [
        lambda each: replace(each, address=Address("slack:#ops", "#ops")),
        lambda each: replace(each, address=Address("email")),
        lambda each: replace(each, urgent=True),
        lambda each: replace(each, sent_version=1),
        lambda each: replace(each, card=replace(each.card, state="approved")),
        lambda each: replace(each, state=State.ASLEEP),
        lambda each: replace(each, card=replace(each.card, votes=[VoteShown("person:ada")])),
    ],
    ids=["no mail", "nobody", "urgent", "told already", "over", "asleep", "voted"],
)
def test_nothing_but_a_first_ask_by_mail_waits(changed: Callable[[Delivery], Delivery]) -> None:
    """Other channels, escalations, news and ends are as quick as ever."""
    delivery = changed(asked())
    assert delivery is joint_mails.delayed(delivery, WINDOW)


def test_a_window_of_nothing_delays_nothing() -> None:
    """Where it is turned off, a mail is due at once."""
    assert NOON == joint_mails.delayed(asked(), timedelta(0)).due_at


def test_calls_of_one_person_are_one_mail_and_those_of_others_are_not() -> None:
    """A mail is for one person at one address; one call alone has a mail without a list."""
    mails = joint_mails.mails_of([asked(1), asked(2, BEN), asked(3), *(asked(n, TEAM[n - 4]) for n in (4, 5))])
    assert [["d001", "d003"], ["d002"], ["d004"], ["d005"]] == ids(mails)
    assert [["d001-1-joint"] * 2, [""], [""], [""]] == [[each.joint for each in mail] for mail in mails]


def test_a_mail_lists_only_so_many_calls() -> None:
    """The rest is another mail, with an id of its own."""
    mails = joint_mails.mails_of([asked(number) for number in range(CALLS_MAX + 2)])
    assert [CALLS_MAX, 2] == [len(mail) for mail in mails]
    assert 2 == len({each.key for mail in mails for each in mail})


def test_a_mail_that_is_tried_again_has_the_same_calls_and_id() -> None:
    """New calls of the person have a mail of their own, and so has what was tried alone."""
    ((first, second),) = joint_mails.mails_of([asked(1), asked(2)])
    again = [replace(each, fence=1, attempt=1) for each in (first, second)]
    alone, new = replace(asked(3), fence=1), asked(4)
    mails = joint_mails.mails_of([again[0], alone, new, again[1]])
    assert [["d001", "d002"], ["d003"], ["d004"]] == ids(mails)
    assert ["d001-1-joint", "d003-1", "d004-1"] == [mail[0].key for mail in mails]


def test_what_waits_comes_along_with_what_is_due() -> None:
    """A first ask takes all first asks of its person along; a mail that was tried takes its own calls and no others."""
    ((first, second),) = joint_mails.mails_of([asked(1), asked(2)])
    tried = [replace(each, fence=1) for each in (first, second)]
    others = [asked(3), asked(4, BEN)]
    waiting = [*tried, *others]
    fresh = joint_mails.company([asked(5)], waiting)
    again = joint_mails.company([tried[0]], waiting)
    urgent = joint_mails.company([replace(asked(5), urgent=True)], waiting)
    assert [["d003"], ["d002"], []] == ids([fresh, again, urgent])


def test_a_call_that_changed_leaves_the_mail_it_shared() -> None:
    """Another card is another mail: who reads the first one was not told of it."""
    ((first, _),) = joint_mails.mails_of([asked(1), asked(2)])
    at = NOON + WINDOW
    changed = [
        rules.revised(first, replace(first.card, revision=2, digest="b" * 64), at),
        rules.hurried(first, at),
        rules.retried(replace(first, state=State.GIVEN_UP), at),
    ]
    assert ["d001-2", "d001-1", "d001-1"] == [each.after.key for each in changed]

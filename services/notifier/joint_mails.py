"""Which calls people are asked about in one mail, and how long the first of them waits for others.

Pure; time is an argument. A call that comes alone has a mail as ever. What is asked again, what news tells and what is
urgent waits for nothing and shares no mail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from placet.notifier.card_limits import is_held_up, place_of
from placet.notifier.rules import PERSONAL, Delivery
from placet.notifier.states import State

#: Calls that one mail lists; further ones have the next mail.
CALLS_MAX = 50
#: Part of the time until the deadline that a mail may wait for others, at most.
_SHARE = 2


def may_share(delivery: Delivery) -> bool:
    """Tell whether a delivery may share a mail: it asks a person, in a mail that nobody has had so far."""
    address = delivery.address
    asks = is_held_up(delivery) and not delivery.card.has_voted(address.person)
    return asks and address.kind in PERSONAL and bool(address.recipient)


def waits(news_at: datetime, deadline: datetime | None, window: timedelta) -> timedelta:
    """Return how long a mail that asks waits for others: the window, and never past half of the time that is left."""
    if deadline is None:
        return window
    return min(window, max(timedelta(0), deadline - news_at) / _SHARE)


def delayed(delivery: Delivery, window: timedelta) -> Delivery:
    """Return a new delivery as it is due once further calls for the same person had time to come."""
    if delivery.state is not State.DUE or not may_share(delivery):
        return delivery
    due_at = delivery.due_at + waits(delivery.due_at, delivery.card.deadline, window)
    return replace(delivery, due_at=due_at)


def reader_of(delivery: Delivery) -> tuple[str, ...]:
    """Return whose mail it is: address and person. Two people with one address have mails of their own."""
    return (*place_of(delivery), delivery.address.person)


def company(due: Iterable[Delivery], waiting: Iterable[Delivery]) -> list[Delivery]:
    """Return those of the waiting deliveries that go out in a mail which is due anyway.

    A mail that was tried before takes its own calls along and no others: it is the same mail.
    """
    due = list(due)
    known = {each.delivery_id for each in due}
    mails = {_mail_of(each) for each in due if may_share(each)}
    return [each for each in waiting if each.delivery_id not in known and _mail_of(each) in mails]


def mails_of(deliveries: Sequence[Delivery]) -> list[list[Delivery]]:
    """Return the deliveries by the mail that each goes out in, in their order.

    Each of several first asks of one mail knows by `joint` from now on which mail that is, so that it is tried again
    with the same ones.
    """
    found: dict[Hashable, list[Delivery]] = defaultdict(list)
    for each in deliveries:
        found[_mail_of(each)].append(each)
    parts = (same[n : n + CALLS_MAX] for same in found.values() for n in range(0, len(same), CALLS_MAX))
    return [_joined(each) for each in parts]


def _mail_of(delivery: Delivery) -> Hashable:
    if delivery.joint:
        return delivery.joint
    # One that was tried alone stays alone: its mail may have arrived.
    return reader_of(delivery) if may_share(delivery) and not delivery.fence else delivery.delivery_id


def _joined(same: list[Delivery]) -> list[Delivery]:
    first = same[0]
    return same if len(same) == 1 or first.joint else [replace(each, joint=f"{first.key}-joint") for each in same]

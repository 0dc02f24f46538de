"""Approvals that nobody was told of: who is told then, and when operators are alarmed. Pure; time is an argument.

Pace, quiet hours, and the number of waiting cards may keep a card back, but not until its approval is over: each card
has a moment from which nothing holds it up (`tell_by`). Whatever has been told to nobody by then is told everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from placet.notifier import rules
from placet.notifier.cards import Address
from placet.notifier.rules import Delivery, Moved
from placet.notifier.states import Event, State

#: States of a card that is to be shown and was not yet, where it has never been shown.
_HELD = frozenset({State.DUE, State.KEPT})


@dataclass(frozen=True, slots=True)
class Step:
    """What is done about an approval."""

    moved: Sequence[Moved] = ()
    #: Why operators are alarmed; empty where they are not.
    alarm: str = ""


def next_step(deliveries: Sequence[Delivery], at: datetime) -> Step:
    """Return what is done about an approval, given all its deliveries: nothing where somebody is told in time."""
    if not any(each.card.is_open for each in deliveries):
        return Step()
    hasty = [each for each in deliveries if _is_late(each, at) or _comes_late(each)]
    if any(map(_is_told, deliveries)) or any(_is_alive(each, at) for each in deliveries):
        # It is not looked at again because of them: should the others be given up, it is because of those.
        return Step([Moved(each, replace(each, tell_by=None), Event.REVISED) for each in hasty])
    # Of whom an escalation asks nobody may decide before it: they are told when it comes.
    asleep = [each for each in deliveries if each.state is State.ASLEEP and each.due_at <= at]
    asleep.sort(key=lambda each: each.rank)
    held = [each for each in deliveries if _is_held(each)]
    if any(_is_late(each, at) for each in held):
        moved = [*(rules.woken(each, Event.FELL_BACK, at) for each in asleep), *_hurried(held, at)]
        return Step(_seen_to(deliveries, moved), _why(deliveries))
    if asleep:
        # The rule names first whom it wants first.
        return Step([rules.woken(asleep[0], Event.FELL_BACK, at)])
    if held:
        # Better to wake somebody than to let the approval run out unseen.
        return Step(_hurried(held, at))
    return Step(_seen_to(deliveries, []), _why(deliveries))


def moved_to(delivery: Delivery, told: Callable[[Address], Address | None], at: datetime) -> Iterator[Delivery]:
    """Yield the delivery where its person is told now, of one that was given up elsewhere while people can decide."""
    is_lost = delivery.state is State.GIVEN_UP and delivery.card.is_open
    address = told(delivery.address) if is_lost else None
    if address is not None and address != delivery.address:
        yield replace(rules.joined(delivery, address, delivery.card, at), urgent=delivery.urgent)


def _is_told(delivery: Delivery) -> bool:
    return delivery.state is State.SENT or (delivery.state is State.DUE and delivery.was_shown)


def _is_held(delivery: Delivery) -> bool:
    return delivery.state in _HELD and not delivery.was_shown


def _is_late(delivery: Delivery, at: datetime) -> bool:
    """Tell whether a card that is not shown yet must not wait any longer."""
    return _is_held(delivery) and delivery.tell_by is not None and delivery.tell_by <= at


def _comes_late(delivery: Delivery) -> bool:
    """Tell whether a card is due only when it must not wait any longer: quiet hours, or a channel that rests."""
    limit = delivery.tell_by or delivery.card.deadline
    return delivery.state is State.DUE and _is_held(delivery) and limit is not None and limit <= delivery.due_at


def _is_alive(delivery: Delivery, at: datetime) -> bool:
    """Tell whether somebody will be told by a card in time."""
    if not _is_held(delivery):
        return False
    if delivery.state is State.DUE:
        return not _is_late(delivery, at) and not _comes_late(delivery)
    return delivery.card.deadline is None or (delivery.tell_by is not None and at < delivery.tell_by)


def _hurried(held: Iterable[Delivery], at: datetime) -> list[Moved]:
    return [rules.hurried(each, at) for each in held]


def _seen_to(deliveries: Sequence[Delivery], moved: Sequence[Moved]) -> list[Moved]:
    """Return all deliveries of an approval that operators are alarmed about; they are, once."""
    known = {each.before.delivery_id: each for each in moved}
    all_of_them = [known.get(each.delivery_id, rules.unchanged(each)) for each in deliveries]
    return [
        replace(each, after=replace(each.after, alerted=True, tell_by=each.after.tell_by if _sleeps(each) else None))
        for each in all_of_them
    ]


def _sleeps(moved: Moved) -> bool:
    """Tell whether a card may be told yet, by an escalation: it must not come too late then either."""
    return moved.after.state is State.ASLEEP


def _why(deliveries: Sequence[Delivery]) -> str:
    return next((each.error for each in deliveries if each.error), "its cards were kept back")

"""How many cards may wait at one address, and how fast a channel is used for a tenant. Pure; time is an argument.

Beyond so many waiting cards, further ones are kept back: one that is shown says how many. What is risky, what an
escalation asks for, and what a program receives is never kept back. Nothing here decides anything: an approval whose
card is kept back waits in the inbox like any other, and runs out of time like any other. So many cards go to a channel
a minute, a few of them at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from placet.contracts.ids import derived_id
from placet.notifier.cards import Card
from placet.notifier.rules import Delivery, Moved
from placet.notifier.states import MACHINE, Event, State

#: Kinds of channels that are no people: nothing is kept from them.
PROGRAMS = frozenset({"log", "webhook"})
#: Seconds of a minute's cards that may go out at once after a rest.
BURST_SECONDS = 10.0

#: Tenant and channel.
Lane = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Limits:
    """How many waiting cards one address is shown; 0 for any number."""

    waiting: int = 0
    #: Of them, with the same tool and target.
    same: int = 0

    @property
    def exist(self) -> bool:
        """Whether there is any limit."""
        return bool(self.waiting or self.same)


def topic_of(card: Card) -> str:
    """Return what a call does to what: its tool, and the texts among the arguments that its sentence names.

    Numbers are no target: two payments to one person are one topic, whatever their amounts.
    """
    named = [each for each in card.arguments if each.critical] or card.arguments
    target = [(each.name, each.text) for each in named if not _is_number(each.text)]
    return derived_id("topic", card.tenant, card.agent, card.tool, *(part for pair in sorted(target) for part in pair))


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", text) is not None


def is_held_up(delivery: Delivery) -> bool:
    """Tell whether limits and quiet hours are for a delivery: the first card of a waiting approval, for people."""
    card = delivery.card
    return delivery.was_kept_away and card.is_open and not delivery.urgent and delivery.address.kind not in PROGRAMS


def keep_back(
    claimable: Iterable[Delivery], shown: Mapping[tuple[str, ...], Counter[str]], limits: Limits
) -> list[Moved]:
    """Return which of the deliveries about to be sent are kept back, where `shown` waits at each address by topic."""
    kept: list[Moved] = []
    counts = {place: Counter(topics) for place, topics in shown.items()}
    for delivery in claimable:
        here = counts.setdefault(place_of(delivery), Counter())
        if delivery.fence or not delivery.card.is_open:
            # It is counted already, or counts no more.
            continue
        if is_held_up(delivery) and delivery.card.batchable and _is_full(here, delivery, limits):
            state = MACHINE.next_state(delivery.state, Event.KEPT_BACK)
            kept.append(Moved(delivery, replace(delivery, state=state), Event.KEPT_BACK))
        else:
            here[delivery.topic] += 1
    return kept


def recount(deliveries: Sequence[Delivery], limits: Limits, at: datetime) -> list[Moved]:
    """Return what changes among the waiting deliveries of one address: who is let through, and which counts are wrong.

    `deliveries` are in the order in which their approvals came. The newest card that is shown says how many of its
    topic are kept back; the newest of all says how many others are.
    """
    shown = [each for each in deliveries if each.state is State.SENT or (each.state is State.DUE and each.fence)]
    here, moved = Counter(each.topic for each in shown), []
    kept: list[Delivery] = []
    for delivery in deliveries:
        if delivery.state is not State.KEPT:
            continue
        if _is_full(here, delivery, limits):
            kept.append(delivery)
            continue
        here[delivery.topic] += 1
        state = MACHINE.next_state(delivery.state, Event.LET_THROUGH)
        moved.append(Moved(delivery, replace(delivery, state=state, due_at=at), Event.LET_THROUGH))
    return [*moved, *_recounted(shown, kept, at)]


def _recounted(shown: Sequence[Delivery], kept: Sequence[Delivery], at: datetime) -> Iterator[Moved]:
    hidden = Counter(each.topic for each in kept)
    told = {each.topic for each in shown}
    others = sum(count for topic, count in hidden.items() if topic not in told)
    leaders = {each.topic: each.delivery_id for each in shown}
    for delivery in shown:
        leads = leaders[delivery.topic] == delivery.delivery_id
        similar = hidden[delivery.topic] if leads else 0
        held_back = others if delivery is shown[-1] else 0
        if (similar, held_back) != (delivery.card.similar, delivery.card.held_back):
            card = replace(delivery.card, similar=similar, held_back=held_back)
            after = replace(
                delivery,
                card=card,
                version=delivery.version + 1,
                joint="",
                state=MACHINE.next_state(delivery.state, Event.REVISED),
                due_at=at,
            )
            yield Moved(delivery, after, Event.REVISED)


def _is_full(here: Counter[str], delivery: Delivery, limits: Limits) -> bool:
    all_of_them, same = here.total(), here[delivery.topic]
    return bool((limits.waiting and all_of_them >= limits.waiting) or (limits.same and same >= limits.same))


def place_of(delivery: Delivery) -> tuple[str, ...]:
    """Return the address as what cards are counted by."""
    return (delivery.tenant, delivery.address.channel, delivery.address.recipient)


def lane_of(delivery: Delivery) -> Lane:
    """Return what a delivery's pace is counted by."""
    return delivery.tenant, delivery.address.channel


def in_pace(
    claimable: Sequence[Delivery], spoken_for: Mapping[Lane, datetime], per_minute: Mapping[str, int], at: datetime
) -> tuple[list[Delivery], dict[Lane, datetime]]:
    """Return which deliveries may be sent now, and until when their channels are spoken for then.

    `spoken_for` says that of each channel that has a pace; a moment in the past means that it has rested since.
    """
    until: dict[Lane, datetime] = {}
    for lane, free_at in spoken_for.items():
        until[lane] = max(free_at, at - timedelta(seconds=BURST_SECONDS))
    sent: list[Delivery] = []
    counts: Counter[Lane] = Counter()
    for delivery in claimable:
        lane = lane_of(delivery)
        if lane in until:
            if until[lane] > at:
                continue
            until[lane] += timedelta(seconds=60.0 / per_minute[delivery.address.kind])
            counts[lane] += 1
        sent.append(delivery)
    return sent, {lane: until[lane] for lane in counts}

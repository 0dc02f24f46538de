"""How fast a channel may be used for a tenant: so many cards a minute, a few of them at once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from placet.notifier.rules import Delivery

#: Seconds of a minute's cards that may go out at once after a rest.
BURST_SECONDS = 10.0

#: Tenant and channel.
Lane = tuple[str, str]


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

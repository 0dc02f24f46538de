"""Telling every gateway instance what is new in the feeds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from services.gateway.store.feed import StoredItem
from shared.ids import new_id, new_traceparent
from shared.messages import Event, FeedAdvanced
from shared.outbox import Outbox


async def announce(outbox: Outbox, stored: Sequence[StoredItem]) -> None:
    """Tell every gateway instance what is new in the feeds. Sent at most once: streams also look for themselves."""
    for (tenant, conversation_id), items in groupby(stored, key=lambda item: (item.tenant, item.conversation_id)):
        new = list(items)
        wire = [each.as_wire() for each in new]
        # Made of what was just stored: there is nothing to validate.
        message = FeedAdvanced.model_construct(tenant=tenant, conversation_id=conversation_id, items=wire)
        event_id = new_id()
        outbox.announce(Event(event_id, "gateway", new[-1].at, event_id, "", new_traceparent(), message))

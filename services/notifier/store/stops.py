"""What cards are to say of emergency stops, read from the gateway's view."""

from __future__ import annotations

from dataclasses import replace

from placet.notifier import store
from placet.notifier.rules import Delivery
from placet.runtime.queries import load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__, "stops.sql")


async def shown_otherwise(work: Work, limit: int) -> list[tuple[Delivery, str]]:
    """Lock and return cards that do not say what is stopped or say what is not any more, with what they should say.

    Who has locked one already draws it anew; it is found at the next look. While nothing is stopped, only cards that
    say so are looked at.
    """
    (stops,) = await work.run(QUERIES.any_stop)
    query = QUERIES.lock_shown_otherwise if stops["found"] else QUERIES.lock_shown_as_stopped
    said = {row["delivery_id"]: row["stopped"] for row in await work.run(query, most=limit)}
    return [(each, said[each.delivery_id]) for each in await store.load(work, said)] if said else []


async def saying_stops(work: Work, claimed: list[Delivery]) -> list[Delivery]:
    """Return deliveries with why their calls are stopped now, where they say so once: in a mail."""
    mails = {each.delivery_id for each in claimed if each.address.kind == "email"}
    rows = await work.run(QUERIES.why_stopped, ids=list(mails)) if mails else []
    why = dict.fromkeys(mails, "") | {row["delivery_id"]: row["stopped"] for row in rows}
    return [
        replace(each, card=replace(each.card, stopped=why[each.delivery_id])) if each.delivery_id in why else each
        for each in claimed
    ]

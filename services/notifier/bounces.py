"""Mails that came back: the people they were for were told nothing, so the card was not shown there after all.

An approval that nobody else was told of goes to the next place of its rule, as if the relay had refused the mail.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog
from prometheus_client import Counter

from placet.contracts.messages import MailBounced
from placet.notifier import rules, store
from placet.notifier.cards import Address
from placet.notifier.changes import change_of
from placet.notifier.store.calls import take
from placet.notifier.store.mails import approvals_in
from placet.runtime.consumer import Arrival
from placet.runtime.work import Work

log = structlog.get_logger(__name__)

BOUNCES = Counter("placet_mails_bounced_total", "Mails that a relay had taken and that came back.")


async def take_bounces(arrivals: Sequence[Arrival[MailBounced]], work: Work) -> None:
    """Give up the cards of mails that came back, loudly: an address is wrong, and somebody must see to it."""
    about = [await approvals_in(work, each.message.tenant, each.message.mail_id) for each in arrivals]
    await take(work, approval_ids={approval_id for found in about for approval_id, _ in found})
    for each, found in zip(arrivals, about, strict=True):
        work.cause = each.cause
        bounce = each.message
        # A report without words of its own repeats the status.
        words = bounce.reason if bounce.status in bounce.reason else f"{bounce.status} {bounce.reason}"
        reason = f"the mail came back: {words}".strip()
        for approval_id, address in found:
            await give_up(work, approval_id, address, reason)
        BOUNCES.inc()
        people = sorted({address.person for _, address in found})
        log.error("mail.bounced", mail_id=bounce.mail_id, tenant=bounce.tenant, people=people, status=bounce.status)


async def give_up(work: Work, approval_id: str, address: Address, reason: str) -> None:
    """Take the card of an approval at an address as not shown; whoever sees to the untold does the rest."""
    deliveries = (await store.lock_approvals(work, [approval_id])).get(approval_id, [])
    moved = [rules.bounced(each, reason) for each in deliveries if each.address == address]
    changed = [each for each in moved if each.changed]
    work.record(*map(change_of, changed))
    await store.change(work, [each.after for each in changed])

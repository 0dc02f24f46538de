"""Sends digests, one mail with a list: claim, act outside any transaction, settle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import structlog

from services.notifier import rules, store
from services.notifier.cards import Address, Card
from services.notifier.channels import ChannelFailed
from services.notifier.channels.email import DigestTerms, Post
from services.notifier.channels.email.letters import Entry, digest_letter
from services.notifier.channels.email.threads import has_voted, mail_id
from services.notifier.rounds import failed_by_bug, side_by_side
from services.notifier.store.digests import Digest, Item, claim_digests, list_untold, settle_failed, settle_told
from services.notifier.store.mails import Mailed, add_mail, forget
from shared.work import UnitOfWork, Work

log = structlog.get_logger(__name__)

#: Digests that one round claims.
BATCH = 20
#: How long a claimed digest belongs to its worker.
LEASE = timedelta(seconds=60)
#: Seconds before the n-th further try of a digest; then it is given up.
RETRY_SECONDS = (5, 30, 120, 600, 1800)
#: How long mails, links and told items are kept after they are over.
KEEP = timedelta(days=30)

#: Takes an approval's card at an address as not shown, for a reason.
GiveUp = Callable[[Work, str, Address, str], Awaitable[None]]


class Digests:
    """Sends the digests of every tenant."""

    def __init__(self, units: UnitOfWork, post: Post, terms: DigestTerms, give_up: GiveUp) -> None:
        self._units = units
        self._post = post
        self._terms = terms
        self._give_up = give_up

    async def run_once(self) -> int:
        """Send what is due; return how many digests were tried if more may be due, else 0."""
        async with self._units.begin() as work:
            claimed = await claim_digests(work, BATCH, LEASE)
        await side_by_side(map(self._deliver, claimed))
        return len(claimed) if len(claimed) == BATCH else 0

    async def forget_once(self) -> int:
        """Delete what was over long ago."""
        async with self._units.begin() as work:
            await forget(work, KEEP)
        return 0

    async def _deliver(self, digest: Digest) -> None:
        async with self._units.begin() as work:
            items = await list_untold(work, digest)
        failed: ChannelFailed | None = None
        told: Sequence[Item] = ()
        try:
            told = await self._send(digest, items)
        except ChannelFailed as error:
            failed = error
        except Exception as error:  # noqa: BLE001 - whatever a card does to its digest, its tries must end
            failed = failed_by_bug(error, channel="email", tenant=digest.tenant, person=digest.person)
        async with self._units.begin() as work:
            await self._settle(work, digest, items, failed)
            await _note_told(work, told)

    async def _send(self, digest: Digest, items: Sequence[Item]) -> list[Item]:
        """Send what is worth telling of the items, and return it."""
        waiting = [each for each in items if each.card.is_open and not has_voted(each.card, each.address.person)]
        over = [each for each in items if not each.card.is_open and each.told_version]
        if not waiting and not over:
            return []
        mail, post = _mail_of(digest, items), self._post
        links = [post.links.new(each.card, each.address, mail) for each in waiting]
        async with self._units.begin() as work:
            mailed = [Mailed(mail, digest.tenant, each.card.approval_id, each.address, asked=False) for each in waiting]
            await add_mail(work, mailed, [each.kept for each in links if each.kept])
        entries = [Entry(each.card, link) for each, link in zip(waiting, links, strict=True)]
        message = digest_letter(
            post.head,
            entries,
            [each.card for each in over],
            message_id=post.message_id(mail),
            recipient=digest.recipient,
            inbox=post.links.inbox,
        )
        await post.relay.send(message, sender=post.envelope_sender(mail), recipient=digest.recipient)
        return [*waiting, *over]

    async def _settle(self, work: Work, digest: Digest, items: Sequence[Item], failed: ChannelFailed | None) -> None:
        if failed is None:
            await settle_told(work, digest, items, work.now + self._terms.window)
            return
        wait = RETRY_SECONDS[digest.failures] if digest.failures < len(RETRY_SECONDS) else None
        if failed.permanent or wait is None:
            if await settle_told(work, digest, items, work.now):
                log.error("digest.given_up", tenant=digest.tenant, person=digest.person, reason=str(failed))
                for card, address in _open_cards(items):
                    await self._give_up(work, card.approval_id, address, str(failed))
            return
        log.warning("digest.waiting", tenant=digest.tenant, person=digest.person, reason=str(failed))
        again_at = work.now + timedelta(seconds=failed.retry_after or wait)
        await settle_failed(work, digest, again_at)
        for card, address in _open_cards(items):
            if card.deadline is not None and card.deadline <= again_at:
                # The next try comes too late for it; another place may not.
                await self._give_up(work, card.approval_id, address, str(failed))


async def _note_told(work: Work, told: Sequence[Item]) -> None:
    """Let deliveries say that a digest has shown their cards."""
    found = await store.lock_approvals(work, [each.card.approval_id for each in told])
    deliveries = {(each.approval_id, each.address): each for several in found.values() for each in several}
    known = [(deliveries.get((each.card.approval_id, each.address)), each.card) for each in told]
    await store.tell(work, [rules.told_among_others(delivery, card) for delivery, card in known if delivery])


def _open_cards(items: Sequence[Item]) -> list[tuple[Card, Address]]:
    return [(each.card, each.address) for each in items if each.card.is_open]


def _mail_of(digest: Digest, items: Sequence[Item]) -> str:
    """Return the id of a digest's mail: the same while it tells the same news."""
    news = sorted(f"{each.card.approval_id}:{each.version}" for each in items)
    return mail_id(" ".join(("digest", digest.tenant, digest.recipient, *news)))

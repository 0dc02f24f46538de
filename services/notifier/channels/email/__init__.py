"""E-mail: one mail per approval and person, follow-ups in its thread, and a link that is that person's alone.

Record, then act: what a mail will say, and the hash of its link's token, are stored before it is handed to the relay.
So a link works from the moment that somebody can have it, and a mail that is sent twice, because nobody knows whether
the first one left, has the same Message-ID and two links that both work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from services.notifier.cards import Address, Card
from services.notifier.channels import Delivered
from services.notifier.channels.email.letters import Letterhead, Place, letter
from services.notifier.channels.email.links import Links, MailedLink
from services.notifier.channels.email.smtp import Relay
from services.notifier.channels.email.threads import (
    ASKING,
    Kind,
    counts_more,
    envelope_sender,
    kind_for,
    mail_id,
    message_id,
    told_from,
)
from services.notifier.store.digests import gather
from services.notifier.store.mails import Mailed, add_mail, asked_lately
from shared.work import UnitOfWork, Work

#: Reference of a card that its person is told of in digests.
IN_DIGEST = {"in": "digest"}


@dataclass(frozen=True, slots=True)
class DigestTerms:
    """When mails to one person become one mail."""

    #: Mails of their own that ask one person within a window, at most; what comes on top goes into a digest.
    after: int
    window: timedelta

    def due(self, now: datetime, deadline: datetime | None) -> datetime:
        """Return when a card is told at the latest: with half of its time left, where the window is longer."""
        end = now + self.window
        return end if deadline is None else min(end, now + max(timedelta(0), deadline - now) / 2)


@dataclass(frozen=True)
class Post:
    """What sending a mail takes: the relay, the letterhead, and where bounces go."""

    relay: Relay
    head: Letterhead
    links: Links
    #: Address that bounces go to, `bounces@example.org`; each mail's id is put into it. Empty: to the sender.
    bounces: str = ""

    def message_id(self, mail: str) -> str:
        """Return the Message-ID of a mail."""
        return message_id(mail, self.head.domain)

    def envelope_sender(self, mail: str) -> str:
        """Return who the relay is told that a mail comes from."""
        return envelope_sender(self.bounces, mail) if self.bounces else self.head.sender


class EmailChannel:
    """Mails cards to the people who may decide."""

    def __init__(self, units: UnitOfWork, post: Post, terms: DigestTerms) -> None:
        self._units = units
        self._post = post
        self._terms = terms

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Send the mail that `card` needs now, if any; raise ChannelFailed where the relay does not take it."""
        if reference == IN_DIGEST:
            async with self._units.begin() as work:
                await self._gather(work, card, address)
            return Delivered(IN_DIGEST, shown=False)
        told = told_from(reference)
        kind = kind_for(card, told, address.person)
        if kind is None:
            if counts_more(card, told):
                async with self._units.begin() as work:
                    await self._gather(work, card, address)
            return Delivered(told.after(card).as_reference(), shown=False)
        mail, post = mail_id(key), self._post
        alone = kind is Kind.ASKED and not told.ids
        link = post.links.new(card, address, mail) if kind in ASKING else None
        async with self._units.begin() as work:
            if alone and await self._is_enough(work, card, address, mail):
                await self._gather(work, card, address)
                return Delivered(IN_DIGEST, shown=False)
            mailed = Mailed(mail, card.tenant, card.approval_id, address, asked=alone)
            await add_mail(work, [mailed], [link.kept] if link and link.kept else [])
        sent = post.message_id(mail)
        place = Place(sent, address.recipient, link or MailedLink(card.url))
        message = letter(post.head, card, kind, told, place)
        await post.relay.send(message, sender=post.envelope_sender(mail), recipient=address.recipient)
        return Delivered(told.after(card, sent).as_reference())

    async def _is_enough(self, work: Work, card: Card, address: Address, mail: str) -> bool:
        """Tell whether a person was asked so often lately that the rest is gathered; what is dangerous never is."""
        if not card.batchable or not self._terms.after:
            return False
        lately = await asked_lately(work, card.tenant, address.recipient, mail, self._terms.window)
        return lately is not None and lately >= self._terms.after

    async def _gather(self, work: Work, card: Card, address: Address) -> None:
        await gather(work, card, address, self._terms.due(work.now, card.deadline))

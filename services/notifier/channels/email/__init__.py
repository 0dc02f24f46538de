"""E-mail: one mail per approval and person, follow-ups in its thread, and a link that is that person's alone.

Several calls that one person is asked about within a short while become one mail: a list, which decides nothing.

Record, then act: what a mail will say, and the hash of its link's token, are stored before it is handed to the relay.
So a link works from the moment that somebody can have it, and a mail that is sent twice, because nobody knows whether
the first one left, has the same Message-ID and two links that both work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from placet.contracts.ids import new_id
from placet.domain.directory import Person
from placet.notifier.cards import Address, Card
from placet.notifier.channels import Delivered
from placet.notifier.channels.email.links import Links, MailedLink
from placet.notifier.channels.email.mail_templates import Letterhead, Place, joint_letter, letter, note
from placet.notifier.channels.email.smtp import Relay
from placet.notifier.channels.email.threads import (
    ASKING,
    Told,
    envelope_sender,
    kind_for,
    mail_id,
    message_id,
    told_from,
)
from placet.notifier.store.mails import Mailed, add_joint_mail, add_mail, count_waiting
from placet.runtime.work import UnitOfWork


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

    def __init__(self, units: UnitOfWork, post: Post, zone_of: Callable[[str], str]) -> None:
        self._units = units
        self._post = post
        self._zone_of = zone_of

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Send the mail that `card` needs now, if any; raise ChannelFailed where the relay does not take it."""
        told = told_from(reference)
        kind = kind_for(card, told, address.person)
        if kind is None:
            return Delivered(told.after(card).as_reference(), shown=False)
        mail, post = mail_id(key), self._post
        link = post.links.new(card, address, mail) if kind in ASKING else None
        async with self._units.begin() as work:
            await add_mail(work, Mailed(mail, card.tenant, card.approval_id, address), link.kept if link else None)
        sent = post.message_id(mail)
        place = Place(sent, address.recipient, link or MailedLink(card.url), self._zone_of(address.person))
        message = letter(post.head, card, kind, told, place)
        await post.relay.send(message, sender=post.envelope_sender(mail), recipient=address.recipient)
        return Delivered(told.after(card, sent).as_reference())

    async def send_joint(self, cards: Sequence[Card], address: Address, *, key: str) -> list[Delivered]:
        """Send one mail that lists calls which a person is asked about; raise ChannelFailed where the relay refuses it.

        It has no link that decides: each of its links leads to the page of one approval.
        """
        mail, post = mail_id(key), self._post
        async with self._units.begin() as work:
            await add_joint_mail(work, [Mailed(mail, card.tenant, card.approval_id, address) for card in cards])
            waiting = await count_waiting(work, cards[0].tenant, address)
        sent = post.message_id(mail)
        place = Place(sent, address.recipient, MailedLink(post.links.inbox), self._zone_of(address.person))
        message = joint_letter(post.head, cards, place, waiting)
        await post.relay.send(message, sender=post.envelope_sender(mail), recipient=address.recipient)
        return [Delivered(Told().after(card, sent).as_reference()) for card in cards]

    def addresses(self, _tenant: str, person: Person) -> Sequence[str]:
        """Return a person's addresses, which are theirs in every tenant."""
        return person.emails

    async def say(self, _tenant: str, recipient: str, subject: str, words: str) -> None:
        """Mail somebody a text that is about no approval; raise ChannelFailed where the relay does not take it.

        It is for them alone, and a bounce has it whole: none may go to the mailbox that administrators are handed.
        """
        mail, post = mail_id(new_id()), self._post
        message = note(post.head, subject, words, message_id=post.message_id(mail), recipient=recipient)
        await post.relay.send(message, sender=post.head.sender, recipient=recipient)

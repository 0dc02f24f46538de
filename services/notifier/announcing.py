"""Makes deliveries of news: which addresses there are, in which language, and what their cards say.

Pure but for one reader, which says who is who now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from placet.contracts.messages import (
    ApprovalClosed,
    ApprovalCommented,
    ApprovalOpened,
    ApprovalProgressed,
    Message,
    ShownCall,
    ToolCallFinished,
    ToolCallProgressed,
)
from placet.domain.approvers import identity_of
from placet.domain.catalog import Catalog
from placet.domain.directory import Directory, Person
from placet.notifier import drawing, joint_mails, rules
from placet.notifier.card_limits import topic_of
from placet.notifier.cards import Address, Card, kind_of
from placet.notifier.drawing import Pen
from placet.notifier.rules import Delivery, Moved
from placet.notifier.states import Event, State
from placet.surfaces.card import critical_arguments, names_in
from placet.surfaces.plan import Plan
from placet.surfaces.texts import language_of

#: People whom a card calls by their names at once; where it asks more, the channel itself is enough.
ASKED_MAX = 5


@dataclass(frozen=True)
class Announcer:
    """Whoever knows the people, the tools, and how this installation is reached."""

    directory: Callable[[], Directory]
    tools: Catalog
    public_url: str
    #: Language of cards that are for a place, or for somebody who has named none.
    language: str
    #: False: this installation has no channel but its log, so that nothing is stored for that alone.
    has_channels: bool = True
    #: How long a mail that asks waits for further calls of its person.
    mail_window: timedelta = timedelta(0)

    def has_card(self, news: ApprovalOpened) -> bool:
        """Tell whether an approval gets cards; else it gets lines in the log."""
        named = [
            *rules.channels_of(news.approval),
            *(each for step in news.approval.escalations for each in step.channels),
        ]
        return self.has_channels or any(kind_of(channel) != rules.LOG for channel in named)

    def may_have_card(self, news: Message) -> bool:
        """Tell whether news are about an approval: a call that nobody was asked about has no cards."""
        return news.held if isinstance(news, ToolCallFinished) else True

    def open(self, news: ApprovalOpened, at: datetime, plan: Plan | None = None) -> Iterator[Delivery]:
        """Yield the deliveries of a call that begins to wait: due ones, and sleeping ones of its escalations.

        `plan`: of a commit, what it would do.
        """
        directory, requester = self.directory(), news.call.requester
        places = [(each, State.DUE) for each in rules.first_addresses(news.approval, requester, directory)]
        places += [(each, State.ASLEEP) for each in rules.later_addresses(news.approval, requester, directory)]
        for rank, (address, state) in enumerate(places):
            card = self._first_card(news, address, directory, plan)
            made = rules.opened(news, address, state, card, at, topic=topic_of(card), rank=rank)
            yield joint_mails.delayed(made, self.mail_window)

    def progress(self, news: ApprovalProgressed, deliveries: list[Delivery], at: datetime) -> Iterator[Moved]:
        """Yield what news of a pending approval does to each of its deliveries."""
        directory = self.directory()
        critical = self._critical(news.call) if news.call else []
        asked = set(self._asked_too(news, deliveries, directory))
        for delivery in deliveries:
            moved = rules.unchanged(delivery)
            if news.revision > delivery.revision:
                pen = self._pen(delivery.address, directory)
                card = drawing.moved_on(delivery.card, news, pen, critical, at)
                moved = rules.revised(delivery, self._asking(card, delivery.address, news, directory), at)
            if delivery.address in asked and delivery.card.is_open:
                woken = rules.woken(moved.after, Event.ESCALATED, at)
                moved = Moved(delivery, woken.after, Event.ESCALATED) if woken.changed else moved
            yield moved

    def join(self, news: ApprovalProgressed, deliveries: list[Delivery], at: datetime) -> Iterator[Delivery]:
        """Yield deliveries to addresses that news of a pending approval asks too, and that had none."""
        newest = max(deliveries, key=lambda each: each.revision)
        if newest.card.is_open:
            known = {each.address for each in deliveries}
            directory = self.directory()
            for address in self._asked_too(news, deliveries, directory):
                if address not in known:
                    card = drawing.for_another(newest.card, self._pen(address, directory))
                    card = self._asking(replace(card, comments=[]), address, news, directory)
                    yield rules.joined(newest, address, card, at)

    def close(self, news: ApprovalClosed, deliveries: list[Delivery], at: datetime) -> Iterator[Moved]:
        """Yield what the end of an approval does to each of its deliveries."""
        directory = self.directory()
        for delivery in deliveries:
            if delivery.card.is_open:
                # A decision that closes at once leaves the revision as it was; an end is final and older than nothing.
                card = drawing.over(delivery.card, news, self._pen(delivery.address, directory))
                yield rules.revised(delivery, card, at)
            else:
                yield rules.unchanged(delivery)

    def advance(self, news: ToolCallProgressed, deliveries: Iterable[Delivery], at: datetime) -> Iterator[Moved]:
        """Yield what a running call's report does to the cards that can be changed in place."""
        for delivery in deliveries:
            card = drawing.running(delivery.card, news) if delivery.address.kind in rules.IN_PLACE else None
            if card is not None and delivery.was_shown:
                yield rules.revised(delivery, card, at)

    def finish(self, news: ToolCallFinished, deliveries: Iterable[Delivery], at: datetime) -> Iterator[Moved]:
        """Yield what the end of the call itself does to each delivery of its approval."""
        for delivery in deliveries:
            known = delivery.card.ended != ""
            yield rules.unchanged(delivery) if known else rules.revised(delivery, drawing.ran(delivery.card, news), at)

    def comment(self, news: ApprovalCommented, deliveries: Iterable[Delivery], at: datetime) -> Iterator[Moved]:
        """Yield what a comment does to the cards that have a thread; in the one that it was written in it stands."""
        directory = self.directory()
        for delivery in deliveries:
            here, known = delivery.reference or {}, {each.comment_id for each in delivery.card.comments}
            if delivery.address.kind not in rules.IN_PLACE or delivery.tenant != news.tenant:
                continue
            if news.comment_id not in known and news.said_in != f"{here.get('channel')}/{here.get('ts')}":
                card = drawing.commented(delivery.card, news, self._pen(delivery.address, directory))
                yield rules.revised(delivery, card, at)

    def _asking(self, card: Card, address: Address, news: ApprovalProgressed, directory: Directory) -> Card:
        """Return the card of an address with whom an escalation or a delegation asks too."""
        if not news.approvers:
            return card
        asked = rules.people_of(news.approvers, card.requested_by, directory)
        return replace(card, asks=_called(address, asked))

    def _asked_too(
        self, news: ApprovalProgressed, deliveries: list[Delivery], directory: Directory
    ) -> Iterator[Address]:
        if not news.approvers and not news.channels:
            return
        told = dict.fromkeys(each.address.channel for each in deliveries)
        requester = deliveries[0].card.requested_by
        yield from rules.escalation_addresses(news.approvers, news.channels, told, requester, directory)

    def _first_card(self, news: ApprovalOpened, address: Address, directory: Directory, plan: Plan | None) -> Card:
        card = drawing.first_card(news, self._pen(address, directory), self._critical(news.call), plan)
        asked = rules.asked_first(news.approval, news.call.requester, directory)
        return replace(card, asks=_called(address, asked))

    def _critical(self, call: ShownCall) -> list[str]:
        return critical_arguments(self.tools, call.tool, call.schema_digest)

    def _pen(self, address: Address, directory: Directory) -> Pen:
        person = directory.people.get(address.person)
        language = language_of(person.language if person else "", self.language)
        return Pen(language, self.public_url.rstrip("/"), names_in(directory))


def _called(address: Address, people: list[Person]) -> list[str]:
    """Return the ids of people whom a card at an address calls one by one: none where they are too many."""
    few = address.kind in rules.IN_PLACE and len(people) <= ASKED_MAX
    return [identity_of(each.id) for each in people] if few else []

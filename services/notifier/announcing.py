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
from placet.domain.approvers import group_in, group_of, identity_of
from placet.domain.catalog import Catalog
from placet.domain.directory import Directory, Person
from placet.notifier import drawing, joint_mails, people, rules
from placet.notifier.card_limits import topic_of
from placet.notifier.cards import Address, Card, kind_of
from placet.notifier.drawing import Pen
from placet.notifier.people import Case
from placet.notifier.rules import Delivery, Moved, Place
from placet.notifier.states import State
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

    def open(
        self,
        news: ApprovalOpened,
        at: datetime,
        plan: Plan | None = None,
        *,
        restored_at: datetime | None = None,
        opened_by: str = "",
    ) -> Iterator[Delivery]:
        """Yield the deliveries of a call that begins to wait: due ones, and sleeping ones of its escalations.

        `plan`: of a commit, what it would do. `restored_at`: when the house was restored since it was asked, None where
        it was not. `opened_by`: who may have asked beside the requester.
        """
        call, latest = news.call, rules.tell_by(at, news.expires_at)
        case = Case(self.directory(), call.requester, at, call.agent, waits=True, latest=latest, opened_by=opened_by)
        places = [(each, State.DUE) for each in rules.first_addresses(news.approval, case)]
        places += [(each, State.ASLEEP) for each in rules.later_places(news.approval, case)]
        asked = [each.person for each in people.first_people(news.approval, case)]
        for rank, (place, state) in enumerate(places):
            card = self._first_card(news, place, asked, case, plan)
            card = replace(card, restored=round(restored_at.timestamp() * 1_000_000) if restored_at else 0)
            made = rules.opened(news, place, state, card, at, topic=topic_of(card), rank=rank)
            yield joint_mails.delayed(made, self.mail_window)

    def progress(self, news: ApprovalProgressed, deliveries: list[Delivery], at: datetime) -> Iterator[Moved]:
        """Yield what news of a pending approval does to each of its deliveries."""
        if not deliveries:
            return
        directory = self.directory()
        critical = self._critical(news.call) if news.call else []
        asked = set(self._asked_too(news, deliveries, directory, at))
        named = _named_now(news, deliveries[0].card, directory, at)
        for delivery in deliveries:
            moved = rules.unchanged(delivery)
            if news.revision > delivery.revision:
                pen = self._pen(delivery.address, directory)
                card = drawing.moved_on(delivery.card, news, pen, critical, at)
                card = self._on_duty(card, news.approvers, pen, directory, at)
                moved = rules.revised(delivery, _asking(card, delivery.address, news, named), at)
            if delivery.address in asked and delivery.card.is_open:
                woken = rules.asked_now(moved.after, at, escalates=news.kind != "reminded")
                moved = Moved(delivery, woken.after, woken.event) if woken.changed else moved
            yield moved

    def join(self, news: ApprovalProgressed, deliveries: list[Delivery], at: datetime) -> Iterator[Delivery]:
        """Yield deliveries to addresses that news of a pending approval asks too, and that had none."""
        # What is left of a card of somebody who was erased has nothing to show to others.
        newest = max(deliveries, key=lambda each: (bool(each.card.digest), each.revision))
        if newest.card.is_open:
            known = {each.address for each in deliveries}
            directory = self.directory()
            named = _named_now(news, newest.card, directory, at)
            asked = [*self._asked_too(news, deliveries, directory, at), *_told_now(deliveries, directory)]
            for address in dict.fromkeys(asked):
                if address not in known:
                    pen = self._pen(address, directory)
                    card = replace(drawing.for_another(newest.card, pen), comments=[])
                    card = self._on_duty(card, news.approvers, pen, directory, at)
                    card = _asking(card, address, news, named)
                    yield rules.joined(newest, address, card, at)

    def close(self, news: ApprovalClosed, deliveries: list[Delivery], at: datetime) -> Iterator[Moved]:
        """Yield what the end of an approval does to each of its deliveries."""
        directory, edited = self.directory(), news.edited
        call = edited.call if edited else None
        critical = self._critical(call) if call else []
        for delivery in deliveries:
            if delivery.card.is_open:
                pen, card = self._pen(delivery.address, directory), delivery.card
                if edited and call and card.digest not in {"", call.digest}:
                    # The news of the edit are on their way still, or came behind later ones.
                    card = drawing.moved_on(card, edited, pen, critical, at)
                # A decision that closes at once leaves the revision as it was; an end is final and older than nothing.
                yield rules.revised(delivery, drawing.over(card, news, pen), at)
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

    def _asked_too(
        self, news: ApprovalProgressed, deliveries: list[Delivery], directory: Directory, at: datetime
    ) -> list[Address]:
        """Return whom news ask too: those on duty now of whom an escalation names; of a reminder, who came on duty."""
        card = deliveries[0].card
        approvers = list(news.approvers)
        if news.kind == "reminded":
            approvers = [group_of(each.group) for each in card.on_duty]
        if not approvers and not news.channels:
            return []
        told = dict.fromkeys(each.address.channel for each in deliveries)
        case = _case(card, directory, at)
        everybody = people.all_of(approvers, case)
        known = {each.address.person for each in deliveries if each.was_shown}
        whole = card.asks_all and news.kind != "reminded"
        asked = everybody if whole else people.on_duty_of(approvers, case)
        if news.kind == "escalated" and known.issuperset(each.person.id for each in asked):
            # Those on duty were told and have not decided: others are asked.
            asked = everybody
        if news.kind == "reminded" and not any(each.person.emails for each in asked):
            return []
        return [place.address for place in rules.escalation_places(news.channels, told, asked, case)]

    def _first_card(
        self, news: ApprovalOpened, place: Place, asked: list[Person], case: Case, plan: Plan | None
    ) -> Card:
        pen = self._pen(place.address, case.directory)
        card = drawing.first_card(news, pen, self._critical(news.call), plan)
        card = replace(card, asks=_called(place.address, asked), opened_by=case.opened_by)
        return self._on_duty(card, people.named_by(news.approval), pen, case.directory, place.at)

    def _on_duty(self, card: Card, approvers: Iterable[str], pen: Pen, directory: Directory, at: datetime) -> Card:
        """Return a card that says who is on duty at a moment, of the groups that it named before or that are asked."""
        groups = dict.fromkeys([*(each.group for each in card.on_duty), *map(group_in, approvers)])
        excluded = directory.excluded(card.excludes, card.requested_by, card.agent, card.opened_by)
        found = [directory.on_duty(name, at).without(excluded) for name in groups if name and directory.has_plan(name)]
        return drawing.with_duty(card, found, pen) if found or card.on_duty else card

    def _critical(self, call: ShownCall) -> list[str]:
        return critical_arguments(self.tools, call.tool, call.schema_digest)

    def _pen(self, address: Address, directory: Directory) -> Pen:
        person = directory.people.get(address.person)
        language = language_of(person.language if person else "", self.language)
        zone = person.zone if person else "UTC"
        return Pen(language, self.public_url.rstrip("/"), names_in(directory), zone)


def _named_now(news: ApprovalProgressed, card: Card, directory: Directory, at: datetime) -> list[Person]:
    """Return whom an escalation or a delegation asks too: those on duty of whom it names who have not voted."""
    asked = people.on_duty_of(news.approvers, _case(card, directory, at))
    return [each.person for each in asked if not card.has_voted(each.person.id)]


def _told_now(deliveries: list[Delivery], directory: Directory) -> Iterator[Address]:
    """Yield where those who were told are told now: people who have another address since are told there."""
    for each in deliveries:
        address = rules.told_at(each.address, directory)
        if address is not None and each.state is not State.ASLEEP:
            yield address


def _case(card: Card, directory: Directory, at: datetime) -> Case:
    return Case(directory, card.requested_by, at, card.agent, excludes=card.excludes, opened_by=card.opened_by)


def _asking(card: Card, address: Address, news: ApprovalProgressed, named: list[Person]) -> Card:
    """Return the card of an address with whom news ask too; whom it asked before where they name nobody."""
    return replace(card, asks=_called(address, named)) if news.approvers else card


def _called(address: Address, asked: list[Person]) -> list[str]:
    """Return the ids of people whom a card at an address calls one by one: none where they are too many."""
    few = address.kind in rules.IN_PLACE and len(asked) <= ASKED_MAX
    return [identity_of(each.id) for each in asked] if few else []

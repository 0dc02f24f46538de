"""What becomes of deliveries: whom to tell, what news does to a card, how often to try. Pure; time is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from placet.contracts.ids import derived_id
from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ApprovalRule
from placet.contracts.transitions import ExpectedRace
from placet.domain.directory import Directory
from placet.notifier import people
from placet.notifier.cards import DOUBT, Address, Card, kind_of
from placet.notifier.people import Asked, Case
from placet.notifier.states import MACHINE, Event, State

#: Seconds before the n-th further try of a card.
RETRY_SECONDS = (1, 5, 30, 120, 600)
#: Tries of a card of which its channel says itself when the next one may be: it is busy, and not broken.
ASKED_TRIES_MAX = 20
#: Part of an approval's time that is left for telling somebody after all: the last quarter, and so much at most.
RESERVE_SHARE = 4
RESERVE_MAX = timedelta(minutes=30)
#: The channel of a rule that names none.
LOG = "log"
#: Kinds of channels that tell people one by one: each who may decide has a delivery of their own.
PERSONAL = frozenset({"email"})

#: Kinds of channels whose cards change where they stand, so that small news need not be told anew.
IN_PLACE = frozenset({"slack"})


@dataclass(frozen=True, slots=True)
class Delivery:
    """One card of one approval at one address."""

    delivery_id: str
    tenant: str
    approval_id: str
    call_id: str
    address: Address
    state: State
    #: The approval's revision that the card shows, and the one that the surface shows.
    revision: int
    card: Card
    #: When it is due; of one asleep, from when on somebody there may decide.
    due_at: datetime
    #: Number of the address among those that the rule names.
    rank: int = 0
    #: What its tool does to what; empty where it stands alone.
    topic: str = ""
    #: Whether operators were told that nobody could be told of its approval.
    alerted: bool = False
    #: True: quiet hours and the number of waiting cards do not hold it up.
    urgent: bool = False
    #: From then on nothing holds it up, where nobody was told; None: nothing has to be told in time any more.
    tell_by: datetime | None = None
    sent_revision: int = 0
    #: Number of the card itself: every change of it makes the next.
    version: int = 1
    sent_version: int = 0
    #: What the channel needs to find the card again; None until it was tried, with DOUBT while nobody knows what
    #: became of a try.
    reference: Mapping[str, str] | None = None
    #: Tries of this version; and the number of the newest claim, of all there ever were.
    attempt: int = 0
    fence: int = 0
    error: str = ""
    #: Key of the mail that asks about this card and others; empty where it is told alone. Another card is told anew.
    joint: str = ""

    @property
    def key(self) -> str:
        """What a repeated try of the same card has in common, and no other card but those of the same mail."""
        return self.joint or f"{self.delivery_id}-{self.version}"

    @property
    def waits_for_hours(self) -> bool:
        """Whether it was never tried, because it is yet to come: in working hours, or when quiet ones are over."""
        return self.state is State.DUE and not self.fence and not self.urgent and self.card.is_open

    @property
    def was_shown(self) -> bool:
        """Whether the surface shows the card, in whatever version."""
        return self.sent_version > 0

    @property
    def may_be_shown(self) -> bool:
        """Whether the surface shows the card, or nobody can tell: not every try of it was answered."""
        return self.was_shown or DOUBT in (self.reference or {})

    @property
    def was_kept_away(self) -> bool:
        """Whether no try that anybody heard of has shown the card."""
        return not self.was_shown and (self.reference or {}).keys() <= {DOUBT}


@dataclass(frozen=True, slots=True)
class Place:
    """An address, and when it is told; of one that is told later if at all, when it may be."""

    address: Address
    at: datetime


@dataclass(frozen=True, slots=True)
class Moved:
    """What an event did to a delivery; `after` is `before` itself where it came too late."""

    before: Delivery
    after: Delivery
    event: Event

    @property
    def changed(self) -> bool:
        """Whether anything is to be stored."""
        return self.after is not self.before


def channels_of(rule: ApprovalRule) -> list[str]:
    """Return the channels that a rule names, once each, in its order; the log where it names none."""
    return list(dict.fromkeys(rule.channels)) or [LOG]


def first_addresses(rule: ApprovalRule, case: Case) -> list[Place]:
    """Return where an approval is shown first, and when: as soon as it opens, or in the working hours of a group."""
    return _once(_places(channels_of(rule), people.first_people(rule, case), case))


def later_places(rule: ApprovalRule, case: Case) -> list[Place]:
    """Return where an approval may be shown later: who is off duty, then whom only its escalations name.

    They may be told ahead of an escalation's time where somebody there may decide without it.
    """
    first = [place.address for place in first_addresses(rule, case)]
    case = replace(case, excludes=rule.exclude, waits=False)
    everybody = people.everybody(rule, case)
    able = {each.person.id for each in everybody}
    named = {*people.named_by(rule), *rule.veto}
    later = list(_places(channels_of(rule), everybody, case))
    for step in sorted(rule.escalations, key=lambda each: each.after_seconds):
        asked = people.all_of(step.approvers, case)
        asks_able = not named.isdisjoint(step.approvers) or any(each.person.id in able for each in asked)
        begins = case.at + timedelta(seconds=step.after_seconds)
        for place in escalation_places(step.channels, channels_of(rule), asked, case):
            person = place.address.person
            now = person in able if person else asks_able
            later.append(place if now else replace(place, at=begins))
    return [place for place in _once(later) if place.address not in first]


def told_at(address: Address, directory: Directory) -> Address | None:
    """Return where whom an address means is told now: a person at the first of theirs; None where nowhere."""
    if not address.person:
        return address
    person = directory.people.get(address.person)
    return replace(address, recipient=person.emails[0]) if person and person.active and person.emails else None


def escalation_places(channels: Iterable[str], told: Iterable[str], asked: Iterable[Asked], case: Case) -> list[Place]:
    """Return where an escalation asks: its channels, and whoever it names by the personal channels used so far."""
    named = [*channels, *(channel for channel in told if kind_of(channel) in PERSONAL)]
    return _once(_places(named, asked, case))


def _places(channels: Iterable[str], asked: Iterable[Asked], case: Case) -> Iterator[Place]:
    asked = list(asked)
    for channel in channels:
        kind, _, name = channel.partition(":")
        if kind not in PERSONAL:
            yield Place(Address(channel, name), case.at)
            continue
        reachable = [each for each in asked if each.person.emails]
        yield from (Place(Address(channel, each.person.emails[0], each.person.id), each.at) for each in reachable)
        if not reachable:
            # Nobody to write to: the delivery fails for good, and what follows from that follows.
            yield Place(Address(channel), case.at)


def _once(places: Iterable[Place]) -> list[Place]:
    found: dict[tuple[str, str], Place] = {}
    for each in places:
        found.setdefault((each.address.channel, each.address.recipient), each)
    return list(found.values())


def opened(
    news: ApprovalOpened,
    place: Place,
    state: State,
    card: Card,
    at: datetime,
    *,
    topic: str = "",
    rank: int = 0,
) -> Delivery:
    """Return the delivery of a call that begins to wait for people; its place may be told later than `at`."""
    address = place.address
    waits = place.at > at and state is State.DUE
    return Delivery(
        delivery_id=delivery_id(news.approval_id, address),
        tenant=news.tenant,
        approval_id=news.approval_id,
        call_id=news.call.call_id,
        address=address,
        state=state,
        revision=news.revision,
        card=card,
        due_at=place.at,
        error=f"working hours begin at {place.at.isoformat(timespec='minutes')}" if waits else "",
        tell_by=tell_by(at, card.deadline),
        topic=topic,
        rank=rank,
    )


def tell_by(at: datetime, deadline: datetime | None) -> datetime | None:
    """Return from when nothing holds up a card that came at `at`; None where its approval has no deadline."""
    if deadline is None:
        return None
    return deadline - min(max(timedelta(0), deadline - at) / RESERVE_SHARE, RESERVE_MAX)


def joined(other: Delivery, address: Address, card: Card, at: datetime) -> Delivery:
    """Return the delivery at an address that is asked too, of an approval whose card `other` shows elsewhere."""
    return Delivery(
        delivery_id=delivery_id(other.approval_id, address),
        tenant=other.tenant,
        approval_id=other.approval_id,
        call_id=other.call_id,
        address=address,
        state=State.DUE,
        revision=other.revision,
        card=card,
        due_at=at,
        tell_by=other.tell_by,
        topic=other.topic,
        urgent=True,
    )


def delivery_id(approval_id: str, address: Address) -> str:
    """Return the id of the one delivery of an approval to an address."""
    return derived_id("delivery", approval_id, address.channel, address.recipient)


def revised(delivery: Delivery, card: Card, at: datetime) -> Moved:
    """Return the delivery as a newer card leaves it: due, unless it sleeps, is kept or was given up."""
    ended = delivery.card.is_open and not card.is_open
    event = Event.ENDED if ended else Event.REVISED
    if delivery.state is State.GIVEN_UP and not delivery.may_be_shown:
        # Nothing is to be put right there.
        event = Event.REVISED
    more_time = _more_time(delivery.card, card)
    last = delivery.tell_by and delivery.tell_by + more_time
    return _fired(delivery, event, at, card=card, revision=max(delivery.revision, card.revision), tell_by=last)


def _more_time(before: Card, after: Card) -> timedelta:
    if before.deadline is None or after.deadline is None:
        return timedelta(0)
    return after.deadline - before.deadline


def unchanged(delivery: Delivery) -> Moved:
    """Return what news does that is older than the card: nothing."""
    return Moved(delivery, delivery, Event.REVISED)


def woken(delivery: Delivery, event: Event, at: datetime) -> Moved:
    """Return the delivery as it is when its place is told too: by an escalation, or because nobody else could be."""
    return _restarted(delivery, event, at, urgent=True)


def asked_now(delivery: Delivery, at: datetime, *, escalates: bool) -> Moved:
    """Return a delivery whose place is asked now: awake, and where it waits for working hours, at once."""
    if escalates and delivery.waits_for_hours:
        return hurried(delivery, at)
    moved = woken(delivery, Event.ESCALATED, at)
    # Whoever was alarmed because nobody could be told hears of it if nobody can be told by an escalation either.
    return replace(moved, after=replace(moved.after, alerted=False)) if moved.changed else moved


def hurried(delivery: Delivery, at: datetime) -> Moved:
    """Return a delivery that waits to be shown as one that nothing holds up any more."""
    state = MACHINE.next_state(delivery.state, Event.HURRIED)
    after = replace(delivery, state=state, urgent=True, due_at=min(delivery.due_at, at), joint="")
    return Moved(delivery, after, Event.HURRIED)


def retried(delivery: Delivery, at: datetime) -> Moved:
    """Return a given-up delivery as an operator wants it: due again. One that was not given up stays as it is."""
    return _restarted(delivery, Event.RETRIED, at, alerted=False)


def _restarted(delivery: Delivery, event: Event, at: datetime, **changes: Any) -> Moved:
    """Fire an event that makes a delivery due with a clean record; an expected race changes nothing."""
    try:
        state = MACHINE.next_state(delivery.state, event)
    except ExpectedRace:
        return Moved(delivery, delivery, event)
    return Moved(delivery, replace(delivery, state=state, due_at=at, attempt=0, error="", joint="", **changes), event)


def _fired(delivery: Delivery, event: Event, at: datetime, **changes: Any) -> Moved:
    """Fire an event that changes what a surface should show; an expected race changes the card and nothing else."""
    state = MACHINE.after(delivery.state, event)
    if delivery.state is State.SPARED:
        return Moved(delivery, delivery, event)
    due: dict[str, Any] = {"due_at": at, "attempt": 0, "error": ""} if state is State.DUE else {}
    if "card" in changes:
        changes |= {"version": delivery.version + 1, "joint": ""}
        if delivery.waits_for_hours and changes["card"].is_open and delivery.due_at > at:
            # News make nothing of it urgent.
            due = {}
    return Moved(delivery, replace(delivery, state=state, **changes, **due), event)


@dataclass(frozen=True, slots=True)
class Tried:
    """A claimed delivery after one try."""

    #: As it was before the claim put its reference in doubt.
    claimed: Delivery
    #: What the channel needs to find the card again; None where the try failed and that is not known.
    reference: Mapping[str, str] | None = None
    #: Why it failed; empty where it did not.
    error: str = ""
    retry_after_seconds: float | None = None
    permanent: bool = False
    #: Whether nothing of a failed try arrived, so that nobody is in doubt about it.
    refused: bool = False
    #: False: the channel had nothing to show, so the surface stands as it stood.
    shown: bool = True


def settled(now: Delivery, tried: Tried, at: datetime) -> Moved:
    """Return the delivery after a try, where `now` is how it stands: news may have come while it was sent."""
    claimed = tried.claimed
    wait = None if tried.permanent else retry_after(claimed.attempt, tried.retry_after_seconds)
    event = Event.OUTDATED
    if now.version == claimed.version:
        event = _outcome(now, tried, wait)
    state = MACHINE.after(now.state, event)
    if not tried.error:
        attempt = 0 if state is State.DUE else now.attempt
        after = replace(now, reference=dict(tried.reference or {}), error="", state=state, attempt=attempt)
        if tried.shown:
            after = replace(after, sent_revision=claimed.revision, sent_version=claimed.version)
        return Moved(now, after, event)
    found = tried.reference or claimed.reference
    reference = found if tried.refused else {**(found or {}), DOUBT: "yes"}
    after = replace(now, state=state, error=tried.error, reference=reference)
    if state is not State.GIVEN_UP:
        pause = timedelta(seconds=wait or tried.retry_after_seconds or 0)
        after = replace(after, attempt=claimed.attempt, due_at=at + pause)
    return Moved(now, after, event)


def noted(delivery: Delivery, at: datetime) -> Moved:
    """Return a delivery once the log has its line, where that is all it waits for: no worker has to send a line."""
    if delivery.address.kind != LOG or delivery.state is not State.DUE:
        return unchanged(delivery)
    return settled(delivery, Tried(delivery), at)


def _outcome(now: Delivery, tried: Tried, wait: float | None) -> Event:
    if tried.error:
        return Event.FAILED if wait is not None else Event.FAILED_FOR_GOOD
    was_told = tried.shown or tried.claimed.may_be_shown
    return Event.SUCCEEDED if was_told or now.card.is_open else Event.UNNEEDED


def bounced(now: Delivery, reason: str) -> Moved:
    """Return the delivery of a card that its channel had taken and that came back."""
    try:
        state = MACHINE.next_state(now.state, Event.BOUNCED)
    except ExpectedRace:
        return Moved(now, now, Event.BOUNCED)
    return Moved(now, replace(now, state=state, error=reason), Event.BOUNCED)


def may_be_unannounced(closed: ApprovalClosed) -> bool:
    """Tell whether an approval may end without ever having been announced: its call was withdrawn before it was held.

    Nobody has a card of it then, and nobody will.
    """
    return closed.unopened


def retry_after(attempt: int, asked_seconds: float | None = None) -> float | None:
    """Return the seconds to wait after the given failed attempt (1 for the first); None to give up.

    `asked_seconds` is what the channel itself asked for, such as Slack's Retry-After: no more than that is waited.
    """
    if asked_seconds is not None:
        return asked_seconds if attempt < ASKED_TRIES_MAX else None
    return RETRY_SECONDS[attempt - 1] if attempt <= len(RETRY_SECONDS) else None

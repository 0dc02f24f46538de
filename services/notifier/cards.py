"""The card: what every surface shows of one approval, made from stored bytes alone. Pure.

Nothing here comes from the agent's prose but `quote`, which every surface shows as a quote. Every text is visible:
what hides in it (control, bidirectional and invisible characters) stands there as its code point. Redacted values are
masked in the arguments that people may see, and other arguments never come here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter

from placet.domain.approvers import identity_of, name_of
from placet.domain.duty import WhyAll
from placet.domain.grants import AGAIN_SECONDS
from placet.surfaces.card import Argument
from placet.surfaces.duty import duty_words

#: How the execution of an approved call ended; empty while it has not.
Ended = Literal["", "succeeded", "failed", "unknown"]
CardState = Literal["pending", "approved", "denied", "answered", "expired", "withdrawn"]
#: Stands in a reference where a try before this one was not answered: nobody can tell what of it arrived.
DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Address:
    """One place that shows a card."""

    #: As the rule names it: `log`, `email`, `slack:#ops`, `webhook:crm`.
    channel: str
    #: Who or what is meant there: a Slack channel, an e-mail address, the name of a webhook; empty for the log.
    recipient: str = ""
    #: Id of the person in the directory, without the prefix; empty where a place is meant and nobody in person.
    person: str = ""

    @property
    def kind(self) -> str:
        """Which Channel does it: `slack` for `slack:#ops`."""
        return kind_of(self.channel)


def kind_of(channel: str) -> str:
    """Return which Channel does what a rule names: `slack` for `slack:#ops`."""
    return channel.partition(":")[0]


@dataclass(frozen=True, slots=True)
class VoteShown:
    """One person's vote. Which way it went is told when the approval is over: `decision` is empty before."""

    person: str
    decision: Literal["", "approve", "deny", "abstain"] = ""
    reason: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CommentShown:
    """What somebody said about an approval; it decides nothing."""

    comment_id: str
    person: str
    words: str
    #: Whether it asks the requester something.
    question: bool = False


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One staged entry of a commit, as one line."""

    call_id: str
    words: str
    kind: Literal["change", "call"] = "change"
    #: What looks like a trick in it.
    warnings: list[str] = field(default_factory=list)
    #: What became of it; empty while nothing has: `left_out`, `committed`, `succeeded`, `failed` ….
    outcome: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class DutyShown:
    """Who of a group is told first."""

    group: str
    #: Identities of those on duty; empty where the whole group is told.
    people: list[str] = field(default_factory=list)
    until: datetime | None = None
    #: Why the whole group is told; empty where it is not.
    why_all: WhyAll = ""


@dataclass(frozen=True, slots=True)
class Card:
    """What a surface shows of an approval. All texts for people are in the language `locale`."""

    approval_id: str
    tenant: str
    conversation_id: str
    agent: str = ""
    tool: str = ""
    #: What will happen, in one sentence: the tool's template filled from the stored arguments.
    summary: str = ""
    #: Whoever asked in the conversation.
    requested_by: str = ""
    #: How people call those whom the card names: identity -> name.
    names: dict[str, str] = field(default_factory=dict)
    #: Why it is held, in the rule's words, and the rule's name.
    reason: str = ""
    rule: str = ""
    arguments: list[Argument] = field(default_factory=list)
    #: Further arguments that are left out because there are too many; the page of the approval has all.
    arguments_left_out: int = 0
    #: Of a commit: what it would do in one line, its entries as far as the card has room, and how many there are.
    plan_head: str = ""
    plan: list[PlanLine] = field(default_factory=list)
    plan_entries: int = 0
    #: What became of all of them in one line; empty while nothing has.
    plan_outcome: str = ""
    #: What the agent said when it proposed the call, cut; empty where it said nothing. Never shown as fact.
    quote: str = ""
    #: The requester's message that led to it, cut; empty where it must not be seen. Never shown as fact.
    asked: str = ""
    #: What looks like a trick: mixed scripts, invisible characters.
    warnings: list[str] = field(default_factory=list)
    #: SHA-256 of what would run, whole: a decision names it.
    digest: str = ""
    #: Number of the approval's revision; a lower one is older.
    revision: int = 1
    state: CardState = "pending"
    deadline: datetime | None = None
    votes: list[VoteShown] = field(default_factory=list)
    #: What decides, in words: `2 of finance`.
    needed: str = ""
    #: Who is on duty in groups that it asks and that have an on-call plan.
    on_duty: list[DutyShown] = field(default_factory=list)
    #: Whether those on duty could be too few, or not the right ones: an escalation asks whole groups then.
    asks_all: bool = False
    #: Whom four eyes exclude from deciding: `requester`, `agent_owner`.
    excludes: list[str] = field(default_factory=list)
    #: Who may have asked beside the requester when it was opened, where four eyes exclude them.
    opened_by: str = ""
    #: Ids of whom it asks, where they are few enough to be called one by one; only on cards that can do that.
    asks: list[str] = field(default_factory=list)
    #: What people said about it, the newest only; only on cards that have a thread.
    comments: list[CommentShown] = field(default_factory=list)
    #: Why an administrator has stopped such calls, as they wrote it; empty while nobody has. What cannot change in
    #: place says how it was when it was sent.
    stopped: str = ""
    #: When the house was restored from a backup since it was asked, Unix microseconds: the call may have run in the
    #: meantime. 0: it was not.
    restored: int = 0
    #: Who said "I'm on it".
    claimed_by: str = ""
    #: How long that holds; it binds nobody.
    claimed_until: datetime | None = None
    #: What happened last, as one sentence.
    note: str = ""
    #: What kind of news the note tells: `opened`, `voted`, `reminded`, `escalated`, `closed`, `running`, `finished` ….
    #: Of a reminder and an escalation people are told anew; a channel that can, puts them into the card's thread.
    happened: str = "opened"
    decided_by: str = ""
    #: The deciding person's words.
    decision_reason: str = ""
    ended: Ended = ""
    #: How much of its work an approved call that runs has done, in steps of ten.
    percent: int = 0
    #: Error text of a call that failed, cut; empty otherwise, and where the call has redacted arguments.
    error: str = ""
    #: Language of the card's texts: `en`, `de` or `tr`.
    locale: str = "en"
    #: How surely a person must be known to decide: `link`, `chat`, `slack` or `web`.
    strength: str = "link"
    #: Whether a person may change the arguments, or must say why they decide as they do.
    edits: bool = False
    reason_required: Literal["never", "deny", "always"] = "never"
    #: How many of the same calls the narrowest grant covers that is offered with an approval, and what may vary in
    #: them, and for how long; 0: none is offered.
    again_uses: int = 0
    again_bounds: list[str] = field(default_factory=list)
    again_seconds: int = AGAIN_SECONDS
    #: `high`: never kept back, and decided in no batch.
    risk: Literal["normal", "high"] = "normal"
    #: Further approvals of the same tool and target that wait and are not shown on a card of their own.
    similar: int = 0
    #: Further approvals of other kinds that are kept back here because enough wait; the inbox has them.
    held_back: int = 0
    #: The approval's page; empty where nobody said which address browsers use.
    url: str = ""

    def called(self, identity: str) -> str:
        """Return the one name that this card has for somebody."""
        return self.names.get(identity) or name_of(identity)

    def duty_lines(self, when: Callable[[datetime], str]) -> list[str]:
        """Return who is on duty, a line for each group; `when` writes a moment."""
        return [
            duty_words(
                self.locale,
                each.group,
                map(self.called, each.people),
                when(each.until) if each.until else "",
                each.why_all,
            )
            for each in self.on_duty
        ]

    @property
    def news(self) -> str:
        """What happened last and with which revision: a card that only counts anew has the news that it had."""
        return f"{self.happened}-{self.revision}"

    @property
    def is_open(self) -> bool:
        """Whether people can still decide."""
        return self.state == "pending"

    def has_voted(self, person: str) -> bool:
        """Tell whether a person (an id of the directory) has voted on what would run; an edit is its maker's vote."""
        return any(vote.person == identity_of(person) for vote in self.votes)

    @property
    def shows_all(self) -> bool:
        """Whether everything that would happen stands on it."""
        return self.plan_entries <= len(self.plan)

    @property
    def batchable(self) -> bool:
        """Whether it may be counted on another card, and be decided together with others."""
        return self.risk == "normal"


_CARD = TypeAdapter(Card)


def as_json(card: Card) -> dict[str, Any]:
    """Return the card as a JSON object, the form that is stored."""
    stored: dict[str, Any] = _CARD.dump_python(card, mode="json")
    return stored


def from_json(stored: dict[str, Any]) -> Card:
    """Return the card of a stored JSON object; parts that this version does not know are passed over."""
    return _CARD.validate_python(stored)

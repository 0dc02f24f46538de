"""Which mail a card needs, and the thread that it belongs to. Pure.

Not every revision is worth a mail: people are asked once, reminded, asked again where the call changed, and told how
it ended. Who has voted on what would run is not asked about it again, and who decided is only told how it ran.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from placet.domain.approvers import identity_of
from placet.notifier.cards import DOUBT, Card

#: Digits of a mail's id, hexadecimal: 128 bits.
ID_DIGITS = 32
#: Message ids that a mail refers to at most: the first of its thread, and the last ones.
REFERENCES_MAX = 10
#: News of a waiting approval that people are mailed about.
_URGENT = frozenset({"reminded", "escalated"})


class Kind(StrEnum):
    """What a mail says."""

    ASKED = "asked"  # something waits for you
    AGAIN = "again"  # it still does: a reminder or an escalation
    CLOSED = "closed"  # it is over
    FINISHED = "finished"  # it ran, and how that ended


#: Mails that somebody decides with.
ASKING = frozenset({Kind.ASKED, Kind.AGAIN})


@dataclass(frozen=True, slots=True)
class Told:
    """What a person's mails about one approval have said so far; kept as the delivery's reference."""

    #: Digest of the call that they know; being asked about another one begins a new thread.
    digest: str = ""
    state: str = ""
    ended: str = ""
    #: Message ids of the thread, oldest first.
    ids: tuple[str, ...] = ()
    #: What had happened: nobody is reminded twice by one reminder.
    news: str = ""
    #: Whether they may have a mail of which the relay's answer did not come.
    in_doubt: bool = False

    def as_reference(self) -> dict[str, str]:
        """Return the form that is stored."""
        kept = {"digest": self.digest, "state": self.state, "ended": self.ended, "news": self.news}
        return kept | {"ids": " ".join(self.ids)} | ({DOUBT: "yes"} if self.in_doubt else {})

    def after(self, card: Card, message_id: str = "") -> Told:
        """Return what is told once `card` is, in the mail `message_id` where there was one."""
        # Being asked about another call begins a thread. What became of it does not: that belongs to what was asked.
        begins = message_id and card.is_open and self.digest != card.digest
        ids = () if begins else self.ids
        if message_id and message_id not in ids:
            ids = (*ids, message_id)
            ids = ids if len(ids) <= REFERENCES_MAX else (ids[0], *ids[1 - REFERENCES_MAX :])
        # How the call ended may be heard before its approval's end: it is told with that, and not told before.
        ended = "" if card.is_open else card.ended
        return Told(card.digest, card.state, ended, ids, card.news, self.in_doubt and not ids)


def told_from(reference: Mapping[str, str] | None) -> Told:
    """Return what a reference says; nothing was told where there is none."""
    if not reference:
        return Told()
    digest, state, ended, news = (reference.get(name, "") for name in ("digest", "state", "ended", "news"))
    return Told(digest, state, ended, tuple(reference.get("ids", "").split()), news, DOUBT in reference)


def kind_for(card: Card, told: Told, person: str) -> Kind | None:
    """Return which mail a person (an id of the directory) needs now; None where the card tells nothing worth one."""
    if card.is_open:
        return _asking(card, told, person)
    if not (told.ids or told.in_doubt):
        # Nobody was asked, so nobody waits to hear how it ended.
        return None
    if card.ended and card.ended != told.ended:
        return Kind.FINISHED
    if card.state != told.state and card.decided_by != identity_of(person):
        return Kind.CLOSED
    return None


def _asking(card: Card, told: Told, person: str) -> Kind | None:
    if card.has_voted(person):
        return None
    if not told.ids or told.digest != card.digest:
        return Kind.ASKED
    return Kind.AGAIN if card.happened in _URGENT and card.news != told.news else None


def mail_id(key: str) -> str:
    """Return the id of the mail that a delivery's key stands for: the same whenever it is tried again."""
    return hashlib.sha256(key.encode()).hexdigest()[:ID_DIGITS]


def message_id(mail: str, domain: str) -> str:
    """Return the Message-ID of a mail."""
    return f"<{mail}@{domain}>"


def envelope_sender(bounces: str, mail: str) -> str:
    """Return the address that bounces of a mail come back to, with its id in it: `bounces+<id>@example.org`."""
    local, _, domain = bounces.rpartition("@")
    return f"{local}+{mail}@{domain}"

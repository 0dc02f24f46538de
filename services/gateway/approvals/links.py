"""Mailed links: what one is good for, and the seal that a page must bring back. Pure, but for the count of guesses.

A link identifies one person about one approval. Whoever has the mail has the link, and mail gateways open it, follow
it and may even fill in and send what they find: so showing it changes nothing, and deciding takes a seal from the shown
page, a choice that no page makes by itself, and the code that only the mail's text has.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from math import ceil
from typing import Any

from placet.contracts.messages.approvals import strengths_met
from placet.contracts.messages.tool_calls import Category
from placet.domain.directory import Directory

#: How long a shown page may be sent, in seconds; then it is shown anew.
PAGE_SECONDS = 3600
#: Digits of the digest that must be typed where a call is dangerous.
CODE_DIGITS = 4
#: What is only decided by somebody who types the code.
_DANGEROUS = frozenset({Category.UNSAFE_EXEC})
#: The windows in which guesses of links and of one link's code are counted, in seconds.
GUESS_SECONDS, CODE_SECONDS = 60.0, 900.0
#: How long a decision without an answer may still count, in seconds; then it is taken for lost, and the link is good.
SENT_SECONDS = 60
#: Wrong codes in that window after which a link rests until it is over.
CODES_MAX = 5
#: Addresses, or links, that are remembered at most.
REMEMBERED_MAX = 10_000

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_PURPOSE = b"placet-link-page"


class Standing(StrEnum):
    """What a link is good for now."""

    OPEN = "open"  # its person may decide with it
    VOTED = "voted"  # its person has voted elsewhere, others still have to, and it may change that vote
    UNKNOWN = "unknown"  # no link of ours, or its person is none any more, or is no longer at its address
    OVER = "over"  # the approval is over
    LAPSED = "lapsed"  # it is too old
    SENT = "sent"  # its person's decision is on its way
    USED = "used"  # its person decided with it, and others may still have to
    CHANGED = "changed"  # the call is not the one that the mail was about
    RESTING = "resting"  # too many wrong codes were typed: it is good again in a while
    NOT_ASKED = "not_asked"  # its person may not decide as things are now
    TOO_WEAK = "too_weak"  # the rule wants its people known more surely than a link knows them


@dataclass(frozen=True, slots=True)
class Link:
    """One link that was mailed."""

    token_hash: str
    tenant: str
    approval_id: str
    #: `person:<id>`.
    person: str
    #: The address that it was mailed to.
    recipient: str
    #: Of the call that the mail was about.
    digest: str
    #: Of the code that the mail says beside it.
    code_hash: str
    #: Whether it has time left, by the database clock.
    alive: bool


@dataclass(frozen=True, slots=True)
class Use:
    """What somebody decided, with a link or elsewhere."""

    verb: str
    at: datetime
    #: False: nobody knows yet whether it counts.
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Seal:
    """What a shown page said, and when: it comes back with the decision."""

    digest: str
    revision: int
    #: Seconds since the epoch.
    shown_at: int

    def of(self, token: str) -> str:
        """Return the seal that only who has the token can make."""
        text = f"{self.digest}.{self.revision}.{self.shown_at}".encode()
        return hmac.new(token.encode(), _PURPOSE + b"." + text, hashlib.sha256).hexdigest()

    def holds(self, token: str, seal: str, now: float) -> bool:
        """Tell whether a page with this seal was shown, and not too long ago."""
        fresh = 0 <= now - self.shown_at <= PAGE_SECONDS
        return hmac.compare_digest(self.of(token).encode(), seal.encode()) and fresh


def token_hash(token: str) -> str | None:
    """Return what is stored of a token; None for a text that no token looks like."""
    return hashlib.sha256(token.encode()).hexdigest() if _TOKEN.fullmatch(token) else None


def standing(
    link: Link | None, approval: Mapping[str, Any] | None, use: Use | None, vote: Use | None, directory: Directory
) -> Standing:
    """Return what a link is good for: its approval as it is now, what it was used for, and its person's vote so far."""
    if link is None or approval is None or not _is_at(link.recipient, link.person, directory):
        return Standing.UNKNOWN
    past = (
        (approval["state"] != "pending", Standing.OVER),
        (not link.alive, Standing.LAPSED),
        (use is not None and not use.counted, Standing.SENT),
        # A vote on what the call was counts no more, and its person is asked anew: by another mail.
        (vote is None and link.digest != approval["digest"], Standing.CHANGED),
        (use is not None, Standing.USED),
        (link.digest != approval["digest"], Standing.CHANGED),
    )
    for is_so, found in past:
        if is_so:
            return found
    if link_is_enough(approval):
        return Standing.OPEN if vote is None else Standing.VOTED
    return Standing.TOO_WEAK


def link_is_enough(approval: Mapping[str, Any]) -> bool:
    """Tell whether the rule lets somebody decide who is known by a mailed link alone; a rule that says nothing not."""
    return approval["approval_rule"].get("min_strength") in strengths_met("link")


def code_of(approval: Mapping[str, Any]) -> str:
    """Return what must be typed to decide; empty where nothing must."""
    return approval["digest"][-CODE_DIGITS:] if approval["category"] in _DANGEROUS else ""


def _is_at(address: str, identity: str, directory: Directory) -> bool:
    """Tell whether somebody is active and has this address: whoever reads what is sent to an old one is not them."""
    person = directory.person(identity)
    return person is not None and person.active and address in person.emails


@dataclass
class Guesses:
    """Counts wrong guesses by who makes them, or by what they are about: after too many, none is looked at for a time.

    Links that do not exist are counted by the address that tries them, wrong codes by the link.
    """

    most: int
    seconds: float = GUESS_SECONDS
    clock: Callable[[], float] = time.monotonic
    _missed: dict[str, tuple[float, int]] = field(default_factory=dict)

    def too_many(self, key: str) -> bool:
        """Tell whether there were too many lately."""
        return self._count(key)[1] >= self.most

    def miss(self, key: str) -> None:
        """Note a wrong guess."""
        since, count = self._count(key)
        if key not in self._missed and len(self._missed) >= REMEMBERED_MAX:
            self._missed.pop(next(iter(self._missed)))
        self._missed[key] = (since, count + 1)

    def seconds_left(self, key: str) -> int:
        """Return how long it takes until guesses are looked at again, in whole seconds, at least one."""
        return max(1, ceil(self.seconds - (self.clock() - self._count(key)[0])))

    def _count(self, key: str) -> tuple[float, int]:
        now = self.clock()
        since, count = self._missed.get(key, (now, 0))
        return (since, count) if now - since < self.seconds else (now, 0)

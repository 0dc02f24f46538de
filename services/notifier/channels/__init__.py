"""Channels: where cards go. A channel shows one card at one address, and raises ChannelFailed where it could not.

A rule names a channel as `<kind>` or `<kind>:<name>`; one Channel does all of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from placet.contracts.errors import PlacetError
from placet.domain.card_text import printable
from placet.notifier.cards import Address, Card

__all__ = ["Address", "Card", "Channel", "ChannelFailed", "Delivered", "DividedChannel", "JointChannel", "sharing"]

#: Longest rest that whoever is told is taken at their word for.
RETRY_AFTER_MAX_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of a card that a channel took."""

    #: What the channel needs to find the card again, kept for its next update; `{}` where it needs nothing.
    reference: Mapping[str, str] = field(default_factory=dict)
    #: False: nothing on it was worth telling, or it is told with others later. The surface stands as it stood.
    shown: bool = True


class ChannelFailed(PlacetError):
    """The card did not arrive, or nobody can tell; the text says why, for operators, without secrets.

    It is tried again after `retry_after` seconds, RETRY_AFTER_MAX_SECONDS at most (the whole channel pauses so long,
    for all who share it), or after the usual pause where that is None. With `refused` or `permanent` what was asked
    last surely did not happen: nobody looks for it, and nobody is told the end of what they were not asked. With
    `permanent` no further try can help either: the delivery is given up. `reference` is set where the card is known to
    be there all the same.
    """

    reference: Mapping[str, str] | None = None

    def __init__(
        self, reason: str, retry_after: float | None = None, *, permanent: bool = False, refused: bool = False
    ) -> None:
        # Whoever is at the other end words it, in whatever bytes: the store takes no NUL and no half of a character.
        super().__init__(printable(reason))
        self.retry_after = None if retry_after is None else min(retry_after, RETRY_AFTER_MAX_SECONDS)
        self.permanent = permanent
        self.refused = refused or permanent


class Channel(Protocol):
    """One kind of place where people are told."""

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Show `card` at `address`: anew where `reference` is None, else in place of the one it refers to.

        DOUBT in `reference` means that it was tried before, and that nobody can tell whether it arrived; with nothing
        else in it, nobody can tell whether there is a card.

        Calls for one delivery never overlap and never go back to an older card. `key` is the same when the same card
        is tried again, and another for every change of it. Raise ChannelFailed where it did not arrive.
        """


@runtime_checkable
class JointChannel(Channel, Protocol):
    """A kind of place that can ask somebody about several calls at once."""

    async def send_joint(self, cards: Sequence[Card], address: Address, *, key: str) -> list[Delivered]:
        """Show cards of several approvals at once that were never shown at `address`; return what became of each.

        `key` is the same when the same cards are tried again. Raise ChannelFailed where none of them arrived.
        """


@runtime_checkable
class DividedChannel(Channel, Protocol):
    """A kind of place of which not all tenants have the same one: `slack:#ops` is another in each workspace."""

    def sharing(self, tenant: str) -> Iterable[str]:
        """Return the tenants who have the same one as `tenant`, itself among them."""


def sharing(channel: Channel | None, tenant: str) -> tuple[str, ...]:
    """Return for whom a channel is what it is for `tenant`: one empty name stands for all tenants.

    What is learned of a channel, that it rests or fails or is slow, is learned for these alone.
    """
    return tuple(channel.sharing(tenant)) if isinstance(channel, DividedChannel) else ("",)

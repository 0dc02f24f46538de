"""Channels: where cards go. A channel sends one card and raises ChannelFailed where it could not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from shared.errors import PlacetError


class ChannelFailed(PlacetError):
    """The card did not arrive; the worker tries again later."""


class Channel(Protocol):
    """One kind of place where people are told."""

    async def send(self, card: Mapping[str, Any], *, revision: int) -> None:
        """Show `card` as of `revision`, in place of any earlier one of the same approval."""

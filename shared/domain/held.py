"""What is known of a call that people decide about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class CalledFor(Protocol):
    """What a condition may know about the call."""

    @property
    def tool(self) -> str:
        """Name of the tool."""

    @property
    def agent(self) -> str:
        """Who proposed it."""

    @property
    def tenant(self) -> str:
        """Whose it is."""

    @property
    def requester(self) -> str:
        """Who wrote the message behind it."""

    @property
    def arguments(self) -> str:
        """JSON text."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Of the conversation."""


class HeldCall(CalledFor, Protocol):
    """The call that is decided about."""

    @property
    def conversation_id(self) -> str:
        """Where it was asked for: a token of another conversation says nothing here."""

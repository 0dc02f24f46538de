"""Text on its way out while a model writes it: transient, and gathered so that two hundred chats cost few envelopes.

The first piece goes out at once, because that is what a person waits for; later pieces gather for a moment. Nothing
depends on them: the whole text follows in a durable event.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from placet.agent.changes import Announce
from placet.agent.rules import Claim, storable
from placet.contracts.messages import ConversationDelta
from placet.runtime.work import Cause

#: Pause between two pieces of one text: at least, and at most, where very many are written at once.
GATHER_SECONDS, GATHER_SECONDS_MAX = 0.02, 0.08
#: How much longer the pause is for each text that is written at the same time.
_SECONDS_A_TEXT = 0.0004


def pause_among(texts: int) -> float:
    """Return the pause between two pieces, in seconds, where so many texts are written at once.

    Nobody reads faster than twelve pieces a second; two hundred readers cost half of what they would at every word.
    """
    return min(GATHER_SECONDS_MAX, max(GATHER_SECONDS, texts * _SECONDS_A_TEXT))


class Deltas:
    """Announces the text of one model step."""

    def __init__(
        self,
        claim: Claim,
        announce: Announce,
        *,
        gather_seconds: float = GATHER_SECONDS,
        while_waiting: bool = False,
    ) -> None:
        self._claim = claim
        self._while_waiting = while_waiting
        self._cause = Cause(**claim.cause)
        self._announce = announce
        self._gather_seconds = gather_seconds
        self._gathered: list[str] = []
        self._sent = 0
        self._quiet_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def add(self, text: str) -> None:
        """Take a piece of the model's text."""
        self._gathered.append(storable(text))
        loop = asyncio.get_running_loop()
        if loop.time() >= self._quiet_until:
            self.flush()
        elif self._timer is None:
            self._timer = loop.call_at(self._quiet_until, self.flush)

    async def start_over(self) -> None:
        """Tell the readers to forget the text so far: its attempt failed."""
        self._gathered.clear()
        self._stop_timer()
        if self._sent:
            self._sent = 0
            self._send("", reset=True)

    def flush(self) -> None:
        """Send what is left."""
        self._stop_timer()
        text = "".join(self._gathered)
        self._gathered.clear()
        if text:
            self._send(text, reset=False)
            self._sent += len(text)
            self._quiet_until = asyncio.get_running_loop().time() + self._gather_seconds

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, text: str, *, reset: bool) -> None:
        delta = ConversationDelta(
            **self._claim.ids,
            step=self._claim.step,
            message_id=self._claim.assistant_message_id,
            offset=self._sent,
            text=text,
            reset=reset,
            while_waiting=self._while_waiting,
        )
        self._announce(self._cause.event(delta, source="agent", time=datetime.now(UTC)))

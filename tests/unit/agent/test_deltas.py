"""Text on its way out while a model writes it."""

from __future__ import annotations

import asyncio

from placet.agent.deltas import GATHER_SECONDS, GATHER_SECONDS_MAX, Deltas, pause_among
from placet.agent.rules import Claim
from placet.contracts.messages import ConversationDelta, Event
from placet.runtime.work import Cause

CAUSE = Cause("event-1", "thread-1", "00-" + "a" * 32 + "-" + "b" * 16 + "-01")
AUTHOR = {"kind": "visitor", "id": "ada"}
CLAIM = Claim("acme", "assistant", "conversation-1", "turn-1", 2, 1, "message-1", AUTHOR, CAUSE.as_json())
FOREVER = 3600.0


class Heard:
    """What was announced."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.more = asyncio.Event()

    def __call__(self, event: Event) -> None:
        """Note an event."""
        self.events.append(event)
        self.more.set()

    def pieces(self) -> list[tuple[int, str, bool]]:
        """Return offset, text and reset of each piece."""
        found = [event.message for event in self.events if isinstance(event.message, ConversationDelta)]
        return [(delta.offset, delta.text, delta.reset) for delta in found]


async def test_first_piece_goes_out_at_once_and_later_ones_gather() -> None:
    """Nobody waits for the first word; what comes within the pause leaves together."""
    heard = Heard()
    deltas = Deltas(CLAIM, heard, gather_seconds=FOREVER)
    for piece in ("Hel", "lo", " there", "!"):
        await deltas.add(piece)
    assert [(0, "Hel", False)] == heard.pieces()
    deltas.flush()
    assert [(0, "Hel", False), (3, "lo there!", False)] == heard.pieces()


async def test_gathered_pieces_leave_when_the_pause_is_over() -> None:
    """A slow model's words are not kept back until its end."""
    heard = Heard()
    deltas = Deltas(CLAIM, heard, gather_seconds=0.001)
    await deltas.add("a")
    heard.more.clear()
    await deltas.add("b")
    await asyncio.wait_for(heard.more.wait(), 10)
    assert [(0, "a", False), (1, "b", False)] == heard.pieces()


async def test_text_of_a_failed_attempt_is_taken_back() -> None:
    """Readers are told once to forget what they saw, and the next attempt begins at offset 0."""
    heard = Heard()
    deltas = Deltas(CLAIM, heard, gather_seconds=FOREVER)
    await deltas.add("Hel")
    await deltas.add("lo")
    await deltas.start_over()
    await deltas.start_over()
    await deltas.add("Good")
    deltas.flush()
    assert [(0, "Hel", False), (0, "", True), (0, "Good", False)] == heard.pieces()


async def test_nothing_said_is_nothing_sent() -> None:
    """An answer without text announces nothing."""
    heard = Heard()
    deltas = Deltas(CLAIM, heard)
    await deltas.start_over()
    deltas.flush()
    assert [] == heard.events


async def test_pieces_belong_to_the_message_they_become() -> None:
    """A piece names conversation, turn and the coming assistant message, in the thread of its cause."""
    heard = Heard()
    await Deltas(CLAIM, heard).add("x\x00")
    (event,) = heard.events
    message = event.message
    assert isinstance(message, ConversationDelta)
    assert ("conversation-1", "turn-1", CLAIM.assistant_message_id, "x\ufffd") == (
        message.conversation_id,
        message.turn_id,
        message.message_id,
        message.text,
    )
    assert ("thread-1", "event-1", "a" * 32) == (event.correlation_id, event.causation_id, event.traceparent[3:35])


def test_the_pause_grows_with_the_crowd_and_has_bounds() -> None:
    """A lonely chat is as quick as can be; two hundred share the processors."""
    assert [GATHER_SECONDS, GATHER_SECONDS, 0.04, GATHER_SECONDS_MAX] == [pause_among(n) for n in (0, 50, 100, 1_000)]

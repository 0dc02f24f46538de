"""Following one turn: what its stream says, read as moves, until it is over or waits for people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from services.gateway.dialects.moves import Move, TurnReader
from services.gateway.live import Transient
from services.gateway.stream import Stream


@dataclass(frozen=True, slots=True)
class Heard:
    """What one signal of the stream made: some moves, or none where it was silence."""

    reader: TurnReader
    moves: Sequence[Move]
    #: Number of the last feed item that was read.
    number: int


async def follow_turn(stream: Stream, turn_id: str = "") -> AsyncIterator[Heard | None]:
    """Yield what happens in a turn, the next one that begins where none is named; None stands for silence.

    It ends with the turn, or with the stream.
    """
    reader, number = TurnReader(turn_id) if turn_id else None, stream.after
    async for signal in stream.signals():
        if signal is None:
            yield None
            continue
        if isinstance(signal, Transient):
            kind, data = signal.event, signal.data
        else:
            kind, data, number = signal["type"], signal["data"], signal["id"]
        if reader is None and kind == "turn" and data["state"] == "started":
            reader = TurnReader(data["turn_id"])
        if reader is None:
            continue
        yield Heard(reader, list(reader.read(kind, data)), number)
        if reader.ended:
            return

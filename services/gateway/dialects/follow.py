"""Following one turn: what its stream says, read as moves, until it is over or waits for people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    #: Number of the item with which it was joined where that went on already, else 0.
    first: int

    @property
    def message_id(self) -> str:
        """Id of the assistant message that it makes: the turn's, and where it was joined from."""
        return f"{self.reader.turn_id}.{self.first}" if self.first else self.reader.turn_id


async def follow_turn(stream: Stream, turn_id: str = "") -> AsyncIterator[Heard | None]:
    """Yield what happens in a turn; None stands for silence. It ends with the turn, or with the stream.

    Where none is named, it is the next one that begins, or the one that goes on and hears what was written meanwhile.
    """
    reader, number, first = TurnReader(turn_id) if turn_id else None, stream.after, 0
    async for signal in stream.signals():
        if signal is None:
            yield None
            continue
        if isinstance(signal, Transient):
            kind, data = signal.event, signal.data
        else:
            kind, data, number = signal["type"], signal["data"], signal["id"]
        if reader is None and _begins(kind, data):
            reader, first = TurnReader(data["turn_id"]), number if kind == "message" else 0
        if reader is None:
            continue
        yield Heard(reader, list(reader.read(kind, data)), number, first)
        if reader.ended:
            return


def _begins(kind: str, data: Mapping[str, Any]) -> bool:
    heard = kind == "message" and data["role"] == "assistant" and data.get("heard_meanwhile")
    return bool(heard or (kind == "turn" and data["state"] == "started"))

"""Following one turn: what its stream says, read as moves, until it is over or waits for people."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.gateway.dialects.moves import Move, TurnReader, spoken
from services.gateway.live import Transient
from services.gateway.stream import Stream


@dataclass(frozen=True, slots=True)
class HolderTold:
    """Who answers in the conversation is another from now on: {state, operator, text, …}."""

    data: Mapping[str, Any]


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


async def follow_turn(stream: Stream, turn_id: str = "") -> AsyncIterator[Heard | HolderTold | None]:
    """Yield what happens in a turn; None stands for silence. It ends with the turn, or with the stream.

    Where none is named, it is the next one that begins, or the one that goes on and hears what was written meanwhile,
    or what an operator says in the agent's place, whichever comes first.
    """
    reader, number, first = TurnReader(turn_id) if turn_id else None, stream.after, 0
    async for signal in stream.signals():
        if signal is None:
            yield None
            continue
        kind, data, number = unpacked(signal, number)
        if reader is None and begins(kind, data):
            reader, first = TurnReader(data["turn_id"]), number if kind == "message" else 0
        if kind == "holder":
            yield HolderTold(data)
        if reader is None and kind == "message" and data["role"] == "operator":
            yield Heard(TurnReader(data["message_id"]), [spoken(data)], number, 0)
            return
        if reader is None:
            continue
        yield Heard(reader, list(reader.read(kind, data)), number, first)
        if reader.ended:
            return


def unpacked(signal: Mapping[str, Any] | Transient, number: int) -> tuple[str, Mapping[str, Any], int]:
    """Return a signal's type and data, and the number of the last item: its own, or `number` where it has none."""
    if isinstance(signal, Transient):
        return signal.event, signal.data, number
    return signal["type"], signal["data"], signal["id"]


def begins(kind: str, data: Mapping[str, Any]) -> bool:
    """Tell whether an item begins a turn, or what a turn that goes on says to somebody who wrote meanwhile."""
    heard = kind == "message" and data["role"] == "assistant" and data.get("heard_meanwhile")
    return bool(heard or (kind == "turn" and data["state"] == "started"))

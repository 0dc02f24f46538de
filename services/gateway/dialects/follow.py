"""Following what answers one message: its stream, read as moves, until nothing comes any more, or people are asked.

That is a turn, and where it went on without a call that people had not decided, the later turns that tell what became
of it: a client that knows of no turns is told of them in one message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.gateway.dialects.moves import Call, Move, TurnEnded, spoken
from services.gateway.dialects.reader import Reader, Said
from services.gateway.live import Transient
from services.gateway.stream import Stream


@dataclass(frozen=True, slots=True)
class HolderTold:
    """Who answers in the conversation is another from now on: {state, operator, text, …}."""

    data: Mapping[str, Any]


@dataclass
class Replies:
    """The turns of a conversation that answer the same message, each under the id of the first one."""

    #: Id of a user's message -> the first turn that answers it.
    _first: dict[str, str] = field(default_factory=dict)
    #: Turn -> the first one that answers the same message.
    _of: dict[str, str] = field(default_factory=dict)

    def read(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take an item: the beginning of a turn says what it answers."""
        if kind == "turn" and data["state"] == "started" and data.get("message_id"):
            self._of[data["turn_id"]] = self._first.setdefault(data["message_id"], data["turn_id"])

    def first(self, turn_id: str) -> str:
        """Return the first turn that answers what this one does."""
        return self._of.get(turn_id, turn_id)


@dataclass
class Reply:
    """Reads what answers one message."""

    #: The turn that answers it first.
    turn_id: str
    #: Number of the item with which it was joined where that went on already, else 0.
    joined_at: int = 0
    reader: Reader = field(default_factory=Reader)
    #: The newest turn that answers it.
    newest: str = ""
    #: Whether a turn ended while calls of it were open: another one will tell what became of them.
    late: bool = False
    _replies: Replies = field(default_factory=Replies)

    def __post_init__(self) -> None:
        """Begin with the first turn."""
        self.newest = self.newest or self.turn_id

    @property
    def message_id(self) -> str:
        """Id of the assistant message that it makes: the turn's, and where it was joined from."""
        return f"{self.turn_id}.{self.joined_at}" if self.joined_at else self.turn_id

    @property
    def over(self) -> bool:
        """Whether the newest turn's end was told."""
        return self.reader.over(self.newest)

    @property
    def waits(self) -> bool:
        """Whether all its open calls wait for people, and there are some."""
        return all(call.waits for call in self._open.values()) and bool(self._open)

    @property
    def runs(self) -> bool:
        """Whether a call of it is open that nobody is asked about: its result is to come."""
        return any(not call.waits for call in self._open.values())

    @property
    def waiting(self) -> dict[str, str]:
        """Its calls that wait for people: call id -> approval id."""
        return {call_id: str(call.card["approval_id"]) for call_id, call in self._open.items() if call.waits}

    @property
    def _open(self) -> dict[str, Call]:
        calls = self.reader.calls.items()
        return {call_id: call for call_id, call in calls if not call.answered and self._is_ours(call.turn_id)}

    def read(self, kind: str, data: Mapping[str, Any], number: int = 0) -> Iterator[Move]:
        """Yield the moves of an item, or of a delta, which has no number; none where it is about something else."""
        self._replies.read(kind, data)
        if kind == "turn" and data["state"] == "started" and self._is_ours(data["turn_id"]):
            self.newest = data["turn_id"]
        if kind == "delta" and data["turn_id"] != self.turn_id and not self.reader.began(data["turn_id"]):
            # Pieces may come before the word that their turn began. Nobody knows then whose they are; the text follows.
            return
        for told in self.reader.read(kind, data, number):
            if isinstance(told.move, Said) or not self._is_ours(told.turn_id):
                continue
            if isinstance(told.move, TurnEnded):
                self.late = self.late or bool(self._open)
            yield told.move

    def pause(self) -> list[Move]:
        """Return what closes the current step: people are asked, and the stream ends for now."""
        return self.reader.pause(self.newest)

    def _is_ours(self, turn_id: str) -> bool:
        return self._replies.first(turn_id) == self.turn_id


@dataclass(frozen=True, slots=True)
class Heard:
    """What one signal of the stream made: some moves, or none where it was silence."""

    reply: Reply
    moves: Sequence[Move]
    #: Number of the last feed item that was read.
    number: int


async def follow_reply(
    stream: Stream, turn_id: str = "", hears: Callable[[str], Awaitable[bool]] | None = None
) -> AsyncIterator[Heard | HolderTold | None]:
    """Yield what happens in a turn, and in those that tell of its calls later; None stands for silence.

    Where none is named, it is the next one that begins, or the one that goes on and hears what was written meanwhile,
    or what an operator says in the agent's place, whichever comes first; `hears` tells whether a turn is meant. It ends
    with the stream.
    """
    reply, number = Reply(turn_id) if turn_id else None, stream.after
    before: list[tuple[str, Mapping[str, Any], int]] = []
    async for signal in stream.signals():
        if signal is None:
            yield None
            continue
        kind, data, number = unpacked(signal, number)
        if reply is None and begins(kind, data) and (hears is None or await hears(data["turn_id"])):
            reply = Reply(data["turn_id"], number if kind == "message" else 0)
            early = of_turn(before, reply.turn_id) if kind == "turn" else ()
            if moves := [move for item in early for move in reply.read(*item)]:
                yield Heard(reply, moves, number)
        if kind == "holder":
            yield HolderTold(data)
        if reply is None and kind == "message" and data["role"] == "operator":
            yield Heard(Reply(data["message_id"]), [spoken(data)], number)
            return
        if reply is None:
            if not isinstance(signal, Transient):
                before.append((kind, data, number))
            continue
        yield Heard(reply, list(reply.read(kind, data, 0 if isinstance(signal, Transient) else number)), number)


def unpacked(signal: Mapping[str, Any] | Transient, number: int) -> tuple[str, Mapping[str, Any], int]:
    """Return a signal's type and data, and the number of the last item: its own, or `number` where it has none."""
    if isinstance(signal, Transient):
        return signal.event, signal.data, number
    return signal["type"], signal["data"], signal["id"]


def of_turn(
    items: Sequence[tuple[str, Mapping[str, Any], int]], turn_id: str
) -> list[tuple[str, Mapping[str, Any], int]]:
    """Return those items that are about a turn and came before the word that it began."""
    of_it = [data for _, data, _ in items if data.get("turn_id") == turn_id]
    calls = {data["call_id"] for data in of_it if "call_id" in data}
    return [item for item in items if item[1].get("turn_id") == turn_id or item[1].get("call_id") in calls]


def begins(kind: str, data: Mapping[str, Any]) -> bool:
    """Tell whether an item begins a turn, or what a turn that goes on says to somebody who wrote meanwhile."""
    heard = kind == "message" and data["role"] == "assistant" and data.get("heard_meanwhile")
    return bool(heard or (kind == "turn" and data["state"] == "started"))

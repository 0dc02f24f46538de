"""What one client of a conversation has seen, over all its connections, and what was wrong with it. Pure.

The stub model numbers its words and says in each when it sent it, so that nothing lost, told twice or told in another
order goes unnoticed: `<number>:<seconds by the machine's monotonic clock>`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: What may be wrong with what a client was told.
FAULTS = ("lost", "repeated", "reordered", "garbled")


def word(number: int, now: float) -> str:
    """Return one word of the stub model; `now` is when it is sent, in seconds."""
    return f"{number}:{now:.6f} "


def words_in(text: str) -> list[tuple[int, float]]:
    """Return number and time of each word; raise ValueError where the text is cut inside of one."""
    return [(int(number), float(sent)) for number, _, sent in (each.partition(":") for each in text.split())]


@dataclass
class Seen:
    """What a client has: its events by number, and each text as far as it came. Times are in seconds."""

    #: Words that the model says in each text.
    words: int
    #: Number of the last event; where it goes on after a reconnect.
    last: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    #: From the model to the client, of each word that came live.
    delays: list[float] = field(default_factory=list)
    #: The same of the first word of each text.
    first_delays: list[float] = field(default_factory=list)
    #: When the first piece of each text came.
    began: dict[str, float] = field(default_factory=dict)
    #: Texts that are whole, by the message that the gateway keeps.
    whole: set[str] = field(default_factory=set)
    #: Pieces that did not join on: each is sent at most once, and the whole text makes up for it.
    gaps: int = 0
    #: Why turns ended without an answer.
    failures: list[str] = field(default_factory=list)
    _texts: dict[str, str] = field(default_factory=dict)
    _joined: dict[str, int] = field(default_factory=dict)

    def connected(self) -> None:
        """Begin a connection: a text that is being written comes from its beginning, once."""
        self._joined = {}

    def take(self, kind: str, number: int | None, data: Mapping[str, Any], now: float) -> bool:
        """Take one event of the stream; tell whether a turn ended with it."""
        if kind == "delta":
            self._piece(data, now)
            return False
        if number is None:
            return False
        self._number(number)
        if kind == "message" and data["role"] == "assistant":
            self._message(data["message_id"], data["text"])
        ended = kind == "turn" and data["state"] != "started"
        if ended and data["state"] != "finished":
            self.failures.append(data["reason"])
        return ended

    def _number(self, number: int) -> None:
        if number <= self.last:
            self.faults["repeated" if number == self.last else "reordered"] += 1
        else:
            self.faults["lost"] += number - self.last - 1
            self.last = number

    def _piece(self, delta: Mapping[str, Any], now: float) -> None:
        name, offset, text = delta["message_id"], delta["offset"], delta["text"]
        known, first = self._texts.get(name, ""), name not in self._joined
        joined = self._joined.get(name, 0)
        if offset < joined:
            self.faults["repeated"] += 1
            return
        # Counted once: what follows a gap joins on to what came after it.
        self.gaps += offset > joined
        self._joined[name] = offset + len(text)
        if offset > len(known):
            return
        overlap = known[offset : offset + len(text)]
        if not text.startswith(overlap):
            self.faults["garbled"] += 1
        self._texts[name] = known + text[len(overlap) :]
        fresh = words_in(text[len(overlap) :])
        caught_up = first and name in self.began
        if name not in self.began:
            self.began[name] = now
            self.first_delays.extend(now - sent for number, sent in fresh if number == 0)
        if not caught_up:
            self.delays.extend(now - sent for _, sent in fresh)

    def _message(self, name: str, text: str) -> None:
        if name in self.whole:
            self.faults["repeated"] += 1
        self.whole.add(name)
        self.faults["garbled"] += not text.startswith(self._texts.pop(name, ""))
        numbers = [number for number, _ in words_in(text)]
        self.faults["lost"] += len(set(range(self.words)) - set(numbers))
        self.faults["repeated"] += len(numbers) - len(set(numbers))
        self.faults["reordered"] += numbers != sorted(numbers)


def faults_of(seen: Iterable[Seen]) -> dict[str, int]:
    """Return how often each fault happened to anybody."""
    total = sum((each.faults for each in seen), Counter[str]())
    return {name: total[name] for name in FAULTS}

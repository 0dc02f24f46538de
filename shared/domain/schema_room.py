"""How much room a schema leaves a value: never less than it lets through, and soon known whatever it says. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import ceil, floor, inf, isfinite
from typing import Any, Literal
from urllib.parse import unquote

from placet.domain.patterns import anchored_range, matches
from placet.domain.tool_schema import schema_at

#: Of what kind the values are: numbers, whole ones too, or texts.
Kind = Literal["number", "string"]
_NAMES = {"number": {"number", "integer"}, "string": {"string"}}


@dataclass(frozen=True, slots=True)
class Room:
    """What values of one kind there may be, at most."""

    #: No others; None: any that fits the rest.
    only: frozenset[Any] | None = None
    low: float = -inf
    high: float = inf
    #: Numbers are multiples of it; 0: of nothing.
    step: Fraction = Fraction(0)
    #: Characters of a text.
    shortest: float = 0
    longest: float = inf
    patterns: frozenset[str] = frozenset()

    def within(self, other: Room) -> Room:
        """Return the room of what is in both."""
        only = other.only if self.only is None else self.only if other.only is None else self.only & other.only
        return Room(
            only,
            max(self.low, other.low),
            min(self.high, other.high),
            max(self.step, other.step),
            max(self.shortest, other.shortest),
            min(self.longest, other.longest),
            self.patterns | other.patterns,
        )

    def beside(self, other: Room) -> Room:
        """Return the room of what is in either."""
        return Room(
            None if self.only is None or other.only is None else self.only | other.only,
            min(self.low, other.low),
            max(self.high, other.high),
            self.step if self.step == other.step else Fraction(0),
            min(self.shortest, other.shortest),
            max(self.longest, other.longest),
            self.patterns & other.patterns,
        )

    def has_smaller(self) -> bool:
        """Tell whether there may be two numbers from 0 on, so that one is smaller."""
        low = max(self.low, 0)
        if self.only is not None:
            return len([each for each in self.only if low <= each <= self.high]) > 1
        if not self.step or not isfinite(self.high) or not isfinite(low):
            return low < self.high
        return (ceil(Fraction(str(low)) / self.step) + 1) * self.step <= Fraction(str(self.high))

    def texts(self) -> frozenset[str] | None:
        """Return the only texts that there may be; None where nobody counts them."""
        return None if self.only is None else frozenset(each for each in self.only if self.takes(each))

    def takes(self, text: str) -> bool:
        """Tell whether a text fits all that is said of texts, but for the only ones."""
        fits = all(matches(pattern, text) for pattern in self.patterns)
        return fits and self.shortest <= len(text) <= self.longest

    def may_take(self, beginning: str, shortest: int, longest: float) -> bool:
        """Tell whether there may be a text that begins so, of so many characters."""
        if longest < self.shortest or shortest > self.longest:
            return False
        for pattern in self.patterns:
            least, most = anchored_range(pattern)
            begins = beginning.encode(errors="surrogatepass")
            if begins > most or begins < least[: len(begins)]:
                return False
        return True


def room_at(parameters: dict[str, Any], path: Sequence[str], kind: Kind) -> Room | None:
    """Return the room for values of a kind that the argument at a path has; None where it has none."""
    found = schema_at(parameters, path)
    return None if found is None else _room(*found, kind, {})


def _room(schema: Any, places: Mapping[str, Any], kind: Kind, seen: dict[str, Room | None]) -> Room | None:
    if not isinstance(schema, dict):
        return None if schema is False else Room()
    if not _own_kinds(schema) & _NAMES[kind]:
        return None
    rooms: list[Room | None] = [_own_room(schema, kind)]
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            ways = [way for each in schema[keyword] if (way := _room(each, places, kind, seen))]
            rooms.append(reduce(Room.beside, ways) if ways else None)
    rooms += [_room(each, places, kind, seen) for each in schema.get("allOf", ())]
    if "$ref" in schema:
        place = unquote(schema["$ref"])
        if place not in seen:
            # Each is followed once, however many lead there, also in a circle.
            seen[place] = Room()
            seen[place] = _room(places.get(place), places, kind, seen)
        rooms.append(seen[place])
    given = [each for each in rooms if each is not None]
    return reduce(Room.within, given) if len(given) == len(rooms) else None


def _own_kinds(schema: Mapping[str, Any]) -> set[str]:
    named = schema.get("type", [*_NAMES["number"], *_NAMES["string"]])
    return {named} if isinstance(named, str) else set(named)


def _own_room(schema: Mapping[str, Any], kind: Kind) -> Room | None:
    """Return what a schema says itself, without those in it."""
    only = None
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        only = frozenset(each for each in values if _is_of(each, kind))
        if not only:
            return None
    if kind == "string":
        patterns = frozenset([schema["pattern"]] if "pattern" in schema else [])
        return Room(only, shortest=schema.get("minLength", 0), longest=schema.get("maxLength", inf), patterns=patterns)
    is_whole = "number" not in _own_kinds(schema)
    above, below = schema.get("exclusiveMinimum", -inf), schema.get("exclusiveMaximum", inf)
    if is_whole and isfinite(above):
        above = floor(above) + 1
    if is_whole and isfinite(below):
        below = ceil(below) - 1
    low, high = max(schema.get("minimum", -inf), above), min(schema.get("maximum", inf), below)
    step = Fraction(str(schema["multipleOf"])) if isfinite(schema.get("multipleOf", inf)) else Fraction(0)
    return Room(only, low, high, max(step, Fraction(is_whole)))


def _is_of(value: Any, kind: Kind) -> bool:
    if kind == "string":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)

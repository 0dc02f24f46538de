"""A conversation's pseudonyms: what personal data is called before a model, and back.

Exact both ways: each spelling of a datum has a pseudonym of its own, no pseudonym means two things, none is one that
somebody wrote, and none is part of another at its place. So what was hidden comes back to the letter, and who writes a
pseudonym by hand gets their own words back and nobody's datum.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from stdnum import luhn

from placet.agent.personal import CARD, DATA, EMAIL, IBAN, NAME, PHONE, Found, Recognise
from placet.agent.word_boundaries import is_word, standing_alone

#: Countries +999 and XX do not exist, and no card network begins with 999: such numbers reach nobody.
_NOWHERE = "999"
#: The number of a pseudonym stands in digits with these places and without a 9, so that none begins like another.
_NUMBER_BASE, _NUMBER_PLACES = 9, 4
_LAID_OUT = {PHONE, CARD, IBAN}


@dataclass(frozen=True, slots=True)
class Entry:
    """One spelling of a datum and what a model reads instead."""

    value: str
    pseudonym: str
    kind: str
    #: The same for all spellings of one datum.
    canonical: str
    #: Counted over the whole conversation; spellings of one datum may share it.
    number: int


class Pseudonyms:
    """The table of one conversation. What it had to add while hiding is in `fresh`, and is yet to be stored."""

    def __init__(self, entries: Iterable[Entry], recognise: Recognise, *, avoid: str = "") -> None:
        """Take what is stored; nothing that stands in `avoid` is ever made a pseudonym."""
        self._recognise = recognise
        self._avoid = avoid
        self._by_value: dict[str, Entry] = {}
        self._by_pseudonym: dict[str, Entry] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._next = 1
        #: What finds known texts, made when it is first wanted: each string of a transcript asks for both.
        self._finder: re.Pattern[str] | None = None
        self._spellings: Spellings | None = None
        self.fresh: list[Entry] = []
        for entry in entries:
            self._add(entry)

    def hide(self, text: str) -> str:
        """Return a text with pseudonyms in place of personal data; `restore` gives it back as it was."""
        hidden, end = [], 0
        for found in self._pieces(text):
            hidden += [text[end : found.start], self._pseudonym(found, text)]
            end = found.end
        whole = "".join([*hidden, text[end:]])
        if self.restore(whole) == text:
            return whole
        return self._pseudonym(Found(0, len(text), DATA, text), text)

    def restore(self, text: str) -> str:
        """Return a text with the data in place of their pseudonyms."""
        restorer = self.restorer()
        return restorer.add(text) + restorer.close()

    def restorer(self) -> Restorer:
        """Return what restores a text that comes in pieces."""
        if self._spellings is None:
            self._spellings = Spellings.of({name: entry.value for name, entry in self._by_pseudonym.items()})
        return Restorer(self._spellings)

    def _pieces(self, text: str) -> list[Found]:
        """Find what to hide, in order and apart: no piece begins or ends within a word or touches another."""
        if self._finder is None:
            self._finder = _any_of([*self._by_value, *self._by_pseudonym])
        found = self._recognise(text)
        found += [self._known(each) for each in self._finder.finditer(text)] if self._finder else []
        apart: list[Found] = []
        for each in sorted((_whole_words(each, text) for each in found), key=lambda one: (one.start, -one.end)):
            if apart and each.start <= apart[-1].end:
                apart[-1] = _together(apart[-1], each, text)
            else:
                apart.append(each)
        return apart

    def _known(self, match: re.Match[str]) -> Found:
        entry = self._by_value.get(match[0])
        kind, canonical = (entry.kind, entry.canonical) if entry else (DATA, match[0])
        return Found(*match.span(), kind, canonical)

    def _pseudonym(self, found: Found, text: str) -> str:
        value = text[found.start : found.end]
        if value not in self._by_value:
            entry = self._allocated(value, found, text)
            self._add(entry)
            self.fresh.append(entry)
            if found.kind in _LAID_OUT and value != found.canonical:
                # Models like to write numbers without their spaces: that is to mean the same one.
                self._pseudonym(Found(0, len(found.canonical), found.kind, found.canonical), found.canonical)
        return self._by_value[value].pseudonym

    def _allocated(self, value: str, found: Found, text: str) -> Entry:
        number, variant = self._numbers.get((found.kind, found.canonical), self._next), 1
        while not self._is_free(made := _made(found.kind, value, number, variant), text):
            if found.kind in _LAID_OUT or made in self._avoid or made in text:
                number, variant = max(self._next, number + 1), 1
            else:
                variant += 1
        return Entry(value, made, found.kind, found.canonical, number)

    def _is_free(self, candidate: str, text: str) -> bool:
        taken = candidate in self._by_pseudonym or candidate in self._by_value
        return not taken and candidate not in self._avoid and candidate not in text

    def _add(self, entry: Entry) -> None:
        self._by_value[entry.value] = self._by_pseudonym[entry.pseudonym] = entry
        self._finder = self._spellings = None
        self._numbers.setdefault((entry.kind, entry.canonical), entry.number)
        self._next = max(self._next, entry.number + 1)


@dataclass(frozen=True, slots=True)
class Spellings:
    """How the pseudonyms of a conversation are found in a text."""

    #: Pseudonym to what it stands for.
    values: Mapping[str, str]
    pattern: re.Pattern[str] | None
    #: Every text that a pseudonym begins with.
    beginnings: frozenset[str]
    longest: int

    @classmethod
    def of(cls, values: Mapping[str, str]) -> Self:
        """Return how to find these pseudonyms."""
        beginnings = frozenset(name[:end] for name in values for end in range(1, len(name) + 1))
        return cls(values, _any_of(values), beginnings, max(map(len, values), default=0))


class Restorer:
    """Puts data back into a text that comes in pieces; holds back what may become a pseudonym."""

    def __init__(self, spellings: Spellings) -> None:
        self._spellings = spellings
        #: The last character that went out, for a word does not begin behind a letter; then what is held back.
        self._before, self._held = "", ""

    def add(self, text: str) -> str:
        """Take a piece; return what is certain by now."""
        text, known = self._before + self._held + text, self._spellings
        first = len(self._before)
        until = next(
            (at for at in range(max(first, len(text) - known.longest), len(text)) if text[at:] in known.beginnings),
            len(text),
        )
        return self._out(text, first, until)

    def close(self) -> str:
        """Return what was held back: the text has ended."""
        text = self._before + self._held
        return self._out(text, len(self._before), len(text))

    def _out(self, text: str, first: int, until: int) -> str:
        out, at = [], first
        known = self._spellings
        for match in known.pattern.finditer(text, first) if known.pattern else ():
            if match.start() >= until:
                break
            if match.end() > until:
                until = match.start()
                break
            out += [text[at : match.start()], known.values[match[0]]]
            at = match.end()
        out.append(text[at:until])
        self._before, self._held = text[max(until - 1, 0) : until], text[until:]
        return "".join(out)


def _any_of(texts: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds any of these texts where it stands by itself, the longest first."""
    either = "|".join(map(re.escape, sorted(texts, key=lambda text: (-len(text), text))))
    return re.compile(standing_alone(either)) if either else None


def _whole_words(found: Found, text: str) -> Found:
    """Widen a piece to whole words; what grows is no longer of its kind."""
    start, end = found.start, found.end
    while start > 0 and is_word(text[start - 1]):
        start -= 1
    while end < len(text) and is_word(text[end]):
        end += 1
    if (start, end) == (found.start, found.end):
        return found
    return Found(start, end, DATA, text[start:end])


def _together(one: Found, other: Found, text: str) -> Found:
    """Join two pieces that overlap or touch; the second begins no earlier and, where both begin, is no longer."""
    if other.end <= one.end:
        return one
    return Found(one.start, other.end, DATA, text[one.start : other.end])


def _made(kind: str, value: str, number: int, variant: int) -> str:
    """Return the pseudonym with a number, like the thing itself as far as that can be."""
    name = str(number) if variant == 1 else f"{number}v{variant}"
    if kind == EMAIL:
        return f"person-{name}@example.invalid"
    if kind == NAME:
        return f"Person {name}"
    if kind in _LAID_OUT and number < _NUMBER_BASE**_NUMBER_PLACES:
        return _laid_out(kind, value, number)
    return f"{kind}-{name}"


def _laid_out(kind: str, value: str, number: int) -> str:
    """Write a number that belongs to nobody with the spaces and dashes of `value`."""
    places = sum(map(str.isalnum, value))
    counted = "".join(str(number // _NUMBER_BASE**place % _NUMBER_BASE) for place in reversed(range(_NUMBER_PLACES)))
    head = "XX00" if kind == IBAN else _NOWHERE
    text = (head + counted).ljust(places, "0")
    if kind == CARD and luhn.is_valid(text):
        text = text[:-1] + "1"
    rest = iter(text)
    return "".join(next(rest) if char.isalnum() else char for char in value)

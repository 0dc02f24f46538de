"""A conversation's pseudonyms: what personal data is called before a model, and back.

Exact both ways: each spelling of a datum has a pseudonym of its own, no pseudonym means two things, none is one that
somebody wrote, and none is part of another at its place. So what was hidden comes back to the letter, and who writes a
pseudonym by hand gets their own words back and nobody's datum.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from placet.agent.known_texts import KnownTexts, TooCostlyError
from placet.agent.personal import DATA, Found, Recognise
from placet.agent.pseudonym_forms import Written, is_laid_out, is_number, laid_out, made
from placet.agent.word_boundaries import WORD

_WORDS = re.compile(f"{WORD}+")


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
        self._avoid = Written(avoid)
        self._by_value: dict[str, Entry] = {}
        self._by_pseudonym: dict[str, Entry] = {}
        self._known = KnownTexts()
        self._spellings = Spellings()
        self._numbers: dict[tuple[str, str], int] = {}
        #: Below these, all variants of a kind's number are taken.
        self._variants: dict[tuple[str, int], int] = {}
        self._next = 1
        self.fresh: list[Entry] = []
        for entry in entries:
            self._add(entry)

    def hide(self, text: str) -> str:
        """Return a text with pseudonyms in place of personal data; `restore` gives it back as it was."""
        hidden, end, written = [], 0, Written(text)
        for found in self._pieces(text):
            hidden += [text[end : found.start], self._pseudonym(found, text, written)]
            end = found.end
        whole = "".join([*hidden, text[end:]])
        if self.restore(whole) == text:
            return whole
        return self._pseudonym(Found(0, len(text), DATA, text), text, written)

    def restore(self, text: str) -> str:
        """Return a text with the data in place of their pseudonyms."""
        restorer = self.restorer()
        return restorer.add(text) + restorer.close()

    def restorer(self) -> Restorer:
        """Return what restores a text that comes in pieces."""
        return Restorer(self._spellings)

    def _pieces(self, text: str) -> list[Found]:
        """Find what to hide, in order and apart: no piece begins or ends within a word or touches another.

        Where looking for what is known would take too long, all of the text is hidden.
        """
        try:
            known = [self._found(text, *span) for span in self._known.find(text)]
        except TooCostlyError:
            return [Found(0, len(text), DATA, text)]
        found = [*self._recognise(text), *known]
        return _apart(found, text) if found else []

    def _found(self, text: str, start: int, end: int) -> Found:
        value = text[start:end]
        entry = self._by_value.get(value)
        return Found(start, end, entry.kind, entry.canonical) if entry else Found(start, end, DATA, value)

    def _pseudonym(self, found: Found, text: str, written: Written) -> str:
        value = text[found.start : found.end]
        if value not in self._by_value:
            entry = self._allocated(value, found, written)
            self._add(entry)
            self.fresh.append(entry)
            if is_number(found.kind) and value != found.canonical:
                # Models like to write numbers without their spaces: that is to mean the same one.
                compact = found.canonical
                self._pseudonym(Found(0, len(compact), found.kind, compact), compact, Written(compact))
        return self._by_value[value].pseudonym

    def _allocated(self, value: str, found: Found, written: Written) -> Entry:
        number = self._numbers.get((found.kind, found.canonical), self._next)
        while (free := self._free(found.kind, value, number, written)) is None:
            number = max(self._next, number + 1)
        return Entry(value, free, found.kind, found.canonical, number)

    def _free(self, kind: str, value: str, number: int, written: Written) -> str | None:
        """Return the first pseudonym with a number that nobody has; None where somebody wrote it or one before."""
        if is_laid_out(kind, number):
            name = laid_out(kind, value, number)
            taken = self._is_taken(name) or any(each.has_laid_out(kind, name) for each in (self._avoid, written))
            return None if taken else name
        variant = self._variants.get((kind, number), 1)
        while self._is_taken(name := made(kind, number, variant)):
            variant += 1
        self._variants[kind, number] = variant
        if variant > 1 and is_number(kind):
            return None
        least = (each.least_variant(kind, number) for each in (self._avoid, written))
        return None if any(each is not None and each <= variant for each in least) else name

    def _is_taken(self, candidate: str) -> bool:
        return candidate in self._by_pseudonym or candidate in self._by_value

    def _add(self, entry: Entry) -> None:
        self._by_value[entry.value] = self._by_pseudonym[entry.pseudonym] = entry
        self._known.add(entry.value)
        self._known.add(entry.pseudonym)
        self._spellings.add(entry)
        self._numbers.setdefault((entry.kind, entry.canonical), entry.number)
        self._next = max(self._next, entry.number + 1)


class Spellings:
    """How the pseudonyms of a conversation are found in a text."""

    def __init__(self) -> None:
        #: Pseudonym to what it stands for.
        self.values: dict[str, str] = {}
        self.known = KnownTexts()
        #: Every text that a pseudonym begins with.
        self.beginnings: set[str] = set()
        self.longest = 0

    def add(self, entry: Entry) -> None:
        """Find this one too."""
        name = entry.pseudonym
        self.values[name] = entry.value
        self.known.add(name)
        self.beginnings.update(name[:end] for end in range(1, len(name) + 1))
        self.longest = max(self.longest, len(name))


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
        for start, end in known.known.find(text, first, at_any_cost=True):
            if start >= until:
                break
            if end > until:
                until = start
                break
            out += [text[at:start], known.values[text[start:end]]]
            at = end
        out.append(text[at:until])
        self._before, self._held = text[max(until - 1, 0) : until], text[until:]
        return "".join(out)


def _apart(found: Iterable[Found], text: str) -> list[Found]:
    """Widen pieces to whole words and join those that overlap or touch; what grows is no longer of its kind."""
    words = [each.span() for each in _WORDS.finditer(text)]
    starts = [start for start, _ in words]

    def widened(each: Found) -> tuple[int, int, Found | None]:
        before, behind = bisect_left(starts, each.start) - 1, bisect_right(starts, each.end) - 1
        start = words[before][0] if before >= 0 and words[before][1] >= each.start else each.start
        end = words[behind][1] if behind >= 0 and words[behind][1] > each.end else each.end
        return start, end, each if (start, end) == (each.start, each.end) else None

    apart: list[tuple[int, int, Found | None]] = []
    for start, end, same in sorted(map(widened, found), key=lambda one: (one[0], -one[1])):
        if not apart or start > apart[-1][1]:
            apart.append((start, end, same))
        elif end > apart[-1][1]:
            apart[-1] = (apart[-1][0], end, None)
    return [same or Found(start, end, DATA, text[start:end]) for start, end, same in apart]

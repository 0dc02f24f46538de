"""Finds given names in a text, in any ordinary spelling of them.

Case, accents, width, dotted and dotless i, kinds of apostrophes and dashes make no difference; ß is ss, and ü may be
ue. In scripts without spaces between words a name is found inside of a row of letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from placet.agent.word_boundaries import is_unspaced, standing_alone
from placet.domain.normal_form import normalized

_APOSTROPHES = dict.fromkeys("'`\u00b4\u02b9\u02bb\u02bc\u02bd\u2018\u2019\u201b\u2032\uff07", "'")
_DASHES = dict.fromkeys((*"-\u00ad\u2212\ufe58\ufe63\uff0d", *map(chr, range(0x2010, 0x2016))), "-")
_DOTS = dict.fromkeys("\u00b7\u2027\u30fb\uff65", "-")
#: What is one character in names, whatever Unicode makes of it.
_ALIKE: dict[str, str] = _APOSTROPHES | _DASHES | _DOTS | {"\u0131": "i", "\u0130": "i"}
_TRANSCRIBED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_BETWEEN = re.compile(r"[\s-]+")

Finder = Callable[[str], Iterator[tuple[int, int, str]]]


@dataclass(frozen=True, slots=True)
class Plain:
    """A text in the plain letters that names are compared by."""

    text: str
    #: Where each of its characters begins and ends in the original; what has several characters is in one place.
    starts: list[int]
    ends: list[int]


def finder(names: Iterable[str]) -> Finder | None:
    """Return what finds whole names and each of their words: (start, end, canonical). None where there is no name."""
    wanted: set[tuple[str, ...]] = set()
    for name in names:
        for spelled in (name, normalized("NFC", name).translate(_TRANSCRIBED)):
            wanted |= _wanted(plain(spelled).text)
    if not wanted:
        return None
    longest_first = sorted(wanted, key=lambda each: (-len(" ".join(each)), each))
    pattern = re.compile(standing_alone("|".join(map(_pattern, longest_first))))

    def find(text: str) -> Iterator[tuple[int, int, str]]:
        folded = plain(text)
        for each in pattern.finditer(folded.text):
            canonical = " ".join(_BETWEEN.split(each[0].replace("'", "")))
            yield folded.starts[each.start()], folded.ends[each.end() - 1], canonical

    return find


def plain(text: str) -> Plain:
    """Return a text in plain letters; marks belong to the letter before them, what nobody sees to none."""
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for place, char in enumerate(text):
        letters = _letters(char)
        if letters:
            folded += letters
            starts += [place] * len(letters)
            ends += [place + 1] * len(letters)
        elif ends:
            ends[-1] = place + 1
    return Plain("".join(folded), starts, ends)


def _letters(char: str) -> str:
    if char.isascii():
        return "'" if char == "`" else char.lower()
    if (alike := _ALIKE.get(char)) is not None:
        return alike
    if unicodedata.category(char) == "Cf":
        return ""
    bare = _without_marks(unicodedata.normalize("NFKD", char)).casefold()
    return _without_marks(unicodedata.normalize("NFKD", bare))


def _without_marks(text: str) -> str:
    return "".join(char for char in text if not unicodedata.combining(char))


def _wanted(name: str) -> set[tuple[str, ...]]:
    """Return the parts of a plain name to look for: all of it, its words, and what dashes join in them."""
    words = [tuple(part for part in word.split("-") if part) for word in name.split()]
    parts = {(part,) for word in words for part in word if len(part) > 1}
    joined = {word for word in words if len(" ".join(word)) > 1}
    whole = tuple(part for word in words for part in word)
    return {each for each in ({whole} | joined | parts) if each}


def _pattern(parts: tuple[str, ...]) -> str:
    found = _part(parts[0])
    for before, behind in pairwise(parts):
        spaced = not (is_unspaced(before[-1]) and is_unspaced(behind[0]))
        found += (r"[\s-]+" if spaced else r"[\s-]*") + _part(behind)
    return found


def _part(part: str) -> str:
    # Several in a row as one: each of them would double the ways to find the name.
    return re.sub("'+", r"(?:'|\\s)?+", re.escape(part))

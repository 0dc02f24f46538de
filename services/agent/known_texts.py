"""Finds known texts where they stand by themselves, the longest first, in time that hardly grows with their number."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterator
from operator import neg

from placet.agent.word_boundaries import WORD, is_word

#: What a known text begins with: a whole word, or one character of none.
_BEGINNING = re.compile(rf"(?<!{WORD})(?:{WORD}+|.)", re.DOTALL)
#: What a comparison costs beside the characters that it compares.
_COMPARED = 64
#: What a search may cost in all: so much for each character of the text, and for any text.
_COST_PER_CHARACTER, _COST_OF_ANY = 1_000, 1_000_000


class TooCostlyError(Exception):
    """Too many known texts of too many lengths begin like pieces of this one."""


class KnownTexts:
    """Many texts that are looked for at once; others may be added at any time."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        #: The lengths of known texts by how they begin, the longest first: few, however many texts there are.
        self._lengths: dict[str, list[int]] = {}

    def add(self, text: str) -> None:
        """Look for this text too, which is not empty."""
        self._texts.add(text)
        if beginning := _BEGINNING.match(text):
            lengths = self._lengths.setdefault(beginning[0], [])
            if len(text) not in lengths:
                insort(lengths, len(text), key=neg)

    def find(self, text: str, start: int = 0, *, at_any_cost: bool = False) -> Iterator[tuple[int, int]]:
        """Yield where known texts stand, in order and apart; no word goes on before or behind any.

        Raises TooCostlyError where that takes more than a constant for each character, which may be at any cost only
        where all known texts are short.
        """
        left = _COST_OF_ANY + _COST_PER_CHARACTER * len(text)
        while beginning := _BEGINNING.search(text, start):
            at, start = beginning.span()
            for length in self._lengths.get(beginning[0], ()):
                end = at + length
                left -= _COMPARED + length
                if left < 0 and not at_any_cost:
                    raise TooCostlyError
                if end <= len(text) and text[at:end] in self._texts and not is_word(text[end : end + 1]):
                    yield at, end
                    start = end
                    break

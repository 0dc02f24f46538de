"""Patterns that others write, matched by RE2: in a time that grows with the text alone.

Python's own engine tries one way after the other, and `^(a+)+$` keeps it busy for ever with a text of forty letters,
holding up everything else in its process. RE2 knows neither look-arounds nor back-references; no pattern may have them.
"""

from __future__ import annotations

from functools import lru_cache

import re2

#: Patterns kept compiled; a rulebook has fewer, and those that are only tried must not stay for ever.
_KEPT = 1_000


#: Characters of a pattern. Reading one may take a fifth of a millisecond for two of them, whatever comes of it.
PATTERN_MAX = 1_000


class NoPattern(ValueError):
    """RE2 cannot match it; the text says why."""


def read(pattern: str, memory_bytes: int | None = None) -> re2._Regexp:
    """Return a pattern compiled, and kept by nobody; raise NoPattern, also where it needs more than `memory_bytes`."""
    if len(pattern) > PATTERN_MAX:
        raise NoPattern(f"pattern too large: it has more than {PATTERN_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    if memory_bytes is not None:
        options.max_mem = memory_bytes
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        words = error.args[0] if error.args else "it cannot be read"
        raise NoPattern(words.decode(errors="replace") if isinstance(words, bytes) else str(words)) from error


@lru_cache(_KEPT)
def compiled(pattern: str, memory_bytes: int | None = None) -> re2._Regexp:
    """Return a pattern ready to be matched again and again; raises like `read`."""
    return read(pattern, memory_bytes)


def pattern_problem(pattern: str, memory_bytes: int | None = None) -> str | None:
    """Return why a pattern of a schema cannot be matched, with at most `memory_bytes`; None where it can."""
    try:
        read(pattern, memory_bytes)
    except NoPattern as error:
        return f"pattern {pattern!r} cannot be matched in linear time: {error}"
    return None


def cost(pattern: str, text: str) -> int:
    """Return steps of a pattern by characters of a text, some 12 ns each where RE2 follows all ways at once."""
    size: int = compiled(pattern).programsize
    return size * len(text)


def matches(pattern: str, text: str) -> bool:
    """Tell whether a pattern is found anywhere in `text`, as JSON Schema means it."""
    return compiled(pattern).search(text.encode("utf-8", "replace").decode()) is not None

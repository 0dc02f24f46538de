"""What somebody types into a search, as web search engines take it: `payment -test "299 TRY" or refund`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from placet.domain.words import searched, words_of

#: Alternatives of one search.
ALTERNATIVES_MAX = 8
#: Approvals that are counted one by one; beyond, people are told that there are more.
COUNT_MAX = 1_000
#: Words that may begin as somebody asks before they are looked for one by one: with more, much fits anyway.
EXPANDED_MAX = 64
#: A phrase in quotes, which may lack its end, or a run without spaces; either may be unwanted.
_TERM = re.compile(r'(?P<without>-?)"(?P<phrase>[^"]*)"?|(?P<run>\S+)')


@dataclass(slots=True)
class Alternative:
    """What must all be true of a text at once."""

    #: Words that it has, each once.
    words: list[str] = field(default_factory=list)
    #: Patterns of LIKE over `placet.domain.words.searched`: all of these fit, none of those.
    has: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    #: Beginnings of words, of which each must begin one: `pay*`. In `has` they stand too.
    prefixes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as the statement takes it."""
        return {name: value for name, value in asdict(self).items() if name != "prefixes"}


def alternatives(typed: str) -> list[Alternative]:
    """Return what a text may be to fit; empty where nothing was typed that any text could have.

    Between words stands "and", unless `or` stands there. What is joined without a space, like `10482-b`, is a phrase;
    `pay*` is any word that begins so.
    """
    found = [Alternative()]
    for term, without in _terms(typed):
        if term is None:
            found.append(Alternative())
        elif pattern := _pattern(term):
            (found[-1].lacks if without else found[-1].has).append(pattern)
            if not without:
                *words, last = words_of(term)
                if term.endswith("*"):
                    found[-1].prefixes.append(last)
                else:
                    words.append(last)
                found[-1].words += [word for word in words if word not in found[-1].words]
    told = [each for each in found if each.has or each.lacks]
    if told or not (pattern := _pattern(typed)):
        return told
    # Nothing but "or": then it is meant.
    return [Alternative(list(dict.fromkeys(words_of(typed))), [pattern])]


def _terms(typed: str) -> Iterator[tuple[str | None, bool]]:
    """Yield each term and whether it is unwanted; None for an `or`."""
    for match in _TERM.finditer(typed):
        run = match["run"]
        if run is None:
            yield match["phrase"], bool(match["without"])
        elif run.lower() == "or":
            yield None, False
        else:
            yield run.removeprefix("-"), run.startswith("-")


def _pattern(term: str) -> str:
    """Return the pattern of texts that have this phrase; no word has a letter that means something in it."""
    phrase = searched(term)
    if term.endswith("*"):
        phrase = phrase.rstrip()
    return f"%{phrase}%" if phrase else ""


def expanded(asked: Alternative, prefix: str, words: Iterable[str]) -> list[Alternative]:
    """Return one alternative for each of the words that begin with `prefix`: together they are what was asked."""
    return [
        replace(asked, words=[word], prefixes=[each for each in asked.prefixes if each != prefix]) for word in words
    ]

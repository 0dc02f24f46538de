"""Words that people search: cut from a text by one function, where it is kept and where somebody asks.

Both sides must agree on every letter, so nothing else folds or cuts what is searched. See ADR 0024.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from placet.domain.normal_form import normalized

#: Words of one text that can be found, in its order; a summary has some ten.
WORDS_MAX = 128
#: Words of a call's arguments that can be found beside those of its summary.
ARGUMENT_WORDS_MAX = 40
#: Letters of a word that count.
LETTERS_MAX = 64

_WORD = re.compile(r"[^\W_]+")
#: Letters that are two, or have no accent that could be taken away. Dotted and dotless i are one letter here.
_ALIKE = str.maketrans({"ı": "i", "ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"})


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in its order, folded: runs of letters and digits without case and accents.

    `Zahlung über 1.299,50 €` has `zahlung`, `uber`, `1`, `299` and `50`.
    """
    return tuple(word[:LETTERS_MAX] for word in _WORD.findall(_fold(text))[:WORDS_MAX])


def searched(text: str) -> str:
    """Return the words of a text with a space around each: what has a phrase has it as a part; empty without words."""
    words = words_of(text)
    return f" {' '.join(words)} " if words else ""


def searched_card(summary: str, shown_arguments: str) -> str:
    """Return what can be searched of a held call: its summary, then the values of its arguments, short ones first.

    A value that stands in the summary is not said again. `shown_arguments` is JSON as people may see it; anything else
    adds nothing.
    """
    try:
        values = sorted(_values(json.loads(shown_arguments)), key=len)
    except ValueError:
        return searched(summary)
    found, left = searched(summary), ARGUMENT_WORDS_MAX
    for value in values:
        words = words_of(value)[:left]
        phrase = f" {' '.join(words)} "
        if words and phrase not in found:
            found, left = f"{found[:-1]}{phrase}", left - len(words)
    return found


def _values(value: Any) -> Iterator[str]:
    """Yield the texts and numbers of a JSON value."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _values(each)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _fold(text: str) -> str:
    plain = normalized("NFKD", normalized("NFKD", text).casefold()).translate(_ALIKE)
    return "".join(char for char in plain if not unicodedata.combining(char))

"""Where words end: scripts that are written without spaces have no such place, and a name stands anywhere in them."""

from __future__ import annotations

import re

# Thai, Lao, Tibetan, Burmese, Khmer; Hangul, to whose words particles stick; kana, Bopomofo and Han.
_UNSPACED = (
    "\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
#: A pattern of one character of a word that ends somewhere.
WORD = rf"[^\W{_UNSPACED}]"

_WORD = re.compile(WORD)
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED}]")


def is_word(char: str) -> bool:
    """Tell whether a character belongs to a word that ends somewhere."""
    return _WORD.match(char) is not None


def is_unspaced(char: str) -> bool:
    """Tell whether a character is of a script that is written without spaces between words."""
    return _UNSPACED_CHAR.match(char) is not None


def standing_alone(either: str) -> str:
    """Return a pattern of any of these alternatives where no word goes on before or behind it."""
    return rf"(?<!{WORD})(?:{either})(?!{WORD})"

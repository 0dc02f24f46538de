"""Unicode's normal forms, in a time that grows with the text: the library sorts each run of marks by insertion."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

#: Marks behind one letter that are sorted together, as in Unicode's own form for streams (UAX #15).
_RUN_MAX = 30
#: What ends a run, and shows as nothing.
_JOINER = "\u034f"
#: What is none itself, and begins with one in some form.
_BECOME_MARKS = "\u0f73\u0f75\u0f81\uff9e\uff9f"
#: Beyond it no character is a mark.
_MARKS_END = 0x1F000


def normalized(form: Literal["NFC", "NFKC", "NFD", "NFKD"], text: str) -> str:
    """Return a text in a normal form; behind thirty marks in a row, if more follow, stands a joiner that does not show.

    No language has so many, and whoever writes them wants the others to wait.
    """
    if text.isascii():
        return text
    return unicodedata.normalize(form, _full_runs().sub(rf"\g<0>{_JOINER}", text))


@cache
def _full_runs() -> re.Pattern[str]:
    """Return what finds thirty marks behind which stands another one."""
    marks = "".join(char for char in map(chr, range(0x80, _MARKS_END)) if unicodedata.combining(char)) + _BECOME_MARKS
    return re.compile(f"[{marks}]{{{_RUN_MAX}}}(?=[{marks}])")

"""How e-mail addresses and ids of people are compared: upper and lower case alike in ASCII, and in nothing else."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


def without_case(text: str) -> str:
    """Return an address or id to compare by, with its ASCII letters in lower case.

    Unicode's own lower case makes an ASCII `k` of the Kelvin sign, and so one person's address of another's mailbox.
    """
    return text.translate(_LOWER)

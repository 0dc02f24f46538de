"""Codes of mailed links: a mail says one beside its link, and its reader types it. Pure, but for chance.

A code is in no address and on no page, so whoever follows links and sends forms does not have it. What is kept of it
can be checked by who has the link's token, and says nothing to who has not.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

#: Characters that nobody confuses, in turns, so that no word looks like a code: `K7R4W`.
LETTERS, DIGITS = "BCDFGHJKLMNPQRSTVWXZ", "23456789"
_KINDS = (LETTERS, DIGITS, LETTERS, DIGITS, LETTERS)
CODE_LENGTH = len(_KINDS)
_PURPOSE = b"placet-link-code."


def new_code() -> str:
    """Return a new code: one of 512 000."""
    return "".join(map(secrets.choice, _KINDS))


def code_hash(token: str, code: str) -> str:
    """Return what is kept of the code of a link, 64 hexadecimal digits; as people type it, in any case."""
    return hmac.new(token.encode(), _PURPOSE + _as_said(code).encode(), hashlib.sha256).hexdigest()


def is_code(typed: str) -> bool:
    """Tell whether a text could be a code, right or wrong."""
    said = _as_said(typed)
    return len(said) == CODE_LENGTH and all(char in kind for char, kind in zip(said, _KINDS, strict=True))


def _as_said(typed: str) -> str:
    return "".join(typed.split()).upper()

"""Whether what somebody wrote says anything."""

from __future__ import annotations

import unicodedata

from placet.domain.card_text import is_hidden


def says_something(text: str) -> bool:
    """Tell whether there is anything to read: blanks, marks without a letter, and what has no shape say nothing."""
    return any(unicodedata.category(char)[0] not in "ZCM" and not is_hidden(char) for char in text)

"""What a chat message says about a call that waits: yes, no, or nothing. Pure, and no model is asked.

A message counts only when all of it is one of these phrases, perhaps with the name of a tool behind it. Words that
people also say to go on talking (ok, sure, fine) are left out on purpose: what is not plainly a decision is none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from placet.contracts.messages.conversations import TAKEN_TEXT_MAX

Consent = Literal["approve", "deny"]

#: The phrases by language, as `_words` leaves a message: lower case, no commas, no mark at the end.
PHRASES: Mapping[str, Mapping[Consent, frozenset[str]]] = {
    "en": {
        "approve": frozenset({"yes", "yes please", "yes do it", "yes go ahead", "approve", "i approve", "i confirm"}),
        "deny": frozenset({"no", "no thanks", "no thank you", "no do not", "no don't", "deny", "i deny"}),
    },
    "de": {
        "approve": frozenset({"ja", "ja bitte", "ja mach das", "ja machen sie das", "ich stimme zu", "ich bestätige"}),
        "deny": frozenset({"nein", "nein danke", "nein bitte nicht", "ich lehne ab", "ich lehne das ab"}),
    },
    "tr": {
        "approve": frozenset({"evet", "evet lütfen", "evet yap", "evet yapın", "onaylıyorum", "evet onaylıyorum"}),
        "deny": frozenset({"hayır", "hayır teşekkürler", "hayır yapma", "hayır yapmayın", "reddediyorum"}),
    },
}


@dataclass(frozen=True, slots=True)
class Said:
    """A plain yes or no, and the name that stands behind it; empty for a bare one."""

    consent: Consent
    name: str = ""


def may_consent(text: str) -> bool:
    """Tell whether a message could be a decision in any language: most messages cost no further look."""
    return any(read(text, language) is not None for language in PHRASES)


def read(text: str, language: str) -> Said | None:
    """Return what a message says in a language; None for anything that is not one phrase and at most a name."""
    words = _words(text, language)
    found = [
        Said(consent, words[len(phrase) :].strip())
        for consent, phrases in PHRASES.get(language, {}).items()
        for phrase in phrases
        if words == phrase or words.startswith(f"{phrase} ")
    ]
    # The longest phrase is the one that was meant: it leaves the least to be a name.
    return min(found, key=lambda said: len(said.name), default=None)


def named(name: str, waiting: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the only call that waits and is called so; None where none or several are."""
    found = [each for each in waiting if name in {each["tool"].lower(), each["tool"].lower().replace("_", " ")}]
    return found[0] if len(found) == 1 else None


def _words(text: str, language: str) -> str:
    """Return a message in the form of the phrases. What is odd about it is kept, so that it fits none of them."""
    plain = text.strip()
    if len(plain) > TAKEN_TEXT_MAX:
        return ""
    plain = unicodedata.normalize("NFC", plain)
    if language == "tr":
        plain = plain.replace("İ", "i").replace("I", "ı")
    plain = plain.lower().replace("\u2019", "'").removesuffix(".").removesuffix("!")
    return " ".join(plain.replace(", ", " ").split())

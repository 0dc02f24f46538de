"""What the shop's blocks say to visitors, in the languages the demo speaks.

The model has its own words; these stand in blocks a person reads without a model in between.
"""

from __future__ import annotations

from enum import StrEnum


class Text(StrEnum):
    """One message to a visitor."""

    NOTHING_FOUND = "nothing_found"
    CONTACT_SAVED = "contact_saved"
    PERSON_CALLED = "person_called"


_ENGLISH = {
    Text.NOTHING_FOUND: "Nothing in the shop fits this search.",
    Text.CONTACT_SAVED: "Your contact details are saved.",
    Text.PERSON_CALLED: "A member of our team will join this conversation.",
}
_TURKISH = {
    Text.NOTHING_FOUND: "Mağazada bu aramaya uyan ürün yok.",
    Text.CONTACT_SAVED: "İletişim bilgileriniz kaydedildi.",
    Text.PERSON_CALLED: "Ekibimizden biri bu görüşmeye katılacak.",  # Turkish has a dotless i
}
_BY_LANGUAGE = {"en": _ENGLISH, "tr": _TURKISH}


def in_language(text: Text, language: str) -> str:
    """Return the message in the language of a BCP 47 tag, in English where it is not spoken."""
    primary = language.partition("-")[0].lower()
    return _BY_LANGUAGE.get(primary, _ENGLISH)[text]

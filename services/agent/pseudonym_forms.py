"""How pseudonyms look, and which of them somebody wrote by hand."""

from __future__ import annotations

import re
from functools import cached_property

from stdnum import luhn

from placet.agent.personal import CARD, EMAIL, IBAN, NAME, PHONE

#: Countries +999 and XX do not exist, and no card network begins with 999: such numbers reach nobody.
_NOWHERE, _NO_COUNTRY = "999", "XX00"
#: The number of a pseudonym stands in digits with these places and without a 9, so that none begins like another.
_NUMBER_BASE, _NUMBER_PLACES = 9, 4
_LAID_OUT = {PHONE, CARD, IBAN}
_HEADS = re.compile(f"(?=((?:{_NOWHERE}|{_NO_COUNTRY})[0-8]{{{_NUMBER_PLACES}}}))")
_NO_LETTERS = re.compile(r"[\W_]+")
#: No conversation counts as far as this has digits.
_NUMBER = "[1-9][0-9]{0,19}"
_PERSON = re.compile(rf"person-({_NUMBER})(?:v({_NUMBER}))?@example\.invalid")


def is_number(kind: str) -> bool:
    """Tell whether data of a kind are numbers: their pseudonyms are written like them, as long as there are any."""
    return kind in _LAID_OUT


def is_laid_out(kind: str, number: int) -> bool:
    """Tell whether a pseudonym has the spaces and dashes of what it stands for."""
    return kind in _LAID_OUT and number < _NUMBER_BASE**_NUMBER_PLACES


def made(kind: str, number: int, variant: int) -> str:
    """Return the pseudonym with a number, of any kind and any number that is not laid out."""
    name = str(number) if variant == 1 else f"{number}v{variant}"
    return f"person-{name}@example.invalid" if kind == EMAIL else f"{_beginning(kind)}{name}"


def laid_out(kind: str, value: str, number: int) -> str:
    """Write a number that belongs to nobody with the spaces and dashes of `value`."""
    places = sum(map(str.isalnum, value))
    counted = "".join(str(number // _NUMBER_BASE**place % _NUMBER_BASE) for place in reversed(range(_NUMBER_PLACES)))
    text = (_head(kind) + counted).ljust(places, "0")
    if kind == CARD and luhn.is_valid(text):
        text = text[:-1] + "1"
    rest = iter(text)
    return "".join(next(rest) if char.isalnum() else char for char in value)


class Written:
    """A text that may have pseudonyms in it which somebody wrote; read once, however many are asked about."""

    def __init__(self, text: str) -> None:
        self._text = text
        #: By kind: numbers to their least variant.
        self._variants: dict[str, dict[int, int]] = {}

    def least_variant(self, kind: str, number: int) -> int | None:
        """Return the least variant of what `made` makes that stands in the text, also as a part of something."""
        if kind not in self._variants:
            self._variants[kind] = self._people() if kind == EMAIL else self._begun(_beginning(kind))
        return self._variants[kind].get(number)

    def has_laid_out(self, kind: str, candidate: str) -> bool:
        """Tell whether what `laid_out` made stands in the text."""
        size = len(_head(kind)) + _NUMBER_PLACES
        begins = _NO_LETTERS.sub("", candidate)[:size]
        return (len(begins) < size or begins in self._heads) and candidate in self._text

    @cached_property
    def _heads(self) -> frozenset[str]:
        """What laid out pseudonyms begin with, in whatever layout they may stand in the text: far fewer than texts."""
        return frozenset(each[1] for each in _HEADS.finditer(_NO_LETTERS.sub("", self._text)))

    def _people(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for each in _PERSON.finditer(self._text):
            # Variant 1 is written without its number.
            if each[2] != "1":
                number, variant = int(each[1]), int(each[2] or 1)
                found[number] = min(variant, found.get(number, variant))
        return found

    def _begun(self, beginning: str) -> dict[int, int]:
        """Find numbers behind a beginning: `data-1` is a part of `data-12`, and of each of its variants."""
        found = re.finditer(f"(?={re.escape(beginning)}({_NUMBER}))", self._text)
        return {int(each[1][:end]): 1 for each in found for end in range(1, len(each[1]) + 1)}


def _beginning(kind: str) -> str:
    return "Person " if kind == NAME else f"{kind}-"


def _head(kind: str) -> str:
    return _NO_COUNTRY if kind == IBAN else _NOWHERE

"""Finds personal data in a text: e-mail addresses, phone numbers, IBANs, payment cards, given names, own patterns.

Texts are read folded, so that full-width digits, exotic spaces and dashes, and characters that nobody sees hide
nothing. What is found is told by its place in the text as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate

import phonenumbers
from stdnum import iban, luhn

from placet.agent.names import finder
from placet.domain.patterns import NoPattern, compiled

# No pattern of an agent can have such a name.
EMAIL, PHONE, IBAN, CARD, NAME = "e-mail", "phone-number", "iban-number", "card-number", "full-name"
#: What touches or overlaps something else, and a text that cannot be told apart otherwise.
DATA = "data"

#: Memory for one pattern, in bytes; a larger one is refused at the start.
PATTERN_BYTES_MAX = 1 << 20

# Bounded on every side, so that a long text costs no more than its length times a constant.
_EMAIL = re.compile(
    r"""(?:\w[\w.%+'-]{0,63}|"(?:[^"\\\r\n]|\\.){1,64}")@"""
    r"(?:(?:\w[\w-]{0,62}\.){1,8}\w[\w-]{1,62}|\[(?:IPv6:)?[0-9A-Fa-f:.]{2,45}\])"
)
_PHONE = re.compile(r"\+?(?:\(\+?)?\d(?:[ ()./-]{0,3}\d){6,19}")
_DIGITS = re.compile(r"\d+(?:[\s._-]{1,3}\d+)*")
_IBAN = re.compile(r"(?<![^\W_])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}")
_CARD_DIGITS = range(13, 20)
_CARD_BEGINS = "23456"
#: Groups of digits as cards have them; in other groups only single spaces and dashes make one number of them.
_CARD_LAYOUT = re.compile(r"\d{4}\D+(?:\d{4}\D+\d{4}(?:\D+\d{1,4}){1,2}|\d{6}\D+\d{4,5})")
_ROW = re.compile(r"\d+(?:[ -]\d+)*")
#: What people write for regions that ISO 3166 calls otherwise.
_OFTEN_MEANT = {"UK": "GB", "EL": "GR", "EN": "GB"}
_DASHES = dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-")


@dataclass(frozen=True, slots=True)
class Found:
    """A piece of personal data at `start:end` of a text; spellings of one datum have the same `canonical`."""

    start: int
    end: int
    kind: str
    canonical: str


Recognise = Callable[[str], list[Found]]


def why_not_a_pattern(pattern: str) -> str | None:
    """Return what is wrong with a pattern of personal data; None where it can be used."""
    try:
        found = compiled(pattern, PATTERN_BYTES_MAX).search("")
    except NoPattern as error:
        return f"no pattern: {error}"
    return "it matches the empty text" if found else None


def why_not_a_region(region: str) -> str | None:
    """Return what is wrong with the region of phone numbers; None where its numbers are known."""
    if region in phonenumbers.SUPPORTED_REGIONS:
        return None
    meant = _OFTEN_MEANT.get(region)
    return f"no numbers of a region {region!r} are known" + (f", did you mean {meant!r}?" if meant else "")


@dataclass(frozen=True)
class Personal:
    """What an agent takes for personal data."""

    #: Globs over the labels of a conversation whose values are names of people.
    name_labels: Sequence[str] = ()
    #: Kind to pattern of an engine that takes linear time.
    patterns: Mapping[str, str] | None = None
    #: Where a phone number without a country is from, as ISO 3166 says it; None: such numbers are not found.
    region: str | None = None

    def recognise_in(self, labels: Mapping[str, str]) -> Recognise:
        """Return what finds personal data in a conversation with these labels."""
        names = [text for label, text in labels.items() if any(fnmatchcase(label, glob) for glob in self.name_labels)]
        named = finder(names)
        own = {kind: compiled(pattern, PATTERN_BYTES_MAX) for kind, pattern in (self.patterns or {}).items()}

        def recognise(text: str) -> list[Found]:
            folded, places = fold(text)
            found = list(_usual(folded, self.region))
            found += [
                Found(each.start(), each.end(), kind, each.group())
                for kind, pattern in own.items()
                for each in pattern.finditer(folded)
                if each.group()
            ]
            there = [Found(places[each.start], places[each.end - 1] + 1, each.kind, each.canonical) for each in found]
            if named is not None:
                there += [Found(start, end, NAME, canonical) for start, end, canonical in named(text)]
            return there

        return recognise


def fold(text: str) -> tuple[str, list[int]]:
    """Return a text in plain characters, without those that nobody sees, and the place of each in the original."""
    if text.isascii():
        return text, list(range(len(text)))
    pairs = [(_plain(char), place) for place, char in enumerate(text) if unicodedata.category(char) != "Cf"]
    return "".join(char for char, _ in pairs), [place for _, place in pairs]


def _plain(char: str) -> str:
    if char.isascii():
        return char
    if (digit := unicodedata.decimal(char, None)) is not None:
        return str(digit)
    plain = _DASHES.get(ord(char)) or unicodedata.normalize("NFKC", char)
    return plain if len(plain) == 1 else char


def _usual(text: str, region: str | None) -> Iterator[Found]:
    """Yield what everybody takes for personal data, in a folded text."""
    for each in _EMAIL.finditer(text):
        yield Found(*each.span(), EMAIL, each[0].casefold())
    for each in _PHONE.finditer(text):
        yield from _phones(each[0], each.start(), region)
    for each in _DIGITS.finditer(text):
        yield from _cards(each[0], each.start())
    for each in _IBAN.finditer(text):
        yield from _ibans(each[0], each.start())


def _phones(text: str, start: int, region: str | None) -> Iterator[Found]:
    # Who writes a country says that it is a phone number; any other row of digits must be one that exists.
    leniency = phonenumbers.Leniency.POSSIBLE if "+" in text else phonenumbers.Leniency.VALID
    for each in phonenumbers.PhoneNumberMatcher(text, region, leniency=leniency):
        digits = "".join(char for char in each.raw_string if char.isdigit() or char == "+")
        yield Found(start + each.start, start + each.end, PHONE, digits)


def _cards(text: str, start: int) -> Iterator[Found]:
    """Yield the cards in groups of digits; what stands before or after one in the same row is none of it."""
    groups = [(each.start(), each.end()) for each in re.finditer(r"\d+", text)]
    sizes = list(accumulate((end - begin for begin, end in groups), initial=0))
    first = 0
    while first < len(groups):
        # Each group has a digit at least, so that no card is of more groups than digits.
        most = min(first + _CARD_DIGITS[-1], len(groups))
        lasts = [last for last in range(first + 1, most + 1) if sizes[last] - sizes[first] <= _CARD_DIGITS[-1]]
        for last in reversed(lasts):
            begin, end = groups[first][0], groups[last - 1][1]
            digits = re.sub(r"\D", "", text[begin:end])
            if _is_card(digits) and any(form.fullmatch(text, begin, end) for form in (_ROW, _CARD_LAYOUT)):
                yield Found(start + begin, start + end, CARD, digits)
                first = last - 1
                break
        first += 1


def _is_card(digits: str) -> bool:
    return len(digits) in _CARD_DIGITS and digits[0] in _CARD_BEGINS and luhn.is_valid(digits)


def _ibans(text: str, start: int) -> Iterator[Found]:
    """Yield the longest beginning of a text that is an IBAN: words may stand right behind one."""
    for end in range(len(text), 14, -1):
        if text[end - 1].isalnum() and iban.is_valid(text[:end], check_country=False):
            yield Found(start, start + end, IBAN, iban.compact(text[:end]))
            return

"""How an id is found in what Placet stores: as a whole, however it is spelled there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from placet.contracts.topology import SERVICES

#: Fields and columns that say who, in which a visitor's name stands without kind, as their frontend gave it: one id,
#: several between spaces, a list of them, or an object with a field for each.
_WHO = (
    *("author", "closed_to", "deciders", "opened_by", "person", "relayed_by", "requester", "seats", "visitor"),
    "voters",
)
#: So do these, where Placet itself may stand too.
_DOERS = ("cancel_asked", "claimed", "decided", "denied", "ended", "resolved", "stopped")
_DID = ("by", *(f"{who}_by" for who in _DOERS))
#: What it is called there.
PLACET = frozenset({*SERVICES, "clock", "file", "purge", "restore"})
#: An id does not begin within a word, but behind what JSON has for a control character or for any other.
_BEGIN = r"(?:(?<![\w.@+-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))"
#: A sentence may end with one.
_END = r"(?![\w.@+-]*[\w@+-])"


def pattern_of(identity: str, namesakes: Iterable[str] = (), *, in_json: bool = False) -> str:
    """Return the regular expression of an identity that is no part of a longer one.

    An id may have any character, so nothing in a text says where it ends: where one of `namesakes`, which begin with
    the identity, stands there, it is theirs. `in_json`: it stands in a column as it is, or in JSON as that has it; a
    quote is a namesake's where it is escaped, and ends the string elsewhere. PostgreSQL and Python read it alike.
    """
    longer = sorted(each.removeprefix(identity) for each in namesakes if each.startswith(identity) and each != identity)
    theirs = "|".join(map(_in_json if in_json else re.escape, longer))
    found = spelled(identity) if in_json else re.escape(identity)
    return _BEGIN + found + (f"(?!(?:{theirs}){_END})" if theirs else "") + _END


def who_says(name: str) -> Sequence[str]:
    """Return the fields and columns in which a visitor's name without kind is theirs, and nothing else's."""
    return _WHO if name in PLACET else (*_WHO, *_DID)


def bare_in_list(name: str) -> str:
    """Return the regular expression of a visitor's name without kind where nothing but ids stands, in Python."""
    return rf"(?<![^ ~]){re.escape(name)}(?![^ ])"


def bare_in_column(name: str) -> str:
    """Return the same for a column of ids as a text: one, several, a list or an object."""
    return rf'(?:^|[ ~{{,"]){spelled(name)}(?=$|[ }},"])'


def bare_in_json(name: str) -> str:
    """Return the same for JSON that has fields with ids."""
    quote, alone = spelled('"'), spelled(name)
    fields = f"{quote}(?:{'|'.join(who_says(name))}){quote}: ?"
    listed, one = rf"{quote}(?:[^\"]* )?~?{alone}(?: [^\"]*)?{quote}", f"{quote}{alone}{quote}"
    return rf"{fields}(?:{listed}|\[[^]]*{one}|\{{[^}}]*{one}: ?)|{bare_in_sentence(name)}"


def bare_in_sentence(name: str) -> str:
    """Return the same for what Placet says that they asked for or cancelled."""
    them = spelled(name)
    return rf"(?:(?<=asked by )|(?<=Cancelled by )){them}(?=[.:])|{_BEGIN}{them}(?= cancelled it)"


def spelled(text: str) -> str:
    """Return the regular expression of a text as it is, within JSON, and within JSON that is a string of JSON."""
    return _with_signs(text, {"\\": r"\\+", '"': r'(?:\\(?:\\\\)*)?"'})


def _in_json(text: str) -> str:
    return _with_signs(text, {"\\": r"(?:\\\\)+", '"': r'\\(?:\\\\)*"'})


def _with_signs(text: str, signs: Mapping[str, str]) -> str:
    return "".join(signs.get(each) or _spelled(each) for each in text)


def _spelled(char: str) -> str:
    if char.isascii():
        return re.escape(char)
    escaped = json.dumps(char)[1:-1].replace("\\", r"\\+")
    return f"(?:{char}|{escaped})"

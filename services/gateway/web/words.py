"""Values as people read them: names, times, risks and events. Pure; what hides in a text is shown as its code point."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from math import ceil
from types import MappingProxyType
from typing import Any

from placet.contracts.canonical import readable_text
from placet.contracts.errors import Refused
from placet.contracts.permit import MAY_HAVE_RUN
from placet.contracts.visitors import ANONYMOUS
from placet.domain.approvers import person_id, read_approver
from placet.domain.card_text import visible, visible_lines
from placet.domain.directory import Person
from placet.gateway.approvals.search import COUNT_MAX
from placet.surfaces.texts import LANGUAGES, number, plural, text

_ENGLISH = LANGUAGES[0]
#: Units of time: seconds in one, and how one and several are told.
UNITS = (
    (86_400, "{count} day", "{count} days"),
    (3_600, "{count} h", "{count} h"),
    (60, "{count} min", "{count} min"),
    (1, "{count} s", "{count} s"),
)

#: Whom a sentence names; a full stop behind it ends the sentence.
_NAMED = re.compile(r"\b(?:person|visitor):[A-Za-z0-9._@+-]*[A-Za-z0-9_@+-]")
#: What a tool of each category does to the world, in a word.
RISKS: Mapping[str, str] = {
    "safe_read": "reads",
    "safe_search": "searches",
    "safe_compute": "computes",
    "unsafe_write": "writes",
    "unsafe_api": "external effect",
    "unsafe_exec": "runs code",
}


def plain(value: Any) -> str:
    """Return an argument's name or value as people read it: a text as it is, all else as JSON, and nothing hidden."""
    return visible(value if isinstance(value, str) else readable_text(value))


def lined(value: Any) -> str:
    """Return an argument's value as `plain` does, a text in its lines: for a place that is a box of its own."""
    return visible_lines(value) if isinstance(value, str) else plain(value)


def indented(value: Any) -> str:
    """Return a value as JSON in lines, for a box of its own; nothing in it hides."""
    return visible_lines(json.dumps(value, indent=2, ensure_ascii=False, default=str, sort_keys=True))


def exact(moment: datetime) -> str:
    """Return a moment to the second, with its zone."""
    return moment.strftime("%Y-%m-%d %H:%M:%S %Z")


def who(name: str, language: str = _ENGLISH, people: Mapping[str, Person] = MappingProxyType({})) -> str:
    """Return whom a rule or a history names: `Ada` for `person:ada` of `people`, `finance` for `group:finance`."""
    named = read_approver(name)
    if named.kind == "requester":
        return text(language, "the requester")
    if named.kind == "operators":
        return text(language, "operators")
    if name.startswith(ANONYMOUS):
        return text(language, "visitor {name}", name=visible(name.removeprefix(ANONYMOUS)[-8:]))
    person = people.get(named.name) if named.kind == "person" else None
    return visible((person.name if person else "") or named.name or name)


def told(sentence: str, language: str = _ENGLISH, people: Mapping[str, Person] = MappingProxyType({})) -> str:
    """Return a sentence of ours in which people have their names: "Stopped by Ada." for "Stopped by person:ada."."""
    return _NAMED.sub(lambda found: who(found[0], language, people), visible(sentence))


def names_in(item: Mapping[str, Any], people: Mapping[str, Person]) -> dict[str, str]:
    """Return the names of the people whom an item of a conversation's log is from or tells of: id -> name."""
    author = item.get("author") or {}
    said = (author.get("id"), *(item.get(field) for field in ("by", "operator", "decided_by", "reason", "error")))
    ids = {found for each in said if isinstance(each, str) for found in _NAMED.findall(each)}
    known = {each: people.get(person_id(each) or "") for each in sorted(ids)}
    return {each: person.name for each, person in known.items() if person and person.name}


def initials(name: str) -> str:
    """Return the initials of a name as people read it: `AL` of `Ada Lovelace`, `L` of `lin`."""
    parts = [part for part in re.split(r"[\s._@-]+", name) if part]
    return "".join(part[0] for part in (parts[:1] + parts[1:][-1:])).upper()


def ago(moment: datetime, now: datetime, language: str = _ENGLISH) -> str:
    """Return how long ago a moment was."""
    seconds = (now - moment).total_seconds()
    if seconds < 1:
        return text(language, "just now")
    return text(language, "{span} ago", span=lasting(seconds, language))


def due(moment: datetime, now: datetime, language: str = _ENGLISH) -> str:
    """Return how long it is until a deadline; hours and days with the unit below, so that nobody is an hour late."""
    seconds = (moment - now).total_seconds()
    if seconds <= 0:
        return text(language, "overdue")
    spans = [lasting(seconds, language)]
    for (size, *_), (below, *_) in pairwise(UNITS[:3]):
        if seconds >= size:
            spans += [lasting(seconds % size, language)] if seconds % size >= below else []
            break
    return text(language, "in {span}", span=" ".join(spans))


def lasting(seconds: float, language: str = _ENGLISH) -> str:
    """Return how long something lasts, in its largest whole unit."""
    size, one, many = next((each for each in UNITS if seconds >= each[0]), UNITS[-1])
    return plural(language, one, many, int(seconds // size))


def within(seconds: float, language: str = _ENGLISH) -> str:
    """Return a time that something took at most, rounded up to its largest whole unit."""
    size = next((each[0] for each in UNITS if seconds >= each[0]), 1)
    return lasting(ceil(seconds / size) * size, language)


def risk(category: str | None, language: str = _ENGLISH) -> str:
    """Return what a tool of a category does to the world, in a word or two."""
    return text(language, RISKS.get(category or "", "unknown"))


def event(name: str, language: str = _ENGLISH) -> str:
    """Return an event, a state, a verb or another name of a list as words; what no catalogue has as it is."""
    return text(language, visible(name).replace("_", " ")) if name else ""


def uncounted(detail: Any) -> str:
    """Return what became of a row of the history where that is less than it says, such as a vote that did not count."""
    outcome = detail.get("outcome") if isinstance(detail, Mapping) else None
    return outcome if isinstance(outcome, str) and outcome not in {"accepted", "asked", "counted"} else ""


def doubted(error: str, language: str = _ENGLISH) -> str:
    """Return what a call's result says, in a language as far as the words are ours and the same for every tool."""
    before, found, after = visible(error).rpartition(MAY_HAVE_RUN)
    parts = (before.strip(), found, after.strip()) if found else (after,)
    return " ".join(text(language, part) for part in parts if part)


def total(count: int, language: str = _ENGLISH) -> str:
    """Return a count of approvals: exact up to COUNT_MAX, `1,000+` beyond."""
    exact = number(language, min(count, COUNT_MAX))
    return exact if count <= COUNT_MAX else f"{exact}+"


def upper_first(words: str) -> str:
    """Return words as they begin a sentence; the rest stays as it is, for German writes nouns large."""
    return words[:1].upper() + words[1:]


def title_of(refusal: Refused, language: str = _ENGLISH) -> str:
    """Return what a refusal says, in English where no catalogue has it."""
    match refusal:
        case Refused(kind="scope-missing", facts={"scopes": [*scopes]}):
            return text(
                language, "This needs the scope {scopes}.", scopes=f" {text(language, 'or')} ".join(map(str, scopes))
            )
        case Refused(kind="conversation-held", facts={"operator": str(operator)}):
            return text(language, "{person} holds this conversation.", person=who(operator, language))
        case _:
            return text(language, refusal.title)


def reason_of(refusal: Refused, language: str = _ENGLISH) -> str:
    """Return what a refusal says beside its title."""
    by = refusal.facts.get("decided_by")
    if by:
        return text(language, "Decided by {person}.", person=who(str(by), language))
    detail = str(refusal.facts.get("detail") or "")
    return text(language, detail) if detail else ""

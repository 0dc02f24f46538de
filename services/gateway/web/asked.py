"""What the address of the inbox asks for, and what its filters offer: plain links, so that any list can be sent on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import get_args
from urllib.parse import urlencode

from pydantic import TypeAdapter, ValidationError

from placet.gateway.approvals.filters import SEARCH_MAX, InboxQuery
from placet.gateway.approvals.forms import BATCH_MAX
from placet.gateway.approvals.survey import GROUPS, Counted, Order, Survey
from placet.gateway.identity.auth import Caller
from placet.gateway.web import words
from placet.surfaces.texts import LANGUAGES, text

#: Rows on a page, and where all of a filter are chosen at once.
PAGE = 50
ALL = BATCH_MAX
#: Filters as they stand in the address; `day` is one day of UTC.
FILTERS: Mapping[str, str] = {
    "state": "State",
    "tool": "Tool",
    "agent": "Agent",
    "requester": "Requester",
    "rule": "Rule",
    "category": "Risk",
    "decided_by": "Decided by",
    "older_than": "Age",
    "day": "Date",
    "conversation": "Conversation",
}
#: Those that only tell closed ones apart.
_CLOSED = frozenset({"state", "decided_by"})
ORDERS: Mapping[Order, str] = {
    "newest": "Newest first",
    "oldest": "Oldest first",
    "deadline": "Deadline",
    "risk": "Risk",
    "amount": "Amount",
}
AGES: Mapping[str, str] = {"600": "over 10 minutes", "3600": "over an hour", "86400": "over a day"}
_DAY = TypeAdapter(date)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address asks for: the filters as they were typed, how the list stands, and what that means."""

    mine: bool
    typed: Mapping[str, str]
    #: Order and group, where they are not the usual ones.
    arranged: Mapping[str, str]
    cursor: str
    #: Whether all that fit shall be on the page, to be decided together.
    whole: bool
    #: None where what was typed means nothing; `fault` then says why.
    query: InboxQuery | None
    fault: str = ""

    @property
    def order(self) -> Order:
        """How the list stands."""
        return self.query.sort if self.query else "newest"

    @property
    def group(self) -> str:
        """What the list is grouped by; empty: nothing."""
        return self.arranged.get("group", "")

    def link(self, **changes: str) -> str:
        """Return the address of this list from its first page, with changes; an empty value leaves its part out."""
        view = {} if self.mine else {"view": "all"}
        given = {**view, **self.typed, **self.arranged, **changes}
        query = urlencode({name: value for name, value in given.items() if value})
        return f"/inbox?{query}" if query else "/inbox"

    @property
    def cleared(self) -> str:
        """The address of this list without filters."""
        return self.link(**dict.fromkeys(self.typed, ""))

    @property
    def narrowed(self) -> bool:
        """Whether any filter is set."""
        return bool(self.typed)

    @property
    def as_beginning(self) -> str:
        """The address of the same with the last word as the beginning of one; empty where that says nothing new."""
        typed = self.typed.get("q", "")
        return self.link(q=f"{typed}*") if typed and typed[-1].isalnum() else ""


def asked_of(parameters: Mapping[str, str], language: str = LANGUAGES[0]) -> Asked:
    """Return what an address asks for; empty fields of the form ask for nothing. A fault is told in `language`."""
    mine, cursor = parameters.get("view") != "all", parameters.get("cursor", "")
    names = ("q", *FILTERS)
    typed = {name: value.strip() for name in names if (value := parameters.get(name, "")).strip()}
    if mine:
        typed = {name: value for name, value in typed.items() if name not in _CLOSED}
    usual = {"sort": "newest", "group": ""}
    arranged = {name: value for name in usual if (value := parameters.get(name, "")) and value != usual[name]}
    whole = parameters.get("whole") == "1"
    wrong = [] if arranged.get("group", "") in {"", *GROUPS} else ["group"]
    asks = {name: value for name, value in typed.items() if name != "day"}
    try:
        if "day" in typed:
            begin = datetime.combine(_DAY.validate_strings(typed["day"]), time(), UTC)
            asks |= {"opened_after": begin.isoformat(), "opened_before": (begin + timedelta(days=1)).isoformat()}
        sort = {"sort": arranged["sort"]} if "sort" in arranged else {}
        query = InboxQuery.model_validate({**asks, **sort, "mine": mine, "cursor": cursor or None})
    except (ValidationError, OverflowError) as error:
        faults = error.errors() if isinstance(error, ValidationError) else []
        wrong += sorted({str(each["loc"][0]) if each["loc"] else "day" for each in faults}) or ["day"]
        query = None
    fault = ""
    if "q" in wrong:
        words = "Search for words: at least one letter or digit, and at most {count} characters in all."
        fault = text(language, words, count=SEARCH_MAX)
    elif wrong:
        named = [text(language, FILTERS.get(each, each)) for each in wrong]
        fault = text(language, "This search cannot be run: {wrong}.", wrong=", ".join(named))
    return Asked(mine, typed, arranged, cursor, whole, None if wrong else query, fault)


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a filter: as people read it, how many have it, and where it leads."""

    label: str
    count: str
    link: str


@dataclass(frozen=True, slots=True)
class Facet:
    """A filter with the values that what is listed has."""

    name: str
    label: str
    choices: tuple[Choice, ...]


def facets_of(asked: Asked, survey: Survey, now: datetime, reader: Caller) -> tuple[Facet, ...]:
    """Return the filters that are not set and would narrow the list, each with its values and their counts."""
    more, language = "" if survey.complete else "+", reader.language
    found = []
    for name, label in FILTERS.items():
        counted = _counted(survey, name, now)
        if name in asked.typed or name == "conversation" or (asked.mine and name in _CLOSED):
            continue
        if not counted or (len(counted) == 1 and counted[0].count == len(survey.rows)):
            continue
        choices = (
            Choice(said(name, each.value, reader), f"{each.count}{more}", asked.link(**{name: each.value}))
            for each in counted
        )
        found.append(Facet(name, text(language, label), tuple(choices)))
    return tuple(found)


def chips_of(asked: Asked, reader: Caller) -> tuple[Choice, ...]:
    """Return the filters that are set, each with where the list without it is; a search stands in its field."""
    return tuple(
        Choice(f"{text(reader.language, FILTERS[name])}: {said(name, value, reader)}", "", asked.link(**{name: ""}))
        for name, value in asked.typed.items()
        if name in FILTERS
    )


def said(name: str, value: str, reader: Caller) -> str:
    """Return the value of a filter as who reads it does."""
    language = reader.language
    match name:
        case "requester" | "decided_by":
            return words.who(value, language, reader.people)
        case "category":
            return words.risk(value, language)
        case "state":
            return text(language, "waiting") if value == "pending" else words.event(value, language)
        case "older_than" if value in AGES:
            return text(language, AGES[value])
        case _:
            return words.plain(value)


def orders(survey: Survey, chosen: Order) -> Iterable[tuple[Order, str]]:
    """Return the orders to choose from: by amount only where anything has one."""
    return [
        (each, ORDERS[each]) for each in get_args(Order) if each == chosen or each != "amount" or survey.has_amounts
    ]


def _counted(survey: Survey, name: str, now: datetime) -> tuple[Counted, ...]:
    match name:
        case "older_than":
            return survey.ages(now)
        case "day":
            return survey.days(UTC)
        case "conversation":
            return ()
        case _:
            return survey.facet(name)

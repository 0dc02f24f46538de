"""What administrators look after, each noun as one sheet: its columns, its rows and what can be done with one.

Rows and actions are the API's own functions, so that a page can do no more than the API does for the same person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from fastapi import Response

from placet.contracts.errors import Refused
from placet.domain.approvers import identity_of
from placet.gateway.admin import history_routes as history
from placet.gateway.admin import key_routes as keys
from placet.gateway.admin import limit_routes as limits
from placet.gateway.admin import routes as admin
from placet.gateway.admin import session_routes as sessions
from placet.gateway.approvals import tool_call_routes as tool_calls
from placet.gateway.approvals.tool_call_routes import CallState
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.web.shown import tools_of
from placet.gateway.web.words import lasting, uncounted
from placet.surfaces.duty import duty_now, hours_words
from placet.surfaces.texts import number, text

Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = tuple[Sequence[Row], str | None]
#: What a page is asked for: `state`, and the filters of its sheet; what is not asked is not there.
Asked: TypeAlias = Mapping[str, str]
Load: TypeAlias = Callable[[Deps, Caller, Asked, str | None], Awaitable[Rows]]
Kind = Literal["text", "code", "badge", "event", "moment", "who", "people", "words", "conversation", "call", "yes"]

#: Rows of a page.
PAGE = 50


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that can be done with a row."""

    name: str
    #: Of a row, whether it can be done.
    fits: Callable[[Row], bool]
    do: Callable[[Deps, Caller, str], Awaitable[object]]
    #: Whether it takes something away.
    takes: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """One kind of thing."""

    name: str
    columns: Mapping[str, Kind]
    load: Load
    #: States to choose from; the first is shown where nobody chose, `all` asks for every one.
    states: tuple[str, ...] = ()
    #: What else rows can be narrowed by: each name with its type of input.
    filters: Mapping[str, Literal["text", "date", "who", "tool", "agent"]] = field(default_factory=dict)
    #: Where all that fits is had as a file; formats are CSV and JSON lines.
    export: str = ""
    #: What is asked, as the API of its export takes it; raises ValueError for what that refuses.
    query: Callable[[Asked], Mapping[str, str]] = dict
    acts: tuple[Act, ...] = ()
    #: Shows one row with all there is to know; None: the row is all.
    show: Callable[[Deps, Caller, str], Awaitable[Row]] | None = None
    #: For administrators of the house only: it belongs to no tenant.
    of_house: bool = False


def _dumped(page: Any) -> Rows:
    found = page if isinstance(page, dict) else dict(page)
    return [each if isinstance(each, dict) else each.model_dump() for each in found["items"]], found.get("next")


def _paged(listing: Callable[..., Awaitable[Any]]) -> Load:
    async def load(deps: Deps, caller: Caller, asked: Asked, after: str | None) -> Rows:
        return _dumped(await listing(deps, caller, asked.get("state"), PAGE, after))

    return load


def _whole(listing: Callable[..., Awaitable[Any]]) -> Load:
    async def load(deps: Deps, caller: Caller, _asked: Asked, _after: str | None) -> Rows:
        return _dumped(await listing(deps, caller))

    return load


def _sent(action: Callable[..., Awaitable[Any]]) -> Callable[[Deps, Caller, str], Awaitable[object]]:
    async def do(deps: Deps, caller: Caller, row_id: str) -> object:
        return await action(deps, caller, row_id, Response())

    return do


def _shown(showing: Callable[..., Awaitable[Any]]) -> Callable[[Deps, Caller, str], Awaitable[Row]]:
    async def show(deps: Deps, caller: Caller, row_id: str) -> Row:
        found: Row = (await showing(deps, caller, row_id)).model_dump()
        return found

    return show


async def _calls(deps: Deps, caller: Caller, asked: Asked, after: str | None) -> Rows:
    query = tool_calls.CallQuery.model_validate({**_days(asked), "limit": PAGE, "cursor": after})
    found = _dumped(await tool_calls.list_calls(deps, caller, query))
    if query.state or after:
        return found
    # What nobody knows the outcome of comes first.
    unknown, _ = _dumped(await tool_calls.list_calls(deps, caller, query.model_copy(update={"state": "unknown"})))
    known = {row["id"] for row in unknown}
    return [*unknown, *(row for row in found[0] if row["id"] not in known)], found[1]


def _days(asked: Asked) -> dict[str, str]:
    """Return what is asked as the API takes it: whole days, in UTC, the last one with its evening, and ids of people.

    Raises ValueError for what is no day.
    """
    query = dict(asked)
    for name, days in (("since", 0), ("until", 1)):
        if name in query:
            query[name] = f"{date.fromisoformat(query[name]) + timedelta(days=days)}T00:00:00Z"
    if (requester := query.get("requester")) and ":" not in requester:
        query["requester"] = identity_of(requester)
    return query


async def _history(deps: Deps, caller: Caller, asked: Asked, after: str | None) -> Rows:
    query = history.HistoryQuery.model_validate({**_days(asked), "limit": PAGE, "cursor": after})
    rows, following = _dumped(await history.list_changes(deps, caller, query))
    return [{**row, "outcome": uncounted(row["detail"])} for row in rows], following


async def _limits(deps: Deps, caller: Caller, _asked: Asked, after: str | None) -> Rows:
    rows, following = _dumped(await limits.list_limits(deps, caller, PAGE, after))

    def words(window: Row) -> str:
        used, most = (number(caller.language, window[name]) for name in ("used", "at_most"))
        span = lasting(window["within_seconds"], caller.language)
        return text(caller.language, "{used} of {most} in {span}", used=used, most=most, span=span)

    return [{**row, "used": [words(each) for each in row["windows"]]} for row in rows], following


async def _tools(deps: Deps, _caller: Caller, _asked: Asked, _after: str | None) -> Rows:
    named = {"name", "category", "pool", "description"}
    known = await tools_of(deps.settings.rulebook)
    return [{**known[name].model_dump(include=named), "id": name} for name in known], None


async def _agents(deps: Deps, caller: Caller, _asked: Asked, _after: str | None) -> Rows:
    rows = []
    for name, each in deps.agents.of(caller.tenant).items():
        budget = each.budget.model_dump(exclude_none=True)
        limits = [f"{field.replace('_', ' ')}: {value:g}" for field, value in budget.items()]
        rows.append({"id": name, "name": name, "description": each.description, "tools": each.tools, "budget": limits})
    return rows, None


async def _keys(deps: Deps, caller: Caller, _asked: Asked, _after: str | None) -> Rows:
    rows, _ = _dumped(await keys.list_all(deps, caller))
    return [{**row, "person": identity_of(row["person"])} for row in rows], None


async def _people(deps: Deps, _caller: Caller, _asked: Asked, _after: str | None) -> Rows:
    known = deps.directory()
    rows: list[Row] = []
    for name, each in sorted(known.people.items()):
        groups = sorted(group for group, members in known.groups.items() if name in members)
        rows.append({"id": name, "name": identity_of(name), "person": name, "groups": groups, "active": each.active})
    return rows, None


async def _groups(deps: Deps, caller: Caller, _asked: Asked, _after: str | None) -> Rows:
    known, now = deps.directory(), datetime.now(UTC)
    rows = [
        {
            "id": name,
            "name": name,
            "members": [identity_of(each) for each in sorted(known.groups[name])],
            "on_duty": duty_now(known, name, caller.language, now),
            "working_hours": hours_words(known, name, caller.language),
        }
        for name in sorted(known.groups)
    ]
    return rows, None


def _in(*states: str) -> Callable[[Row], bool]:
    return lambda row: row["state"] in states


SHEETS: Mapping[str, Sheet] = {
    each.name: each
    for each in (
        Sheet(
            "calls",
            {
                "tool": "code",
                "state": "badge",
                "agent": "text",
                "requester": "who",
                "conversation_id": "conversation",
                "proposed_at": "moment",
            },
            _calls,
            states=("all", "unknown", *(each for each in get_args(CallState) if each != "unknown")),
            filters={"tool": "tool", "agent": "agent", "requester": "who", "since": "date", "until": "date"},
            show=_shown(tool_calls.show),
        ),
        Sheet(
            "dead-letters",
            {"message_type": "code", "state": "badge", "queue": "code", "reason": "text", "received_at": "moment"},
            _paged(admin.list_letters),
            states=("open", "replayed", "discarded", "all"),
            acts=(
                Act("replay", _in("open"), _sent(admin.replay)),
                Act("discard", _in("open"), _sent(admin.discard), takes=True),
            ),
            show=_shown(admin.show_letter),
        ),
        Sheet(
            "deliveries",
            {"channel": "text", "state": "badge", "recipient": "text", "error": "text", "updated_at": "moment"},
            _paged(admin.list_deliveries),
            states=("given_up", "due", "kept", "sent", "all"),
            acts=(Act("retry", _in("given_up"), _sent(admin.retry_delivery)),),
        ),
        Sheet(
            "webhooks",
            {"webhook": "text", "state": "badge", "type": "code", "error": "text", "created_at": "moment"},
            _paged(admin.list_webhook_events),
            states=("given_up", "due", "sent", "all"),
            acts=(Act("retry", _in("given_up"), _sent(admin.retry_webhook_event)),),
        ),
        Sheet(
            "grants",
            {
                "tool": "code",
                "state": "badge",
                "owner": "who",
                "scope": "event",
                "uses_left": "text",
                "expires_at": "moment",
            },
            _paged(admin.list_grants),
            states=("active", "used_up", "expired", "revoked", "void", "all"),
            acts=(Act("revoke", _in("active"), _sent(admin.revoke_grant), takes=True),),
            show=_shown(admin.show_grant),
        ),
        Sheet(
            "limits",
            {
                "rule": "code",
                "measure": "code",
                "per": "text",
                "subject": "who",
                "used": "words",
                "touched_at": "moment",
            },
            _limits,
        ),
        Sheet(
            "history",
            {
                "at": "moment",
                "machine": "code",
                "event": "event",
                "outcome": "event",
                "to_state": "badge",
                "actor": "who",
                "subject_id": "code",
                "call_id": "call",
            },
            _history,
            filters={
                "machine": "text",
                "event": "text",
                "actor": "who",
                "subject_id": "text",
                "call_id": "text",
                "since": "date",
                "until": "date",
            },
            export="/v1/history/export",
            query=_days,
            show=_shown(history.show),
        ),
        Sheet(
            "keys",
            {
                "person": "who",
                "scopes": "words",
                "created_by": "who",
                "created_at": "moment",
                "taken_over_at": "moment",
                "revoked_at": "moment",
            },
            _keys,
            acts=(Act("revoke", lambda row: row["revoked_at"] is None, keys.revoke, takes=True),),
        ),
        Sheet(
            "sessions",
            {"person": "who", "method": "event", "created_at": "moment", "seen_at": "moment", "expires_at": "moment"},
            _whole(sessions.list_all),
            acts=(Act("revoke", lambda _: True, sessions.revoke, takes=True),),
        ),
        Sheet("tools", {"name": "code", "category": "code", "pool": "text", "description": "text"}, _tools),
        Sheet("agents", {"name": "code", "description": "text", "tools": "words", "budget": "words"}, _agents),
        Sheet(
            "people",
            {"name": "who", "person": "code", "groups": "words", "active": "yes"},
            _people,
            of_house=True,
        ),
        Sheet(
            "groups",
            {"name": "code", "members": "people", "on_duty": "text", "working_hours": "text"},
            _groups,
            of_house=True,
        ),
    )
}


def sheet_of(name: str, caller: Caller) -> Sheet:
    """Return a sheet that this administrator may see; raise Refused (403, 404)."""
    caller.need(Scope.ADMIN)
    sheet = SHEETS.get(name)
    if sheet is None:
        raise Refused("There is no such thing.", status=404, kind="not-found")
    if sheet.of_house:
        caller.need_house()
    return sheet


def common(caller: Caller, name: str) -> dict[str, Any]:
    """Return what every page of administrators is given."""
    nouns = [each.name for each in SHEETS.values() if caller.of_house or not each.of_house]
    return {"caller": caller, "here": "admin", "nouns": nouns, "noun": name}

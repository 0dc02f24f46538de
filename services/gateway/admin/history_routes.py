"""The history over HTTP, for administrators of a tenant: every change of a state, in pages and as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from placet.contracts.canonical import readable_text
from placet.contracts.errors import Refused
from placet.gateway.audit import history
from placet.gateway.audit.store import ORDER, load_changes
from placet.gateway.conversations.listeners import while_allowed
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.http.errors import described
from placet.gateway.http.pages import Page, no_cursor
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.paging import NO_CURSOR, opaque, read_opaque
from placet.gateway.texts import Moment

router = APIRouter(prefix="/v1/history", tags=["history"], route_class=StrictRoute)

#: Rows of an export that are read at once.
AT_ONCE = 1_000
#: Format of an export -> its media type.
MEDIA = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
#: Of the largest id.
_DIGITS = len(str(history.NEWEST))
#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Name = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]
Service = Literal["", "agent", "approval", "dead_letters", "executor", "gateway", "jobs", "notifier", "policy"]


class Filters(BaseModel):
    """Which changes; what is left out, or empty, asks for any."""

    service: Annotated[Service, Field(description="Which service made the change.")] = ""
    machine: Annotated[Name, Field(description="For example `approval`.")] = ""
    event: Annotated[Name, Field(description="For example `approve`.")] = ""
    actor: Annotated[Name, Field(description="Who did it: `person:ada`, or a service.")] = ""
    subject_id: Annotated[Name, Field(description="What was changed: the id of an approval, a grant, a key…")] = ""
    call_id: Annotated[Name, Field(description="Only changes of this tool call.")] = ""
    since: Annotated[Moment | None, Field(description="At or after this moment, with its zone.")] = None
    until: Annotated[Moment | None, Field(description="Before this moment, with its zone.")] = None


class HistoryQuery(Filters):
    """The query of a list of changes."""

    limit: Annotated[int, Field(ge=1, le=200, description="Rows on a page.")] = 50
    cursor: Annotated[str | None, Field(max_length=400, description="`next` of the page before.")] = None


class ExportQuery(Filters):
    """The query of an export."""

    format: Annotated[Literal["csv", "jsonl"], Field(description="Of the file.")] = "jsonl"


class HistoryRowOut(BaseModel):
    """One change of a state of anything."""

    id: str
    at: datetime
    service: str = Field(description="Which service made the change.")
    machine: str
    event: str
    from_state: str | None
    to_state: str
    actor: str
    subject_id: str
    call_id: str | None
    message_id: str | None
    detail: Any


class HistoryPage(Page[HistoryRowOut]):
    """Changes, newest first."""

    next: str | None = Field(
        default=None,
        description=f"Cursor of the next page; null on the last. A page looks through {history.LOOKED_AT} rows of each "
        "service at most, so one with few rows, even none, may have a next.",
    )


@router.get("", response_model=HistoryPage, responses=described(400, 401, 403, 503))
async def list_changes(deps: DepsOf, caller: CallerOf, query: Annotated[HistoryQuery, Query()]) -> Any:
    """List what happened in your tenant, newest first."""
    caller.need(Scope.ADMIN)
    try:
        places = _decoded(query.cursor) if query.cursor is not None else None
    except ValueError as error:
        raise no_cursor(str(error)) from error
    rows, following = await _page(deps, _asked(caller, query), places, query.limit)
    return {"items": rows, "next": _encoded(following) if following else None}


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The file.",
            "content": {media: {"schema": {"type": "string"}} for media in MEDIA.values()},
        },
        **described(400, 401, 403, 503),
    },
)
async def export(deps: DepsOf, caller: CallerOf, query: Annotated[ExportQuery, Query()]) -> StreamingResponse:
    """Return every such change as a file, newest first. `placet audit export` has the signed chain."""
    caller.need(Scope.ADMIN)
    write = _as_csv if query.format == "csv" else _as_lines
    told = {"content-disposition": f'attachment; filename="history.{query.format}"'}
    rows = write(while_allowed(deps.log.listener(caller), _each_page(deps, _asked(caller, query))))
    return StreamingResponse(rows, media_type=MEDIA[query.format], headers=told)


@router.get("/{row_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, row_id: PathId) -> HistoryRowOut:
    """Show one change."""
    caller.need(Scope.ADMIN)
    service, _, number = row_id.rpartition("-")
    if service in ORDER and number.isdecimal() and len(number) <= _DIGITS and int(number) < history.NEWEST:
        between = (int(number), int(number) + 1)
        async with reading(deps.runtime.database) as connection:
            found = await load_changes(connection, service, {"tenant": caller.tenant}, between, 1)
        if found:
            return _out(found[0])
    raise Refused("There is no such change.", status=404, kind="not-found")


def _encoded(places: Mapping[str, int]) -> str:
    """Return the opaque text of where a page ended. It grants nothing: every page is looked up inside a tenant."""
    return opaque([places.get(service, 0) for service in ORDER])


def _decoded(text: str) -> dict[str, int]:
    """Return where a page ended; raise ValueError for anything that `_encoded` did not make."""
    found = read_opaque(text)
    if not isinstance(found, list) or len(found) != len(ORDER) or not all(type(n) is int and n >= 0 for n in found):
        raise ValueError(NO_CURSOR)
    return {service: number for service, number in zip(ORDER, found, strict=True) if number}


def _asked(caller: Caller, filters: Filters) -> dict[str, Any]:
    given = {name: value for name in Filters.model_fields if (value := getattr(filters, name))}
    return {"tenant": caller.tenant, **given}


async def _page(
    deps: Deps, asked: Mapping[str, Any], places: Mapping[str, int] | None, most: int
) -> tuple[list[HistoryRowOut], dict[str, int] | None]:
    async with reading(deps.runtime.database) as connection:
        rows, following = await history.load_page(connection, asked, places, most)
    return [_out(row) for row in rows], following


async def _each_page(deps: Deps, asked: Mapping[str, Any]) -> AsyncIterator[list[HistoryRowOut]]:
    """Yield the pages of an export; none of them keeps a connection while the client reads."""
    places: dict[str, int] | None = None
    while True:
        rows, places = await _page(deps, asked, places, AT_ONCE)
        yield rows
        if places is None:
            return


async def _as_lines(pages: AsyncIterator[list[HistoryRowOut]]) -> AsyncIterator[str]:
    async for rows in pages:
        yield "".join(f"{row.model_dump_json()}\n" for row in rows)


async def _as_csv(pages: AsyncIterator[list[HistoryRowOut]]) -> AsyncIterator[str]:
    names = list(HistoryRowOut.model_fields)
    yield _csv_line(names)
    async for rows in pages:
        yield "".join(_csv_line([_cell(row, name) for name in names]) for row in rows)


def _csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _cell(row: HistoryRowOut, name: str) -> str:
    """Return one value as text. A quote stands before what a spreadsheet would else calculate."""
    value = getattr(row, name)
    if isinstance(value, datetime):
        return value.isoformat()
    text = "" if value is None else value if isinstance(value, str) else readable_text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _out(row: history.Row) -> HistoryRowOut:
    return HistoryRowOut.model_validate({**row, "id": f"{row['service']}-{row['id']}"})

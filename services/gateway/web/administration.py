"""The pages of administrators at `/admin`: one table for every noun, the rulebook, and what is known of one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import ValidationError

from placet.contracts.errors import Refused
from placet.contracts.messages.rulebook import TRIAL_TEXT_MAX
from placet.gateway.admin import key_routes as keys
from placet.gateway.admin.rulebook_routes import activations
from placet.gateway.approvals.decisions import in_words
from placet.gateway.approvals.tool_call_routes import ResolutionIn
from placet.gateway.approvals.tool_call_routes import resolve as resolve_call
from placet.gateway.http.callers import After, DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.web.people import meant, suggested
from placet.gateway.web.render import PageRoute, Posted, SignedIn, field, render
from placet.gateway.web.sheets import Row, common, sheet_of
from placet.gateway.web.shown import tools_of
from placet.gateway.web.words import title_of
from placet.surfaces.texts import text

router = APIRouter(prefix="/admin", include_in_schema=False, route_class=PageRoute)

#: Activations on the page of the rulebook.
ACTIVATIONS_MAX = 20
SINCE_SECONDS = 7 * 86_400

State = Annotated[str, Query(pattern=r"^[a-z_]{0,20}$")]


@router.get("")
async def begin(caller: SignedIn) -> Response:
    """Lead an administrator to what needs them most: calls of unknown outcome."""
    caller.need(Scope.ADMIN)
    return RedirectResponse("/admin/calls", 303)


@router.get("/rulebook")
async def rulebook(deps: DepsOf, caller: SignedIn) -> HTMLResponse:
    """Show which rulebook and directory were active since when, and let an administrator try another."""
    return await _rulebook(deps, caller)


@router.post("/rulebook")
async def try_rulebook(deps: DepsOf, caller: SignedIn, form: Posted) -> HTMLResponse:
    """Check a rulebook, test it with cases, or replay the past against it; nothing is changed by it."""
    caller.need(Scope.ADMIN)
    typed = {name: field(form, name)[:TRIAL_TEXT_MAX] for name in ("rulebook", "cases")}
    wish = field(form, "wish")
    what: dict[str, Any] = {"rulebook": typed["rulebook"]}
    if wish == "test":
        what = {name: text for name, text in typed.items() if text.strip()}
    elif wish == "simulate":
        what["since_seconds"] = SINCE_SECONDS
    else:
        wish = "check"
    fault, report = "", None
    if not typed["cases" if wish == "test" else "rulebook"].strip():
        return await _rulebook(deps, caller, typed, empty=True)
    try:
        report = await deps.trials.ask(caller, wish, **what)  # type: ignore[arg-type]  # one of the three above
    except Refused as refusal:
        problems = refusal.facts.get("problems")
        fault = f"{title_of(refusal, caller.language)} {problems or ''}".strip()
    return await _rulebook(deps, caller, typed, wish=wish, report=report, fault=fault)


@router.get("/{name}")
async def show(
    request: Request, deps: DepsOf, caller: SignedIn, name: str, state: State = "", after: After = None, sent: str = ""
) -> HTMLResponse:
    """Show a page of one kind of thing."""
    return await _sheet(deps, caller, name, state=state, cursor=after, given=request.query_params, sent=sent)


@router.get("/{name}/{row_id}")
async def show_one(deps: DepsOf, caller: SignedIn, name: str, row_id: PathId) -> HTMLResponse:
    """Show all that is known of one thing."""
    return await _one(deps, caller, name, row_id)


@router.post("/keys")
async def create_key(deps: DepsOf, caller: SignedIn, form: Posted) -> HTMLResponse:
    """Create a key and show it, once."""
    try:
        wanted = keys.KeyIn.model_validate({"person": field(form, "person").strip(), "scopes": form.getlist("scope")})
        made = await keys.create(deps, caller, wanted)
    except ValidationError:
        return await _sheet(deps, caller, "keys", status=400, invalid=True)
    except Refused as refusal:
        return await _sheet(deps, caller, "keys", status=refusal.status, fault=in_words(refusal, caller.language))
    return await _sheet(deps, caller, "keys", status=201, made=made)


@router.post("/calls/{call_id}/resolve")
async def resolve(deps: DepsOf, caller: SignedIn, call_id: PathId, form: Posted) -> Response:
    """Say whether a call ran whose outcome is unknown."""
    try:
        said = ResolutionIn.model_validate({"outcome": field(form, "outcome"), "note": field(form, "note").strip()})
        await resolve_call(deps, caller, call_id, said, Response())
    except ValidationError:
        return await _one(deps, caller, "calls", call_id, 400, invalid=True)
    except Refused as refusal:
        return await _one(deps, caller, "calls", call_id, refusal.status, fault=in_words(refusal, caller.language))
    return RedirectResponse(f"/admin/calls/{call_id}", 303)


@router.post("/{name}/{row_id}/{action}")
async def act(deps: DepsOf, caller: SignedIn, name: str, row_id: PathId, action: str, form: Posted) -> Response:
    """Do one thing with a row. What another service does is told to be on its way where it has not happened yet."""
    sheet = sheet_of(name, caller)
    doing = next((each for each in sheet.acts if each.name == action), None)
    if doing is None:
        raise Refused("There is no such thing.", status=404, kind="not-found")
    try:
        await doing.do(deps, caller, row_id)
    except Refused as refusal:
        return await _sheet(deps, caller, name, status=refusal.status, fault=in_words(refusal, caller.language))
    chosen = {"state": state} if (state := field(form, "state")) in sheet.states else {}
    return RedirectResponse(f"/admin/{name}?{urlencode({**chosen, 'sent': row_id})}", 303)


async def _sheet(
    deps: Deps,
    caller: Caller,
    name: str,
    *,
    state: str = "",
    cursor: str | None = None,
    given: Mapping[str, str] = MappingProxyType({}),
    status: int = 200,
    **more: Any,
) -> HTMLResponse:
    sheet = sheet_of(name, caller)
    chosen = state if state in sheet.states else next(iter(sheet.states), "all")
    asked = {each: value for each in sheet.filters if (value := given.get(each, "").strip())}
    typed = dict(asked)
    people = await suggested(deps, caller) if any(sheet.filters[each] == "who" for each in asked) else ()
    asked |= {each: meant(value, people) for each, value in asked.items() if sheet.filters[each] == "who"}
    kept = asked | ({"state": chosen} if sheet.states else {})
    rows: Sequence[Row] = []
    following: str | None = None
    exported: Mapping[str, str] = {}
    try:
        rows, following = await sheet.load(deps, caller, asked | ({} if chosen == "all" else {"state": chosen}), cursor)
        exported = sheet.query(asked)
    except (ValueError, OverflowError):
        status, more = 400, {**more, "fault": text(caller.language, "That was not valid.")}
    values: dict[str, Any] = {"fault": "", "invalid": False, "made": None, "sent": ""} | more
    if "who" in sheet.filters.values():
        named = [row[column] for row in rows for column, kind in sheet.columns.items() if kind == "who"]
        values["people"] = await suggested(deps, caller, named)
    if "tool" in sheet.filters.values():
        values["tools"] = sorted(await tools_of(deps.settings.rulebook))
        values["agents"] = list(deps.agents.of(caller.tenant))
    return render(
        "sheet.html",
        status,
        **common(caller, name),
        sheet=sheet,
        rows=rows,
        chosen=chosen,
        asked=typed,
        kept=urlencode(kept),
        exported=urlencode(exported),
        following=following,
        cursor=cursor,
        scopes=[str(each) for each in Scope],
        **values,
    )


async def _one(
    deps: Deps, caller: Caller, name: str, row_id: str, status: int = 200, *, fault: str = "", invalid: bool = False
) -> HTMLResponse:
    sheet = sheet_of(name, caller)
    if sheet.show is None:
        raise Refused("There is no such thing.", status=404, kind="not-found")
    row = await sheet.show(deps, caller, row_id)
    values: dict[str, Any] = {"sheet": sheet, "row": row, "fault": fault, "invalid": invalid}
    return render("sheet_row.html", status, **common(caller, name), **values)


async def _rulebook(
    deps: Deps, caller: Caller, typed: dict[str, str] | None = None, *, empty: bool = False, **more: Any
) -> HTMLResponse:
    caller.need(Scope.ADMIN)
    past = (await activations(deps, caller, ACTIVATIONS_MAX, None))["items"] if caller.of_house else []
    values: dict[str, Any] = {"wish": "", "report": None, "fault": ""} | more
    return render(
        "rulebook.html",
        400 if empty else 200,
        **common(caller, "rulebook"),
        past=past,
        house=caller.of_house,
        typed=typed or {"rulebook": "", "cases": ""},
        empty=empty,
        **values,
    )

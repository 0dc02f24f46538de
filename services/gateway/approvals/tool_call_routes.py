"""One tool call's whole history, each part by the service that knows; and what a person says of an unknown end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from placet.contracts.errors import Refused
from placet.contracts.messages import ResolveCall
from placet.contracts.messages.message import ResultKind
from placet.contracts.messages.stage import TOOK_EFFECT
from placet.contracts.messages.tool_calls import NOTE_MAX, Resolution
from placet.contracts.signed import signed
from placet.gateway.admin import store as lists
from placet.gateway.admin.history_routes import Name
from placet.gateway.approvals.details import ChangeOut, ExecutionOut, VerdictOut
from placet.gateway.approvals.forms import ApprovalOut, approval_out
from placet.gateway.audit.history import LOOKED_AT
from placet.gateway.conversations import rules
from placet.gateway.conversations.access import writing
from placet.gateway.conversations.items import SUCCESSES, arguments_value
from placet.gateway.conversations.store import note_words
from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.errors import described
from placet.gateway.http.pages import Page, cursor_of, next_of, place_of
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.keys import Scope
from placet.gateway.store import read, reading
from placet.gateway.store.paging import Cursor, encode_cursor
from placet.gateway.store.read import Row
from placet.gateway.texts import Body, Moment
from placet.gateway.workspaces.store import load_entry

router = APIRouter(prefix="/v1/tool-calls", tags=["tool calls"], route_class=StrictRoute)

#: Changes that a history shows; a call has a dozen.
CHANGES_MAX = 1000


#: Ends of a staged call.
Outcome = Literal["committed", "succeeded", "left_out", "discarded", "conflicted", "failed", "refused", "unknown"]
CallState = Literal["open", "continued", "stopped", ResultKind, Outcome]


class ToolCallOut(BaseModel):
    """One tool call with everything that happened to it."""

    id: str
    conversation_id: str
    turn_id: str
    message_id: str
    step: int
    position: int
    tool: str
    arguments: Any
    arguments_text: str = Field(
        description="As the model wrote them; for a valid call the canonical bytes. Redacted values are `•••`; of an "
        "invalid call nothing is told where it could hold one."
    )
    digest: str | None
    state: str
    status: rules.CallState
    kind: str | None
    outcome: Outcome | None = Field(
        description="Of a staged call: what became of it; null while it waits, and of any other call."
    )
    outcome_error: str | None = Field(description="Why it did not take effect, where an executor says it.")
    result: Any
    proposed_at: datetime
    answered_at: datetime | None
    verdict: VerdictOut | None
    approval: ApprovalOut | None
    execution: ExecutionOut | None
    history: list[ChangeOut]


class ResolutionIn(Body):
    """What a person found out."""

    outcome: Resolution
    note: Annotated[str, Field(max_length=NOTE_MAX)] = Field(
        default="", description="What was looked at and found; people and the model read it."
    )


class ResolutionSent(BaseModel):
    """The person's word is on its way to the executor."""

    id: str
    outcome: Resolution


class CallLineOut(BaseModel):
    """One call in a list."""

    id: str
    tool: str
    state: str = Field(
        description="The kind of its result, for example `succeeded`; of a staged call what became of it, once that is "
        "known; before there is a result `open`, `continued` or `stopped`."
    )
    agent: str | None = None
    requester: str | None = Field(default=None, description="Whose message the turn of the call answered.")
    conversation_id: str
    proposed_at: datetime
    answered_at: datetime | None = None


class CallPage(Page[CallLineOut]):
    """Calls, newest first."""

    next: str | None = Field(
        default=None,
        description="Cursor of the next page; null on the last. A page that is narrowed looks through "
        f"{LOOKED_AT} rows of the history at most, so one with few calls, even none, may have a next.",
    )


class CallQuery(BaseModel):
    """The query of a list of calls; what is left out, or empty, asks for any."""

    state: Annotated[
        Literal["", CallState],
        Field(description="As in the list; `unknown` is only what nobody has resolved so far."),
    ] = ""
    tool: Annotated[Name, Field(description="Calls of this tool.")] = ""
    agent: Annotated[Name, Field(description="Calls of this agent.")] = ""
    requester: Annotated[Name, Field(description="Whose message led to it: `person:ada`.")] = ""
    since: Annotated[Moment | None, Field(description="Proposed at or after this moment, with its zone.")] = None
    until: Annotated[Moment | None, Field(description="Proposed before this moment, with its zone.")] = None
    limit: Annotated[int, Field(ge=1, le=200, description="Rows on a page.")] = 50
    cursor: Annotated[str | None, Field(max_length=400, description="`next` of the page before.")] = None

    @property
    def filters(self) -> dict[str, Any]:
        """What is asked, and nothing of the page."""
        return {name: value for name, value in self if value and name not in {"limit", "cursor"}}


@router.get("", response_model=CallPage, responses=described(400, 401, 403, 503))
async def list_calls(deps: DepsOf, caller: CallerOf, query: Annotated[CallQuery, Query()]) -> Any:
    """List the calls of your tenant, newest first; for administrators."""
    caller.need(Scope.ADMIN)
    filters, limit, further = query.filters, query.limit, None
    async with reading(deps.runtime.database) as connection:
        page: dict[str, Any] = {"tenant": caller.tenant, "limit": limit + 1}
        if filters.get("state") == "unknown":
            del filters["state"]
            rows = await lists.unknown_calls(connection, **page, after=cursor_of(query.cursor), **filters)
        else:
            rows, further = await lists.newest_calls(connection, **page, after=place_of(query.cursor), **filters)
    items = [
        CallLineOut.model_validate({**row, "id": row["call_id"], "state": row["result_kind"] or row["state"]})
        for row in rows[:limit]
    ]
    following = next_of(rows, limit, "proposed_at", "place")
    if following is None and further is not None:
        following = encode_cursor(Cursor(datetime.now(UTC), str(further)))
    return {"items": items, "next": following}


@router.get("/{call_id}", responses=described(401, 403, 404, 503))
async def show(deps: DepsOf, caller: CallerOf, call_id: PathId) -> ToolCallOut:
    """Show one call's whole history; a conversation token sees the calls of its conversation."""
    caller.need(Scope.DECIDE)
    key = (caller.tenant, call_id)
    async with reading(deps.runtime.database) as connection:
        call = await read.load_call(connection, *key)
        if call is None or not caller.sees(call["conversation_id"]):
            raise Refused("There is no such call.", status=404, kind="not-found")
        verdict = await read.load_verdict(connection, *key)
        approval = await read.load_approval_of_call(connection, *key)
        execution = await read.load_execution(connection, *key)
        entry = await load_entry(connection, *key)
        history = await read.load_history(connection, *key, CHANGES_MAX)
    outcome = entry["state"] if entry and entry["state"] in get_args(Outcome) else None
    return ToolCallOut.model_validate(
        {
            **call,
            "id": call_id,
            "arguments": arguments_value(call["arguments"]),
            "arguments_text": call["arguments"],
            "status": _status(call, outcome, approval, execution),
            "kind": call["result_kind"],
            "outcome": outcome,
            "outcome_error": (entry["error"] or None) if entry and outcome else None,
            "verdict": {**verdict, "id": verdict["verdict_id"]} if verdict else None,
            "approval": approval_out(approval) if approval else None,
            "execution": dict(execution) if execution else None,
            "history": [dict(row) for row in history],
        }
    )


@router.post("/{call_id}/resolution", status_code=202, responses=described(400, 401, 403, 404, 409, 503))
async def resolve(
    deps: DepsOf, caller: CallerOf, call_id: PathId, said: ResolutionIn, response: Response
) -> ResolutionSent:
    """Say whether a call ran whose outcome is `unknown`. Its answer stands; the conversation is told beside it."""
    caller.need(Scope.ADMIN)
    async with reading(deps.runtime.database) as connection:
        execution = await read.load_execution(connection, caller.tenant, call_id)
    if execution is None:
        raise Refused("No executor took such a call.", status=404, kind="not-found")
    if execution["state"] != "unknown":
        facts = {name: execution[name] for name in ("state", "resolution", "resolved_by")}
        raise Refused("The outcome of this call is already known.", status=409, kind="not-unknown", **facts)
    word = ResolveCall(
        tenant=caller.tenant,
        call_id=call_id,
        pool=execution["pool"],
        outcome=said.outcome,
        note=said.note,
        by=caller.person,
    )
    async with writing(deps.runtime.units, caller) as work:
        if word.note:
            await note_words(work.connection, (caller.tenant, execution["conversation_id"]), caller.writers)
        work.emit(signed(word, deps.signer, work.now))
    response.headers["location"] = f"/v1/tool-calls/{call_id}"
    return ResolutionSent(id=call_id, outcome=said.outcome)


def _status(call: Row, outcome: str | None, approval: Row | None, execution: Row | None) -> str:
    if outcome or call["result_kind"]:
        succeeded = outcome in TOOK_EFFECT if outcome else call["result_kind"] in SUCCESSES
        return "success" if succeeded else "error"
    return rules.call_status(approval["state"] if approval else None, execution["state"] if execution else None)

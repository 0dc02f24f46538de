"""The receipt of a call over HTTP, for whoever may see its history."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from placet.gateway.http.callers import CallerOf, DepsOf, PathId
from placet.gateway.http.errors import described
from placet.gateway.http.strict import StrictRoute
from placet.gateway.identity.keys import Scope
from placet.gateway.receipts.receipt import make_receipt

router = APIRouter(prefix="/v1/tool-calls", tags=["tool calls"], route_class=StrictRoute)


class ReceiptOut(BaseModel):
    """A receipt. `placet receipt verify`, or the file `shared/contracts/receipts.py` alone, verifies it offline."""

    model_config = ConfigDict(extra="allow")

    format: str
    made_at: str
    proposal: dict[str, Any]
    verdict: dict[str, Any] | None
    approval: dict[str, Any] | None
    votes: list[dict[str, Any]] = Field(description="Each with what was seen, how its maker was known, and the JWS.")
    permit: str | None = Field(description="JWS of policy or approval.")
    execution: dict[str, Any] | None
    result: dict[str, Any]
    history: list[dict[str, Any]] = Field(description="Changes of state as they were sealed, with their Merkle proofs.")
    checkpoints: dict[str, str] = Field(description="Signed blocks of the chain, by number.")
    signature: str = Field(description="JWS of the gateway over the digest of all else.")


@router.get("/{call_id}/receipt", response_model=ReceiptOut, responses=described(401, 403, 404, 409, 410, 503))
async def show_receipt(deps: DepsOf, caller: CallerOf, call_id: PathId, response: Response) -> Any:
    """Return the receipt of a call that is over; a conversation token sees the calls of its conversation."""
    caller.need(Scope.DECIDE)
    response.headers["content-disposition"] = f'attachment; filename="receipt-{call_id}.json"'
    return await make_receipt(deps.runtime.database, deps.signer, caller, call_id)

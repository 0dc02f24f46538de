"""The page of a call's receipt at `/receipts/ID`: what it says, and what a verifier finds of each part of it."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from placet.contracts.receipts import PARTS, verify
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.identity.keys import Scope
from placet.gateway.receipts.receipt import make_receipt
from placet.gateway.web.render import PageRoute, SignedIn, render

router = APIRouter(include_in_schema=False, route_class=PageRoute)


@router.get("/receipts/{call_id}")
async def show(deps: DepsOf, caller: SignedIn, call_id: PathId) -> HTMLResponse:
    """Show the receipt of a call, verified as a stranger would."""
    caller.need(Scope.DECIDE)
    receipt = await make_receipt(deps.runtime.database, deps.signer, caller, call_id)
    found = verify(receipt, deps.verifier.keys)
    parts = {part: [each for each in found if each.part == part] for part in PARTS}
    moments = [receipt["proposal"]["proposed_at"], receipt["result"]["answered_at"]]
    return render(
        "receipt.html",
        caller=caller,
        here="",
        receipt=receipt,
        command=f"placet receipt verify receipt-{call_id}.json --keys public.json",
        parts=parts,
        erased=any(each["salt"] is None for each in receipt["history"]),
        holds=all(each.holds for each in found),
        proposed_at=datetime.fromisoformat(moments[0]),
        answered_at=datetime.fromisoformat(moments[1]),
        voted_at=[datetime.fromisoformat(each["decided_at"]) for each in receipt["votes"]],
    )

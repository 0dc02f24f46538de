"""`placet approvals`: what waits for people, and deciding it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_fields, show_json, show_table
from shared.card_text import visible

app = typer.Typer(no_args_is_help=True, help="List, show and decide approvals.")

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="The approval's id.")]
Digest = Annotated[str, typer.Option("--digest", help="The digest of the card you saw; another one is refused.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; the model and the history get it.")]


@app.command("list")
def list_approvals(
    state: Annotated[str, typer.Option(help="pending, approved, denied, expired or withdrawn.")] = "pending",
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    cursor: Annotated[str, typer.Option(help="Where the last page ended.")] = "",
    *,
    json: Json = False,
) -> None:
    """List approvals, newest first."""
    query = {"state": state, "limit": limit} | ({"cursor": cursor} if cursor else {})
    page = call("GET", "/v1/approvals", params=query)
    if json:
        show_json(page)
        return
    show_table(page["items"], ["id", "state", "tool", "summary", "requester", "expires_at"])
    if page.get("next"):
        out.print(f"more: --cursor {page['next']}")


@app.command()
def show(approval_id: ApprovalId, *, json: Json = False) -> None:
    """Show one approval with the call it is about."""
    approval = call("GET", f"/v1/approvals/{approval_id}")
    show_json(approval) if json else show_fields(approval)


@app.command()
def approve(approval_id: ApprovalId, reason: Reason = "", digest: Digest = "", *, json: Json = False) -> None:
    """Approve a call. Give --digest to approve only what you saw; else the call is shown as it stands now."""
    _decide(approval_id, "approve", reason, digest, json=json)


@app.command()
def deny(approval_id: ApprovalId, reason: Reason = "", digest: Digest = "", *, json: Json = False) -> None:
    """Deny a call."""
    _decide(approval_id, "deny", reason, digest, json=json)


def _decide(approval_id: str, verb: str, reason: str, digest: str, *, json: bool) -> None:
    approval = call("GET", f"/v1/approvals/{approval_id}")
    if not json:
        out.print(approval["summary"], markup=False)
        out.print(f"{approval['tool']} {visible(approval['call']['arguments_text'])}", markup=False)
    body: dict[str, Any] = {"decision": verb, "digest": digest or approval["digest"], "revision": approval["revision"]}
    body |= {"reason": reason} if reason else {}
    answer = call("POST", f"/v1/approvals/{approval_id}/decisions", json=body)
    if json:
        show_json(answer)
    else:
        out.print(answer.get("state", "sent; the answer takes its time"))

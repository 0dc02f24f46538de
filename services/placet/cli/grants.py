"""`placet grants`: what people allowed from now on, and taking it back."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_fields, show_json
from services.placet.cli.pages import LIMIT, After, Limit, show_page

app = typer.Typer(no_args_is_help=True, help="List, show and revoke grants.")

GrantId = Annotated[str, typer.Argument(metavar="ID", help="The grant's id.")]


@app.command("list")
def list_grants(
    state: Annotated[str, typer.Option(help="active, used_up, expired, revoked, void, or all.")] = "active",
    limit: Limit = LIMIT,
    cursor: After = "",
    *,
    json: Json = False,
) -> None:
    """List your grants, newest first; with an administrator's key everybody's."""
    asked = {"state": "" if state == "all" else state}
    columns = ["id", "state", "owner", "tool", "scope", "arguments", "uses_left", "expires_at"]
    show_page("/v1/grants", asked, columns, limit=limit, cursor=cursor, json=json)


@app.command()
def show(grant_id: GrantId, *, json: Json = False) -> None:
    """Show one grant."""
    grant = call("GET", f"/v1/grants/{grant_id}")
    show_json(grant) if json else show_fields(grant)


@app.command()
def revoke(grant_id: GrantId, *, json: Json = False) -> None:
    """Take a grant back."""
    answer = call("POST", f"/v1/grants/{grant_id}/revoke")
    show_json(answer) if json else out.print(f"revocation of {grant_id} is on its way")

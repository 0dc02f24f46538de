"""`placet deliveries`: where cards were shown, and which could not be."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_json
from services.placet.cli.pages import LIMIT, After, Limit, show_page

app = typer.Typer(no_args_is_help=True, help="List deliveries of cards, and try those again that were given up.")

_COLUMNS = ["id", "state", "channel", "recipient", "approval_id", "error", "updated_at"]


@app.command("list")
def list_deliveries(
    state: Annotated[str, typer.Option(help="due, kept, sent or given_up; empty for all.")] = "given_up",
    limit: Limit = LIMIT,
    cursor: After = "",
    *,
    json: Json = False,
) -> None:
    """List deliveries, the newest change first."""
    show_page("/v1/deliveries", {"state": state}, _COLUMNS, limit=limit, cursor=cursor, json=json)


@app.command()
def retry(delivery_id: Annotated[str, typer.Argument(metavar="ID")], *, json: Json = False) -> None:
    """Show a card again where its channel failed for good."""
    answer = call("POST", f"/v1/deliveries/{delivery_id}/retry")
    show_json(answer) if json else out.print(f"retry of {delivery_id} is on its way")

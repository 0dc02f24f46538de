"""`placet deliveries`: where cards were shown, and which could not be."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_json, show_table

app = typer.Typer(no_args_is_help=True, help="List deliveries of cards, and try those again that were given up.")

_COLUMNS = ["id", "state", "channel", "recipient", "approval_id", "error", "updated_at"]


@app.command("list")
def list_deliveries(
    state: Annotated[str, typer.Option(help="due, kept, sent or given_up; empty for all.")] = "given_up",
    *,
    json: Json = False,
) -> None:
    """List deliveries, the newest change first."""
    page = call("GET", "/v1/deliveries", params={"state": state} if state else {})
    show_json(page) if json else show_table(page["items"], _COLUMNS)


@app.command()
def retry(delivery_id: Annotated[str, typer.Argument(metavar="ID")], *, json: Json = False) -> None:
    """Show a card again where its channel failed for good."""
    answer = call("POST", f"/v1/deliveries/{delivery_id}/retry")
    show_json(answer) if json else out.print(f"retry of {delivery_id} is on its way")

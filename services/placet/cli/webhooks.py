"""`placet webhooks`: what webhooks were to hear, and which events they never took."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_json
from services.placet.cli.pages import LIMIT, After, Limit, show_page

app = typer.Typer(no_args_is_help=True, help="List events for webhooks, and post those again that were given up.")

_COLUMNS = ["id", "state", "webhook", "type", "attempt", "error", "created_at"]


@app.command("list")
def list_events(
    state: Annotated[str, typer.Option(help="due, sent or given_up; empty for all.")] = "given_up",
    limit: Limit = LIMIT,
    cursor: After = "",
    *,
    json: Json = False,
) -> None:
    """List events, the newest first."""
    show_page("/v1/webhook-events", {"state": state}, _COLUMNS, limit=limit, cursor=cursor, json=json)


@app.command()
def retry(event_id: Annotated[str, typer.Argument(metavar="ID")], *, json: Json = False) -> None:
    """Post an event again that its webhook never took."""
    answer = call("POST", f"/v1/webhook-events/{event_id}/retry")
    show_json(answer) if json else out.print(f"retry of {event_id} is on its way")

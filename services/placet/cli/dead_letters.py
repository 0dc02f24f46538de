"""`placet dead-letters`: what could not be handled, and what to do with it."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_fields, show_json
from services.placet.cli.pages import LIMIT, After, Limit, show_page

app = typer.Typer(no_args_is_help=True, help="List, show, replay and discard dead letters.")

LetterId = Annotated[str, typer.Argument(metavar="ID")]


@app.command("list")
def list_letters(
    state: Annotated[str, typer.Option(help="open, replayed or discarded.")] = "open",
    limit: Limit = LIMIT,
    cursor: After = "",
    *,
    json: Json = False,
) -> None:
    """List dead letters, newest first."""
    columns = ["id", "state", "queue", "message_type", "reason", "received_at"]
    show_page("/v1/dead-letters", {"state": state}, columns, limit=limit, cursor=cursor, json=json)


@app.command()
def show(letter_id: LetterId, *, json: Json = False) -> None:
    """Show one dead letter with its body."""
    letter = call("GET", f"/v1/dead-letters/{letter_id}")
    show_json(letter) if json else show_fields(letter)


@app.command()
def replay(letter_id: LetterId, *, json: Json = False) -> None:
    """Send a dead letter back to the queue it came from."""
    _resolve(letter_id, "replay", json=json)


@app.command()
def discard(letter_id: LetterId, *, json: Json = False) -> None:
    """Give a dead letter up; it stays on record."""
    _resolve(letter_id, "discard", json=json)


def _resolve(letter_id: str, action: str, *, json: bool) -> None:
    answer = call("POST", f"/v1/dead-letters/{letter_id}/{action}")
    show_json(answer) if json else out.print(f"{action} of {letter_id} is on its way")

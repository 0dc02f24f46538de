"""`placet calls`: what became of one tool call, and what a person says where nobody knew."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, fail, out, show_fields, show_json

app = typer.Typer(no_args_is_help=True, help="Show tool calls, and resolve those of unknown outcome.")

CallId = Annotated[str, typer.Argument(metavar="ID")]


@app.command()
def show(call_id: CallId, *, json: Json = False) -> None:
    """Show one call's whole history."""
    found = call("GET", f"/v1/tool-calls/{call_id}")
    show_json(found) if json else show_fields(found)


@app.command()
def resolve(
    call_id: CallId,
    *,
    ran: Annotated[bool | None, typer.Option("--ran/--did-not-run", help="What you found out.")] = None,
    note: Annotated[str, typer.Option(help="What you looked at; people and the model read it.")] = "",
    json: Json = False,
) -> None:
    """Say whether a call ran whose outcome is unknown."""
    if ran is None:
        fail("say what you found: --ran or --did-not-run", code=2)
    body = {"outcome": "ran" if ran else "did_not_run", "note": note}
    answer = call("POST", f"/v1/tool-calls/{call_id}/resolution", json=body)
    show_json(answer) if json else out.print(f"{answer['outcome']} of {call_id} is on its way")

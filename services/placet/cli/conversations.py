"""`placet conversations`: ending one."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_fields, show_json

app = typer.Typer(no_args_is_help=True, help="Show and end conversations.")

ConversationId = Annotated[str, typer.Argument(metavar="ID", help="The conversation's id.")]


@app.command()
def show(conversation_id: ConversationId, *, json: Json = False) -> None:
    """Show a conversation: its newest messages and calls, and what waits for people."""
    conversation = call("GET", f"/v1/conversations/{conversation_id}")
    show_json(conversation) if json else show_fields(conversation)


@app.command()
def end(conversation_id: ConversationId, *, json: Json = False) -> None:
    """End a conversation: calls that wait are withdrawn, and nobody writes in it again."""
    call("POST", f"/v1/conversations/{conversation_id}/end")
    show_json({"id": conversation_id, "state": "ended"}) if json else out.print(f"{conversation_id} has ended")

"""`placet conversations`: which people hold, taking one over, giving it back, stopping its turn, ending one."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_fields, show_json
from services.placet.cli.pages import LIMIT, After, Limit, show_page

app = typer.Typer(no_args_is_help=True, help="List, show, take over, give back, stop and end conversations.")

ConversationId = Annotated[str, typer.Argument(metavar="ID", help="The conversation's id.")]


@app.command("list")
def list_held(
    *,
    escalated: Annotated[bool, typer.Option("--escalated", help="Only those that still wait for an operator.")] = False,
    limit: Limit = LIMIT,
    cursor: After = "",
    json: Json = False,
) -> None:
    """List the conversations that people hold, those held last first."""
    columns = ["id", "holder", "operator", "held_since", "reason"]
    asked = {"holder": "waiting" if escalated else ""}
    show_page("/v1/conversations", asked, columns, limit=limit, cursor=cursor, json=json)


@app.command()
def takeover(conversation_id: ConversationId, *, json: Json = False) -> None:
    """Take a conversation over from the agent: you answer in it from now on."""
    answer = call("POST", f"/v1/conversations/{conversation_id}/takeover")
    show_json(answer) if json else out.print(f"{conversation_id} is yours, {answer['operator']}")


@app.command()
def say(conversation_id: ConversationId, text: Annotated[str, typer.Argument()], *, json: Json = False) -> None:
    """Answer in a conversation that you hold."""
    body = {"text": text, "author": "operator"}
    posted = call("POST", f"/v1/conversations/{conversation_id}/messages", json=body)
    show_json(posted) if json else out.print(f"said in {conversation_id}")


@app.command()
def release(conversation_id: ConversationId, *, json: Json = False) -> None:
    """Give a conversation back to the agent, which answers what nobody has answered."""
    answer = call("POST", f"/v1/conversations/{conversation_id}/release")
    show_json(answer) if json else out.print(f"the agent answers in {conversation_id}")


@app.command()
def show(conversation_id: ConversationId, *, json: Json = False) -> None:
    """Show a conversation: its newest messages and calls, and what waits for people."""
    conversation = call("GET", f"/v1/conversations/{conversation_id}")
    show_json(conversation) if json else show_fields(conversation)


@app.command()
def stop(conversation_id: ConversationId, *, json: Json = False) -> None:
    """Stop the turn that runs: calls that wait are withdrawn, those that run end by themselves."""
    answer = call("POST", f"/v1/conversations/{conversation_id}/stop")
    words = {"stopping": "is being stopped", "idle": "had nothing to stop"}
    show_json(answer) if json else out.print(f"{conversation_id} {words[answer['state']]}")


@app.command()
def end(conversation_id: ConversationId, *, json: Json = False) -> None:
    """End a conversation: calls that wait are withdrawn, and nobody writes in it again."""
    call("POST", f"/v1/conversations/{conversation_id}/end")
    show_json({"id": conversation_id, "state": "ended"}) if json else out.print(f"{conversation_id} has ended")

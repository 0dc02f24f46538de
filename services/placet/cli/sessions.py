"""`placet sessions`: browsers that are signed in."""

from __future__ import annotations

from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, out, show_json, show_table

app = typer.Typer(no_args_is_help=True, help="List and end the sessions of browsers.")


@app.command("list")
def list_sessions(*, json: Json = False) -> None:
    """List your own sessions; administrators see those of their tenant."""
    page = call("GET", "/v1/sessions")
    columns = ["id", "person", "method", "created_at", "seen_at", "expires_at"]
    show_json(page) if json else show_table(page["items"], columns)


@app.command()
def revoke(session_id: Annotated[str, typer.Argument(metavar="ID")], *, json: Json = False) -> None:
    """End a session; its browser is signed out at once."""
    answer = call("DELETE", f"/v1/sessions/{session_id}")
    show_json(answer or {"id": session_id, "revoked": True}) if json else out.print(f"revoked {session_id}")

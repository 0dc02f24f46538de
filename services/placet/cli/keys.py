"""`placet keys`: API keys of people and programs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from services.placet.cli.client import call
from services.placet.cli.output import Json, fail, out, show_json, show_table

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")

Scopes = Annotated[list[str], typer.Option("--scope", help="chat, decide, operate or admin; give it several times.")]


@app.command()
def create(
    person: Annotated[str, typer.Option(help="Whose key it is, for example ada.")],
    scope: Scopes,
    *,
    tenant: Annotated[str, typer.Option(help="Tenant of the very first key; later keys have their creator's.")] = "",
    bootstrap: Annotated[bool, typer.Option(help="Write straight to PLACET_DATABASE_URL: for the first key.")] = False,
    json: Json = False,
) -> None:
    """Create a key and print it, once."""
    if tenant and not bootstrap:
        fail("--tenant needs --bootstrap: another key's tenant is its creator's", code=2)
    made = (
        _bootstrap(tenant or "default", person, scope)
        if bootstrap
        else call("POST", "/v1/keys", json={"person": person, "scopes": scope})
    )
    if json:
        show_json(made)
    else:
        out.print(made["key"])


@app.command("list")
def list_keys(*, json: Json = False) -> None:
    """List the keys of your tenant."""
    page = call("GET", "/v1/keys")
    show_json(page) if json else show_table(page["items"], ["id", "person", "scopes", "created_at", "revoked_at"])


@app.command()
def revoke(key_id: Annotated[str, typer.Argument(metavar="ID")], *, json: Json = False) -> None:
    """Revoke a key; it stops working at once."""
    answer = call("DELETE", f"/v1/keys/{key_id}")
    show_json(answer or {"id": key_id, "revoked": True}) if json else out.print(f"revoked {key_id}")


def _bootstrap(tenant: str, person: str, scopes: list[str]) -> dict[str, object]:
    import psycopg

    from services.gateway.bootstrap import create_key

    url = os.environ.get("PLACET_DATABASE_URL")
    if not url:
        fail("--bootstrap needs PLACET_DATABASE_URL", code=2)
    try:
        with psycopg.connect(url) as connection:
            return {"key": create_key(connection, tenant=tenant, person=person, scopes=scopes)}
    except (psycopg.Error, ValueError) as error:
        fail(str(error))

"""The administrative nouns: calls, conversations, dead letters, deliveries, grants, keys, sessions and webhooks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from placet.cli.client import call, url_beside
from placet.cli.output import Json, err, fail, out, show_json, tell
from placet.cli.resources import LIMIT, After, Id, Limit, Resource, show_page

calls = Resource("tool-calls", "List and show tool calls, and resolve those of unknown outcome.")
calls.list(
    "List calls, newest first.",
    ["id", "state", "tool", "conversation_id", "proposed_at"],
    states="unknown (nobody knows the outcome), open, how it ended (succeeded, denied, …), or all.",
    state="unknown",
)
calls.show(
    "Show one call's whole history.",
    ["verdict", "approval", "execution"],
    {"history": ["at", "machine", "event", "from_state", "to_state", "actor", "detail"]},
)

conversations = Resource("conversations", "List, show, take over, give back, stop and end conversations.")
conversations.show("Show a conversation: its newest messages and calls, and what waits for people.")
conversations.act(
    "takeover",
    "Take a conversation over from the agent: you answer in it from now on.",
    lambda answer: f"{{id}} is yours, {answer['operator']}",
)
conversations.act(
    "release",
    "Give a conversation back to the agent, which answers what nobody has answered.",
    "the agent answers in {id}",
)
_STOPPED = {"stopping": "{id} is being stopped", "idle": "{id} had nothing to stop"}
conversations.act(
    "stop",
    "Stop the turn that runs: calls that wait are withdrawn, those that run end by themselves.",
    lambda answer: _STOPPED[answer["state"]],
)
conversations.act(
    "end", "End a conversation: calls that wait are withdrawn, and nobody writes in it again.", "{id} has ended"
)

dead_letters = Resource("dead-letters", "List, show, replay and discard dead letters.")
dead_letters.list(
    "List dead letters, newest first.",
    ["id", "state", "queue", "message_type", "reason", "received_at"],
    states="open, replayed or discarded.",
    state="open",
)
dead_letters.show("Show one dead letter with its body.")
dead_letters.act("replay", "Send a dead letter back to the queue it came from.", "replay of {id} is on its way")
dead_letters.act("discard", "Give a dead letter up; it stays on record.", "discard of {id} is on its way")

deliveries = Resource("deliveries", "List deliveries of cards, and try those again that were given up.")
deliveries.list(
    "List deliveries, the newest change first.",
    ["id", "state", "channel", "recipient", "approval_id", "error", "updated_at"],
    states="due, kept, sent, given_up or all.",
    state="given_up",
)
deliveries.act("retry", "Show a card again where its channel failed for good.", "retry of {id} is on its way")

grants = Resource("grants", "List, show and revoke grants.")
grants.list(
    "List your grants, newest first; with an administrator's key everybody's.",
    ["id", "state", "owner", "tool", "scope", "arguments", "uses_left", "expires_at"],
    states="active, used_up, expired, revoked, void or all.",
    state="active",
)
grants.show("Show one grant.")
grants.act("revoke", "Take a grant back.", "revocation of {id} is on its way")

keys = Resource("keys", "Create, list and revoke API keys.")
keys.list("List the keys of your tenant.", ["id", "person", "scopes", "created_at", "taken_over_at", "revoked_at"])
keys.act("revoke", "Revoke a key; it stops working at once.", "revoked {id}", method="DELETE")

sessions = Resource("sessions", "List and end the sessions of browsers.")
sessions.list(
    "List your own sessions; administrators see those of their tenant.",
    ["id", "person", "method", "created_at", "seen_at", "expires_at"],
)
sessions.act("revoke", "End a session; its browser is signed out at once.", "revoked {id}", method="DELETE")

webhooks = Resource("webhook-events", "List events for webhooks, and post those again that were given up.")
webhooks.list(
    "List events, the newest first.",
    ["id", "state", "webhook", "type", "attempt", "error", "created_at"],
    states="due, sent, given_up or all.",
    state="given_up",
)
webhooks.act("retry", "Post an event again that its webhook never took.", "retry of {id} is on its way")

#: Name of each noun on the command line.
NOUNS = {
    "calls": calls,
    "conversations": conversations,
    "dead-letters": dead_letters,
    "deliveries": deliveries,
    "grants": grants,
    "keys": keys,
    "sessions": sessions,
    "webhooks": webhooks,
}


@calls.app.command()
def resolve(
    call_id: Id,
    *,
    ran: Annotated[bool, typer.Option("--ran", help="It ran: that is what you found out.")] = False,
    did_not_run: Annotated[bool, typer.Option("--did-not-run", help="It did not.")] = False,
    note: Annotated[str, typer.Option(help="What you looked at; people and the model read it.")] = "",
    json: Json = False,
) -> None:
    """Say whether a call ran whose outcome is unknown."""
    if ran == did_not_run:
        fail("say what you found: --ran or --did-not-run", code=2)
    body = {"outcome": "ran" if ran else "did_not_run", "note": note}
    answer = call("POST", f"/v1/tool-calls/{call_id}/resolution", json=body)
    tell(answer, f"{answer['outcome']} of {call_id} is on its way", json=json)


@conversations.app.command("list")
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


@conversations.app.command()
def say(conversation_id: Id, text: Annotated[str, typer.Argument()], *, json: Json = False) -> None:
    """Answer in a conversation that you hold."""
    body = {"text": text, "author": "operator"}
    posted = call("POST", f"/v1/conversations/{conversation_id}/messages", json=body)
    tell(posted, f"said in {conversation_id}", json=json)


@keys.app.command()
def create(
    person: Annotated[str, typer.Option(help="Whose key it is, for example ada.")],
    scope: Annotated[list[str], typer.Option("--scope", help="chat, decide, operate or admin; several times.")],
    *,
    tenant: Annotated[str, typer.Option(help="Tenant of the very first key; later keys have their creator's.")] = "",
    bootstrap: Annotated[bool, typer.Option(help="Write straight to PLACET_DATABASE_URL: for the first key.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="With --bootstrap: folder of a running `placet up`, whose database it is.")
    ] = None,
    json: Json = False,
) -> None:
    """Create a key and print it, once."""
    if tenant and not bootstrap:
        fail("--tenant needs --bootstrap: another key's tenant is its creator's", code=2)
    if bootstrap:
        made = _bootstrap(tenant or "default", person, scope, data)
    else:
        made = call("POST", "/v1/keys", json={"person": person, "scopes": scope})
    if json:
        show_json(made)
        return
    out.print(made["key"])
    if not made.get("taken_over", True) and {"decide", "operate", "admin"} & set(scope):
        sent = (
            f"a code is on its way to {person}, where mail or Slack reaches them"
            if made["code_sent"]
            else "by signing in, or with another key"
        )
        err.print(f"It is good once {person} has taken it over: {sent}.")


@keys.app.command("take-over")
def take_over(
    key_id: Annotated[str, typer.Argument(metavar="[ID]", help="A key that somebody made for you.")] = "",
    *,
    code: Annotated[str, typer.Option(help="What you were sent; PLACET_KEY is the key itself then.")] = "",
    json: Json = False,
) -> None:
    """Take a key over that somebody made for you, and print it, once: the one that its maker has is good no more."""
    if bool(key_id) == bool(code):
        fail("name the key (with another one of yours set), or say its code (with the key itself set)", code=2)
    path, body = (f"/v1/keys/{key_id}/take-over", None) if key_id else ("/v1/keys/take-over", {"code": code})
    answer = call("POST", path, json=body)
    if json:
        show_json(answer)
        return
    out.print(answer["key"])
    err.print(f"{answer['id']} is yours; only this key is good from now on.")


def _bootstrap(tenant: str, person: str, scopes: list[str], data: Path | None) -> dict[str, object]:
    import psycopg

    from placet.deploy.postgres.redaction import redacted_error
    from placet.gateway.identity.bootstrap import create_key

    url = url_beside(data) if data is not None else os.environ.get("PLACET_DATABASE_URL")
    if not url:
        fail("--bootstrap needs PLACET_DATABASE_URL, or --data of a running `placet up`", code=2)
    try:
        with psycopg.connect(url) as connection:
            return {"key": create_key(connection, tenant=tenant, person=person, scopes=scopes)}
    except (psycopg.Error, ValueError) as error:
        fail(redacted_error(error))

"""`placet slack`: what to paste into Slack so that the app fits this installation."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from placet.cli.output import Json, fail, out, show_json

app = typer.Typer(no_args_is_help=True, help="Set up approvals in Slack.")

_NAME_MAX = 35


@app.command()
def manifest(
    url: Annotated[str, typer.Option(help="Address that Slack reaches the gateway at: https://placet.example.")] = "",
    name: Annotated[str, typer.Option(help="What the app is called in Slack.")] = "Placet",
    *,
    socket: Annotated[bool, typer.Option(help="Socket Mode: the gateway connects to Slack.")] = False,
    json: Json = False,
) -> None:
    """Print the app's manifest, for https://api.slack.com/apps → Create New App → From a manifest."""
    if bool(url) is socket:
        fail("say either --url, where Slack can reach the gateway, or --socket, where it cannot", code=2)
    if url and (urlsplit(url).scheme != "https" or not urlsplit(url).hostname):
        fail("--url should begin with https://: Slack sends people's clicks to nothing else", code=2)
    if not 1 <= len(name) <= _NAME_MAX:
        fail(f"--name has 1 to {_NAME_MAX} characters in Slack", code=2)
    made = manifest_of(name, url)
    if json:
        show_json(made)
        return
    import yaml

    out.print(yaml.safe_dump(made, sort_keys=False, allow_unicode=True).rstrip(), markup=False, soft_wrap=True)


def manifest_of(name: str, url: str) -> dict[str, Any]:
    """Return the manifest of the app; without `url` it uses Socket Mode."""
    from placet.surfaces.slack import BOT_EVENTS, BOT_SCOPES, EVENTS_PATH, INTERACTIONS_PATH

    interactivity: dict[str, Any] = {"is_enabled": True}
    events: dict[str, Any] = {"bot_events": list(BOT_EVENTS)}
    if url:
        interactivity["request_url"] = f"{url.rstrip('/')}{INTERACTIONS_PATH}"
        events["request_url"] = f"{url.rstrip('/')}{EVENTS_PATH}"
    return {
        "display_information": {
            "name": name,
            "description": "Approve or deny what AI agents want to do.",
            "background_color": "#1f2937",
        },
        "features": {"bot_user": {"display_name": name, "always_online": True}},
        "oauth_config": {"scopes": {"bot": list(BOT_SCOPES)}},
        "settings": {
            "event_subscriptions": events,
            "interactivity": interactivity,
            "org_deploy_enabled": False,
            "socket_mode_enabled": not url,
            "token_rotation_enabled": False,
        },
    }

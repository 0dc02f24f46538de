"""`placet slack manifest` prints what Slack takes, and refuses what Slack could not use."""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from placet.cli.main import main


def outcome(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """Run the command; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["placet", "slack", "manifest", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_the_manifest_sends_clicks_to_the_gateway(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """YAML for people and JSON for programs say the same: the addresses of the door, the scopes, and the events."""
    assert 0 == outcome(monkeypatch, "--url", "https://placet.example/")
    made = yaml.safe_load(capsys.readouterr().out)
    assert 0 == outcome(monkeypatch, "--url", "https://placet.example/", "--json")
    assert made == json.loads(capsys.readouterr().out)
    assert "https://placet.example/slack/interactions" == made["settings"]["interactivity"]["request_url"]
    events = made["settings"]["event_subscriptions"]
    assert ("https://placet.example/slack/events", ["message.channels", "message.groups", "message.im"]) == (
        events["request_url"],
        events["bot_events"],
    )
    assert ("chat:write" in made["oauth_config"]["scopes"]["bot"], False) == (
        True,
        made["settings"]["socket_mode_enabled"],
    )


def test_socket_mode_needs_no_address(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The app is told to hold a socket, and no address."""
    outcome(monkeypatch, "--socket", "--json")
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (True, {"is_enabled": True}) == (settings["socket_mode_enabled"], settings["interactivity"])
    assert ["bot_events"] == list(settings["event_subscriptions"])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "say either --url"),
        (("--socket", "--url", "https://placet.example"), "say either --url"),
        (("--url", "http://placet.example"), "https://"),
        (("--url", "placet.example"), "https://"),
        (("--socket", "--name", "x" * 36), "1 to 35"),
    ],
)
def test_what_slack_could_not_use_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    """One line says what is missing."""
    assert (2, True) == (outcome(monkeypatch, *arguments), told in capsys.readouterr().err)

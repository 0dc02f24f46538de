"""What notifier and gateway agree on about Slack: buttons' values, and settings that fail before they mislead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from placet.surfaces.slack import SlackMisconfigured, SlackSettings, Subject, parse_subject

SECRET = "xoxb-very-secret"
FILE = """\
signing_secret: shhh
teams:
  - team: T0ACME
    bot_token: xoxb-1
    tenants: [acme, default]
  - team: T0UMBRELLA
    bot_token: xoxb-2
    tenants: [umbrella]
    channel: "#ops"
"""


def some_settings(**given_settings: Any) -> SlackSettings:
    """Return settings about Slack alone."""
    return SlackSettings(**given_settings)


@given(st.text(max_size=300))
def test_a_strange_value_is_no_subject(text: str) -> None:
    """Whatever a button carries that we did not make is nobody's."""
    assert parse_subject(text) is None


def test_a_subject_survives_a_button() -> None:
    """What is read from a button is what was put into it."""
    for restored in (0, 1_796_123_456_123_456):
        subject = Subject("acme", "01a20251-f834-72ac-bd49-1eb1f8da6604", 12, "c" * 64, restored)
        assert subject == parse_subject(subject.text())


def test_without_a_token_slack_is_not_used() -> None:
    """The default is no team at all."""
    assert () == some_settings().slack().teams


def test_one_workspace_comes_from_variables() -> None:
    """Token, team and tenant are enough."""
    slack = some_settings(slack_bot_token=SecretStr(SECRET), slack_team="T0ACME", slack_tenant="acme").slack()
    assert ["T0ACME"] == [slack.by_tenant["acme"].team]


def test_several_workspaces_come_from_a_file(tmp_path: Path) -> None:
    """Each tenant finds its team, each team its tenants."""
    path = tmp_path / "slack.yaml"
    path.write_text(FILE)
    slack = some_settings(slack_file=path).slack()
    assert {"acme": "T0ACME", "default": "T0ACME", "umbrella": "T0UMBRELLA"} == {
        tenant: team.team for tenant, team in slack.by_tenant.items()
    }
    assert ("shhh", "#ops") == (slack.signing_secret.get_secret_value(), slack.by_team["T0UMBRELLA"].channel)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FILE.replace("umbrella", "acme"), "the tenant acme stands in two entries"),
        (FILE.replace("T0UMBRELLA", "T0ACME"), "the team T0ACME stands in two entries"),
        (FILE.replace("T0ACME", "ops"), "wrong or missing: teams.0.team"),
        (FILE.replace("bot_token", "token"), "wrong or missing: teams.0.bot_token"),
        ("teams: [", "cannot be read as YAML"),
    ],
)
def test_a_wrong_file_says_where_and_shows_no_secret(tmp_path: Path, text: str, problem: str) -> None:
    """A mistake stops the start, and no token stands in the words about it."""
    path = tmp_path / "slack.yaml"
    path.write_text(text)
    with pytest.raises(SlackMisconfigured) as told:
        some_settings(slack_file=path).slack()
    assert (problem in str(told.value), "xoxb" in str(told.value)) == (True, False)


def test_a_file_that_is_missing_is_told_to_be(tmp_path: Path) -> None:
    """Where it was not mounted, nobody looks for a mistake in it."""
    with pytest.raises(SlackMisconfigured, match=r"^PLACET_SLACK_FILE: .* cannot be read: No such file or directory$"):
        some_settings(slack_file=tmp_path / "slack.yaml").slack()


def test_a_token_without_its_team_stops_the_start() -> None:
    """People are known by team and user: without the team nobody could be."""
    with pytest.raises(ValidationError, match="PLACET_SLACK_TEAM is missing") as told:
        some_settings(slack_bot_token=SECRET)
    assert SECRET not in str(told.value)


def test_no_secret_is_shown() -> None:
    """Settings may be logged."""
    made = some_settings(slack_bot_token=SecretStr(SECRET), slack_team="T0ACME", slack_app_token=SecretStr(SECRET))
    assert SECRET not in repr(made) + repr(made.slack())

"""What the notifier and the gateway must agree on about Slack: the teams, the buttons, and what a button carries.

Pure but for reading settings. The libraries that speak to Slack belong to those two services alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import SettingsConfigDict

from placet.contracts.errors import PlacetError
from placet.domain.yaml_source import read_yaml
from placet.runtime.settings import INTERNAL, Settings

#: Actions of a card's buttons.
APPROVE: Final = "placet_approve"
#: Approves, with the narrowest grant that the rule offers.
AGAIN: Final = "placet_again"
DENY: Final = "placet_deny"
EDIT: Final = "placet_edit"
MORE: Final = "placet_more"
#: A button that only opens the approval's page.
OPEN: Final = "placet_open"

#: Where the gateway takes clicks and modals over HTTP.
INTERACTIONS_PATH: Final = "/slack/interactions"
#: Where it takes what Slack tells of by itself, and of what: replies in the threads of cards.
EVENTS_PATH: Final = "/slack/events"
BOT_EVENTS: Final = ("message.channels", "message.groups", "message.im")
#: What the app may do in a workspace: write cards and messages to people, look channels up by name, and look for a card
#: whose post was not answered.
BOT_SCOPES: Final = (
    "channels:history",
    "channels:read",
    "chat:write",
    "chat:write.public",
    "groups:history",
    "groups:read",
    "im:history",
    "im:write",
)
#: Type of the metadata that our messages carry, by which a message is found again.
METADATA_TYPE: Final = "placet_card"

_SUBJECT = re.compile(
    r"v1\.(?P<tenant>[a-z0-9][a-z0-9-]{0,62})\.(?P<approval_id>[A-Za-z0-9_-]{1,64})"
    r"\.(?P<revision>[1-9][0-9]{0,9})\.(?P<digest>[0-9a-f]{64})(\.r(?P<restored>[1-9][0-9]{0,16}))?"
)


class SlackMisconfigured(PlacetError):
    """The settings about Slack cannot be used; the text says which and why, and shows no secret."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a button is about: one approval, as it was shown.

    Nothing in it is secret, and nothing in it is believed: the gateway looks the approval up in a tenant that the
    sender's team may see, and the digest is compared.
    """

    tenant: str
    approval_id: str
    revision: int
    digest: str
    #: The restore since it was asked that the card told of, Unix microseconds; 0: of none.
    restored: int = 0

    def text(self) -> str:
        """Return it as a button's value."""
        told = f".r{self.restored}" if self.restored else ""
        return f"v1.{self.tenant}.{self.approval_id}.{self.revision}.{self.digest}{told}"


def parse_subject(text: str) -> Subject | None:
    """Return what a button's value is about; None where it is none of ours."""
    found = _SUBJECT.fullmatch(text)
    if found is None:
        return None
    shown = int(found["revision"]), found["digest"], int(found["restored"] or 0)
    return Subject(found["tenant"], found["approval_id"], *shown)


class SlackTeam(BaseModel):
    """One Slack workspace that the app is installed in."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    team: Annotated[str, Field(pattern=r"^[TE][A-Z0-9]{1,30}$")]
    bot_token: SecretStr
    #: Whose approvals may be shown and decided there; each tenant has one team.
    tenants: Annotated[list[str], Field(min_length=1)] = ["default"]
    #: Where `slack` alone in a rule posts: a channel's id or name.
    channel: str = ""


class SlackFile(BaseModel):
    """A file with everything about Slack."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    signing_secret: SecretStr = SecretStr("")
    app_token: SecretStr = SecretStr("")
    teams: Annotated[list[SlackTeam], Field(min_length=1)]


@dataclass(frozen=True)
class Slack:
    """The app and where it is installed; without teams, Slack is not used."""

    signing_secret: SecretStr
    app_token: SecretStr
    teams: tuple[SlackTeam, ...]

    @cached_property
    def by_team(self) -> Mapping[str, SlackTeam]:
        """The teams by their id."""
        return {each.team: each for each in self.teams}

    @cached_property
    def by_tenant(self) -> Mapping[str, SlackTeam]:
        """The team of each tenant."""
        return {tenant: each for each in self.teams for tenant in each.tenants}


class SlackSettings(Settings):
    """How to reach Slack: one workspace by variables, several (or secrets from a mounted file) by `slack_file`."""

    # What is wrong is told without what was given: that may be a token.
    model_config = SettingsConfigDict(hide_input_in_errors=True)

    slack_bot_token: SecretStr = Field(
        default=SecretStr(""), description="Bot token of the Slack app, `xoxb-…`; empty: Slack is not used."
    )
    slack_team: str = Field(default="", description="Id of the Slack workspace that it is for, `T…`.")
    slack_tenant: str = Field(default="default", description="Tenant whose approvals that workspace sees.")
    slack_channel: str = Field(
        default="", description="Where `slack` alone in a rule posts: a channel's id, or `#name`."
    )
    slack_signing_secret: SecretStr = Field(
        default=SecretStr(""), description="Signing secret of the Slack app; empty: no requests over HTTP are taken."
    )
    slack_app_token: SecretStr = Field(
        default=SecretStr(""), description="App-level token, `xapp-…`: the gateway connects to Slack (Socket Mode)."
    )
    slack_file: Path | None = Field(
        default=None,
        description="YAML file with signing_secret, app_token and teams, in place of the settings above.",
    )
    slack_api_url: str = Field(
        json_schema_extra=INTERNAL, default="https://slack.com/api/", description="Address of Slack's Web API."
    )

    @model_validator(mode="after")
    def _check_slack(self) -> SlackSettings:
        if self.slack_bot_token.get_secret_value() and self.slack_file:
            raise ValueError("PLACET_SLACK_BOT_TOKEN and PLACET_SLACK_FILE exclude each other")
        if self.slack_bot_token.get_secret_value() and not self.slack_team:
            raise ValueError(
                "PLACET_SLACK_TEAM is missing: people are known by team and user, so the team must be told"
            )
        return self

    def slack(self) -> Slack:
        """Return what was set; raise SlackMisconfigured where a file or a team cannot be used."""
        made = self._from_file(self.slack_file) if self.slack_file else self._from_variables()
        teams, tenants = [each.team for each in made.teams], [name for each in made.teams for name in each.tenants]
        for what, names in (("team", teams), ("tenant", tenants)):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise SlackMisconfigured(f"Slack: the {what} {twice[0]} stands in two entries")
        return made

    def _from_variables(self) -> Slack:
        teams: tuple[SlackTeam, ...] = ()
        if self.slack_bot_token.get_secret_value():
            try:
                team = SlackTeam(
                    team=self.slack_team,
                    bot_token=self.slack_bot_token,
                    tenants=[self.slack_tenant],
                    channel=self.slack_channel,
                )
            except ValidationError as error:
                raise SlackMisconfigured("PLACET_SLACK_TEAM should be the id of a workspace, `T…`") from error
            teams = (team,)
        return Slack(self.slack_signing_secret, self.slack_app_token, teams)

    def _from_file(self, path: Path) -> Slack:
        # A mistake in this file is told without its values: they are secrets.
        try:
            read = SlackFile.model_validate(dict(read_yaml(path).data))
        except ValidationError as error:
            places = ", ".join(".".join(map(str, each["loc"])) for each in error.errors())
            raise SlackMisconfigured(f"{path}: wrong or missing: {places}") from None
        except PlacetError as error:
            cause = error.__cause__
            why = f": {cause.strerror}" if isinstance(cause, OSError) else " as YAML"
            raise SlackMisconfigured(f"PLACET_SLACK_FILE: {path} cannot be read{why}") from error
        return Slack(read.signing_secret, read.app_token, tuple(read.teams))

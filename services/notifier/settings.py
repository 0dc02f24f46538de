"""Settings of the notifier."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from placet.notifier.email_settings import EmailSettings
from placet.notifier.quiet_hours import quiet_hours
from placet.notifier.webhooks.endpoints import load_endpoints
from placet.runtime.settings import LanguageSettings
from placet.surfaces.slack import SlackSettings


class NotifierSettings(SlackSettings, EmailSettings, LanguageSettings):
    """Where things are, and how often to look."""

    notifier_cards_per_minute: dict[str, Annotated[int, Field(ge=1, le=6_000)]] = Field(
        default_factory=lambda: {"slack": 50, "email": 120},
        description="Cards that a kind of channel sends in a minute, for each tenant and channel; others have no pace.",
    )
    notifier_waiting_max: int = Field(
        default=25, ge=0, description="Cards that wait at one address; further ones are counted there. 0: any number."
    )
    notifier_same_max: int = Field(
        default=5, ge=0, description="Of these, cards of the same tool and target. 0: any number."
    )
    notifier_quiet_hours: dict[str, str] = Field(
        default_factory=dict,
        description="Tenant (* for all others) to hours without new cards for people: 22:00-07:00 Europe/Berlin.",
    )

    notifier_webhooks: Path | None = Field(
        default=None, description="YAML file of webhooks with their secrets; empty: there are none."
    )
    notifier_apprise: dict[str, SecretStr] = Field(
        default_factory=dict, description="Name to Apprise URL: the places of channels `apprise:<name>`."
    )

    @field_validator("notifier_quiet_hours")
    @classmethod
    def _check_hours(cls, hours: dict[str, str]) -> dict[str, str]:
        for words in hours.values():
            quiet_hours(words)
        return hours

    def channels(self) -> frozenset[str]:
        """Return the channels that are set up: kinds, and single ones of kinds whose places are named one by one.

        Raise SlackMisconfigured or WebhooksInvalid where a file that says so cannot be read.
        """
        kinds = {"log"}
        if self.email_host and self.email_from:
            kinds.add("email")
        if self.slack().teams:
            kinds.add("slack")
        webhooks = load_endpoints(self.notifier_webhooks)
        return frozenset(
            {*kinds, *(f"apprise:{name}" for name in self.notifier_apprise), *(f"webhook:{name}" for name in webhooks)}
        )

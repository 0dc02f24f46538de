"""Settings of the channels: which of them this installation has. The command line reads them too."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from placet.notifier.email_settings import EmailSettings
from placet.notifier.webhook_endpoints import load_endpoints
from placet.surfaces.slack import SlackSettings


class ChannelSettings(SlackSettings, EmailSettings):
    """Where people are told."""

    notifier_webhooks: Path | None = Field(
        default=None, description="YAML file of webhooks with their secrets; empty: there are none."
    )
    notifier_apprise: dict[str, SecretStr] = Field(
        default_factory=dict, description="Name to Apprise URL: the places of channels `apprise:<name>`."
    )

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

"""Settings of the channels: which of them this installation has. The command line reads them too."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from placet.notifier.webhook_endpoints import load_endpoints
from placet.runtime.settings import Settings
from placet.surfaces.slack import SlackSettings

_ADDRESS = r"^([^@\s<>,;:]{1,64}@[A-Za-z0-9.-]{1,253})?$"


class EmailSettings(Settings):
    """How mails are sent. Without a relay and a sender there is no channel `email`."""

    email_host: str = Field(default="", description="SMTP relay that takes approval mails; empty: no channel `email`.")
    email_port: int = Field(default=587, ge=1, le=65535, description="Its port: 587 with STARTTLS, 465 with TLS.")
    email_security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="`starttls` insists on it; `none` is for a relay on the same machine."
    )
    email_username: str = Field(default="", description="Login at the relay; empty: none.")
    email_password: SecretStr = Field(default=SecretStr(""), description="Its password.")
    email_ca_file: Path | None = Field(
        default=None, description="Certificates that the relay's is checked against; empty: the system's."
    )
    email_from: str = Field(
        default="", pattern=_ADDRESS, description="Address that mails come from, such as placet@example.org."
    )
    email_reply_to: str = Field(
        default="", pattern=_ADDRESS, description="Where answers go; an answer decides nothing."
    )
    email_bounces: str = Field(
        default="",
        pattern=_ADDRESS,
        description="Mailbox of bounces, such as bounces@example.org; each mail's id is put into it behind a `+`.",
    )
    email_arguments: bool = Field(default=True, description="False: mails do not have the arguments of calls in them.")
    email_subject: Literal["sentence", "tool"] = Field(
        default="sentence",
        description="What subjects say: the card's sentence, or only the tool; the tool where mails have no arguments.",
    )
    email_wait_seconds: float = Field(
        default=5.0,
        ge=0,
        le=600,
        description="How long a first mail waits for more calls of its person, to list them all; 0: one mail for each.",
    )
    email_link_seconds: float = Field(
        default=86_400.0, ge=60, le=2_592_000, description="How long a mailed link decides; never beyond the deadline."
    )

    @property
    def sends_mails(self) -> bool:
        """Whether there is a channel `email`."""
        return bool(self.email_host and self.email_from)


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
        if self.sends_mails:
            kinds.add("email")
        if self.slack().teams:
            kinds.add("slack")
        webhooks = load_endpoints(self.notifier_webhooks)
        return frozenset(
            {*kinds, *(f"apprise:{name}" for name in self.notifier_apprise), *(f"webhook:{name}" for name in webhooks)}
        )

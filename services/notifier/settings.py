"""Settings of the notifier."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from placet.notifier.channel_settings import ChannelSettings
from placet.notifier.quiet_hours import quiet_hours
from placet.runtime.settings import LanguageSettings


class NotifierSettings(ChannelSettings, LanguageSettings):
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

    @field_validator("notifier_quiet_hours")
    @classmethod
    def _check_hours(cls, hours: dict[str, str]) -> dict[str, str]:
        for words in hours.values():
            quiet_hours(words)
        return hours

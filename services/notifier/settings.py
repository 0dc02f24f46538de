"""Settings of the notifier."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from services.notifier.email_settings import EmailSettings


class NotifierSettings(EmailSettings):
    """Where things are, and how often to look."""

    notifier_every_seconds: float = Field(default=1.0, gt=0, description="Pause between two looks for due cards.")
    notifier_language: Literal["en", "de", "tr"] = Field(
        default="en", description="Language of cards for a place, or for somebody whose language nobody said."
    )

"""Settings of the purge that is done by itself."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from placet.deploy.retention import DAYS_MAX
from placet.runtime.settings import Settings

FIVE_YEARS, A_YEAR = 1_825, 365


class RetentionSettings(Settings):
    """How long what is kept, and how often what is older is deleted."""

    retention_every_hours: float = Field(
        default=24.0, ge=0, description="Pause between two purges; 0: nothing is purged by itself."
    )
    retention_conversations_days: int = Field(
        default=FIVE_YEARS,
        ge=0,
        le=DAYS_MAX,
        description="Days that conversations are kept after their end; 0: for ever.",
    )
    retention_jobs_days: int = Field(
        default=A_YEAR, ge=0, le=DAYS_MAX, description="Days that jobs are kept after their end; 0: for ever."
    )
    retention_dead_letters_days: int = Field(
        default=A_YEAR,
        ge=0,
        le=DAYS_MAX,
        description="Days that replayed and discarded dead letters are kept; 0: for ever.",
    )
    retention_history_days: int = Field(
        default=FIVE_YEARS,
        ge=0,
        le=DAYS_MAX,
        description="Days that the history is kept; 0: for ever. At least as long as conversations: receipts need it.",
    )

    @model_validator(mode="after")
    def _check_history(self) -> Self:
        conversations, history = self.retention_conversations_days, self.retention_history_days
        if history and (not conversations or history < conversations):
            raise ValueError(
                "PLACET_RETENTION_HISTORY_DAYS must be at least PLACET_RETENTION_CONVERSATIONS_DAYS: receipts need it"
            )
        return self

"""Settings of approval."""

from __future__ import annotations

from pydantic import Field

from shared.settings import Settings


class ApprovalSettings(Settings):
    """Where things are, and how often to look at the clock."""

    approval_expire_every_seconds: float = Field(
        default=1.0, gt=0, description="Pause between two looks for overdue approvals."
    )
    approval_expire_batch: int = Field(
        default=200, ge=1, le=5_000, description="Approvals that one round closes; the next follows at once if full."
    )
    approval_step_every_seconds: float = Field(
        default=1.0, gt=0, description="Pause between two looks for reminders and escalations that are due."
    )
    approval_watch_every_seconds: float = Field(
        default=10.0, gt=0, description="Pause between two looks for approvals that nobody can approve any more."
    )
    approval_step_batch: int = Field(
        default=200,
        ge=1,
        le=5_000,
        description="Reminders and escalations of one round; the next follows at once.",
    )
    approval_index_every_seconds: float = Field(
        default=10.0, gt=0, description="Pause between two looks for approvals that cannot be searched yet."
    )
    approval_index_batch: int = Field(
        default=500,
        ge=1,
        le=5_000,
        description="Approvals that one round lets people search; the next follows at once if full.",
    )

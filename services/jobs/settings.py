"""Settings of the jobs service."""

from __future__ import annotations

from pydantic import Field

from placet.runtime.settings import INTERNAL, Settings


class JobsSettings(Settings):
    """Where things are, and how often lost attempts are looked for."""

    jobs_sweep_seconds: float = Field(
        json_schema_extra=INTERNAL, default=1.0, gt=0, description="Pause between two looks for lost attempts."
    )

"""Settings of policy."""

from __future__ import annotations

from pydantic import Field

from placet.runtime.settings import Settings


class PolicySettings(Settings):
    """Where things are; `rulebook` is the file that policy judges by, `keys` holds the key it signs permits with."""

    policy_keep_days: int = Field(
        default=40,
        ge=1,
        le=3_660,
        description="How long what was counted for limits is kept as evidence; longer where a window of the active "
        "rulebook is longer.",
    )

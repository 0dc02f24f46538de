"""Settings of approval."""

from __future__ import annotations

from pydantic import Field

from placet.runtime.settings import Settings


class ApprovalSettings(Settings):
    """How much may wait."""

    approval_tenant_pending: int = Field(
        default=100_000,
        ge=1,
        description="Calls of one tenant that may wait for people; further ones are refused, and the model is told. "
        "Counted every few seconds.",
    )

"""Settings of approval."""

from __future__ import annotations

from placet.runtime.settings import Settings


class ApprovalSettings(Settings):
    """What every service has, and nothing else."""

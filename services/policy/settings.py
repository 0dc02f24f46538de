"""Settings of policy."""

from __future__ import annotations

from shared.settings import Settings


class PolicySettings(Settings):
    """Where things are; `rulebook` is the file that policy judges by, `keys` holds the key it signs permits with."""

"""Settings of the dead-letter service: none beside the shared ones."""

from __future__ import annotations

from placet.runtime.settings import Settings


class DeadLettersSettings(Settings):
    """Where things are."""

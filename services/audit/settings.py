"""Settings of the audit service: none beside the shared ones."""

from __future__ import annotations

from shared.settings import Settings


class AuditSettings(Settings):
    """Where things are."""

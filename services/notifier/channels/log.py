"""The channel that is always there: one line in the service's own log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class LogChannel:
    """Writes cards as log lines. Arguments stay out: a log is no place for personal data."""

    async def send(self, card: Mapping[str, Any], *, revision: int) -> None:
        """Write the card's line."""
        shown = {key: card[key] for key in ("approval_id", "tenant", "tool", "digest_prefix", "decided_by")}
        log.info("approval.card", **shown, approval_state=card["state"], revision=revision)

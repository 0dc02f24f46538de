"""The channel that is always there: one line in the service's own log."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from services.notifier.channels import Address, Card, Delivered

log = structlog.get_logger(__name__)

#: Digits of the digest in a line: enough to tell two calls apart.
DIGEST_SHOWN = 12


class LogChannel:
    """Writes cards as log lines. Arguments stay out: a log is no place for personal data."""

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Write the card's line."""
        del address, reference, key
        await note(card)
        return Delivered()


async def note(card: Card) -> None:
    """Write a card's line."""
    log.info(
        "approval.card",
        approval_id=card.approval_id,
        tenant=card.tenant,
        tool=card.tool,
        digest_prefix=card.digest[:DIGEST_SHOWN],
        approval_state=card.state,
        decided_by=card.decided_by,
        ended=card.ended,
        revision=card.revision,
    )

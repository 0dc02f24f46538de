"""The channel that is always there: one line in the service's own log."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ToolCallFinished
from placet.notifier.channels import Address, Card, Delivered

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


async def note_news(news: ApprovalOpened | ApprovalClosed | ToolCallFinished) -> None:
    """Write the line of an approval that has no card."""
    told: dict[str, object] = {}
    match news:
        case ApprovalOpened():
            call = news.call
            told = {"approval_id": news.approval_id, "tool": call.tool, "digest_prefix": call.digest[:DIGEST_SHOWN]}
            told |= {"approval_state": "pending", "revision": news.revision}
        case ApprovalClosed():
            told = {"approval_id": news.approval_id, "approval_state": news.state, "revision": news.revision}
            told |= {"decided_by": news.decided_by}
        case ToolCallFinished():
            told = {"call_id": news.call_id, "ended": news.kind}
    log.info("approval.card", tenant=news.tenant, **told)

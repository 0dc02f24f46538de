"""Whom to tell and in which words: pure, so that a card is decided by the stored bytes alone."""

from __future__ import annotations

from dataclasses import dataclass

from shared.ids import derived_id
from shared.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed

#: Seconds before the n-th further try of a card.
RETRY_SECONDS = (1, 5, 30, 120, 600)
#: Digits of the digest on a card: enough to tell two calls apart.
DIGEST_SHOWN = 12


@dataclass(frozen=True)
class Card:
    """What a channel shows of an approval, rendered from the stored call and never from the agent's words."""

    approval_id: str
    tenant: str
    conversation_id: str
    tool: str
    summary: str
    digest_prefix: str
    reason: str
    state: str
    decided_by: str = ""


def channels_for(opened: ApprovalOpened) -> list[str]:
    """Return the channels that the rule names; the log where it names none."""
    return list(dict.fromkeys(opened.approval.channels)) or ["log"]


def later_channels_for(opened: ApprovalOpened) -> list[str]:
    """Return the channels that only the rule's escalations name."""
    named = [channel for step in opened.approval.escalations for channel in step.channels]
    return [channel for channel in dict.fromkeys(named) if channel not in channels_for(opened)]


def card_of(opened: ApprovalOpened) -> Card:
    """Return the first card of an approval."""
    return Card(
        approval_id=opened.approval_id,
        tenant=opened.tenant,
        conversation_id=opened.call.conversation_id,
        tool=opened.call.tool,
        summary=opened.summary,
        digest_prefix=opened.call.digest[:DIGEST_SHOWN],
        reason=opened.reason,
        state="pending",
    )


def progress(progressed: ApprovalProgressed) -> dict[str, str]:
    """Return what changes on a card while its approval waits."""
    changes = {"note": progressed.note}
    if progressed.call is not None:
        changes |= {"summary": progressed.summary, "digest_prefix": progressed.call.digest[:DIGEST_SHOWN]}
    return changes


def closing(closed: ApprovalClosed) -> dict[str, str]:
    """Return what changes on a card when its approval is over."""
    return {"state": closed.state, "decided_by": closed.decided_by}


def woken(news: ApprovalProgressed | ApprovalClosed) -> list[str]:
    """Return the channels that are told from now on too."""
    return news.channels if isinstance(news, ApprovalProgressed) and news.kind == "escalated" else []


def may_be_unannounced(closed: ApprovalClosed) -> bool:
    """Tell whether an approval may end without ever having been announced: its call was withdrawn before it was held.

    Nobody has a card of it then, and nobody will.
    """
    return closed.state == "withdrawn"


def delivery_id(approval_id: str, channel: str) -> str:
    """Return the id of the one delivery of an approval to a channel."""
    return derived_id("delivery", approval_id, channel)


def retry_after(attempt: int) -> int | None:
    """Return the seconds to wait after the given failed attempt (1 for the first); None to give up."""
    return RETRY_SECONDS[attempt - 1] if attempt <= len(RETRY_SECONDS) else None

"""News of one approval, as the approval service sends it to whoever shows cards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from placet.contracts.ids import new_id
from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed, ShownCall, ToolCallFinished
from tests.builders import a_call, an_approval_rule


def opened(*channels: str, rule: dict[str, Any] | None = None, **changes: Any) -> ApprovalOpened:
    """Return the news that a call waits for people for an hour."""
    call = changes.pop("call", None) or a_call()
    fields: dict[str, Any] = {
        "tenant": call.tenant,
        "approval_id": new_id(),
        "revision": 1,
        "call": ShownCall.model_validate(call.model_dump(include=set(ShownCall.model_fields))),
        "summary": "Create a payment link over 299 TRY?",
        "rule": "payment-links",
        "reason": "It costs money.",
        "approval": an_approval_rule(channels=list(channels), **(rule or {})),
        "expires_at": datetime.now(UTC) + timedelta(hours=1),
    }
    return ApprovalOpened(**(fields | changes))


def progressed(news: ApprovalOpened, kind: str, revision: int = 2, **changes: Any) -> ApprovalProgressed:
    """Return the news that an approval moved on."""
    fields: dict[str, Any] = {
        "tenant": news.tenant,
        "approval_id": news.approval_id,
        "revision": revision,
        "conversation_id": news.call.conversation_id,
        "call_id": news.call.call_id,
        "kind": kind,
        "note": "It moved on.",
    }
    return ApprovalProgressed(**(fields | changes))


def closed(news: ApprovalOpened, state: str = "approved", revision: int = 3, **changes: Any) -> ApprovalClosed:
    """Return the news that an approval is over."""
    fields: dict[str, Any] = {
        "tenant": news.tenant,
        "approval_id": news.approval_id,
        "revision": revision,
        "conversation_id": news.call.conversation_id,
        "call_id": news.call.call_id,
        "state": state,
        "closed_at": datetime.now(UTC),
    }
    return ApprovalClosed(**(fields | changes))


def finished(news: ApprovalOpened, kind: str = "succeeded") -> ToolCallFinished:
    """Return the news that the approved call ran."""
    now = datetime.now(UTC)
    return ToolCallFinished(
        tenant=news.tenant,
        call_id=news.call.call_id,
        conversation_id=news.call.conversation_id,
        tool=news.call.tool,
        kind=kind,
        held=True,
        attempt=1,
        started_at=now,
        finished_at=now,
    )

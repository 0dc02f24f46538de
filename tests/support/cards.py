"""News of approvals for the notifier's tests, and a channel that notes what it is to show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from placet.contracts.ids import new_id
from placet.contracts.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed, ToolCallFinished
from placet.notifier.cards import DOUBT
from placet.notifier.channels import Address, Card, ChannelFailed, Delivered
from placet.notifier.rules import Delivery
from placet.notifier.states import State
from tests.builders import NOON, a_call, a_result, an_approval_rule


def opened(*channels: str, **changes: Any) -> ApprovalOpened:
    """Return the news that a call waits for people."""
    fields: dict[str, Any] = {
        "tenant": "acme",
        "approval_id": new_id(),
        "revision": 1,
        "call": a_call(),
        "summary": "Create a payment link over 299 TRY?",
        "rule": "payment-links",
        "reason": "It costs money.",
        "approval": an_approval_rule(channels=list(channels)),
        "expires_at": NOON,
    }
    return ApprovalOpened(**(fields | changes))


def closed(news: ApprovalOpened, state: str = "approved", revision: int = 2, **changes: Any) -> ApprovalClosed:
    """Return the news that the approval is over."""
    fields = _ids(news) | {"revision": revision, "state": state, "closed_at": NOON}
    return ApprovalClosed(**(fields | changes))


def progressed(news: ApprovalOpened, revision: int, **changes: Any) -> ApprovalProgressed:
    """Return the news that the approval moved on: somebody voted, where `changes` say nothing else."""
    fields = _ids(news) | {"revision": revision, "note": "Somebody voted.", "person": f"person:p{revision}"}
    return ApprovalProgressed(**(fields | changes))


def finished(news: ApprovalOpened, **changes: Any) -> ToolCallFinished:
    """Return the news that the approved call ran and succeeded, where `changes` say nothing else."""
    return a_result(news.call).model_copy(update={"held": True} | changes)  # type: ignore[arg-type]


def a_delivery(state: State = State.DUE) -> Delivery:
    """Return a delivery of a call that waits since noon, for an hour."""
    card = Card("approval-1", "acme", "conversation-1", deadline=NOON + timedelta(hours=1))
    return Delivery("delivery-1", "acme", "approval-1", "call-1", Address("wall"), state, 1, card, NOON)


def _ids(news: ApprovalOpened) -> dict[str, Any]:
    return {
        "tenant": news.tenant,
        "approval_id": news.approval_id,
        "conversation_id": news.call.conversation_id,
        "call_id": news.call.call_id,
    }


@dataclass(frozen=True)
class Shown:
    """One card as a channel was to show it."""

    card: Card
    address: Address
    reference: Mapping[str, str] | None
    key: str


class Board:
    """A channel that notes what it shows, and fails as it is told."""

    def __init__(self, *failures: ChannelFailed) -> None:
        self.shown: list[Shown] = []
        #: Raised by the next tries, one each.
        self.failures = list(failures)
        #: Set to let the tries wait that begin meanwhile.
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()

    async def send(self, card: Card, address: Address, reference: Mapping[str, str] | None, *, key: str) -> Delivered:
        """Note the card once the gate is open."""
        self.begun.set()
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.shown.append(Shown(card, address, reference, key))
        known = {name: value for name, value in (reference or {}).items() if name != DOUBT}
        return Delivered(known or {"place": str(len(self.shown))})

    @property
    def said(self) -> list[tuple[str, int]]:
        """State and revision of each card, in their order."""
        return [(each.card.state, each.card.revision) for each in self.shown]

"""How the history tells what happened to deliveries."""

from __future__ import annotations

from placet.notifier.rules import Moved
from placet.notifier.states import MACHINE
from placet.runtime.work import Change


def change_of(moved: Moved, actor: str = "notifier") -> Change:
    """Return the history row of what happened to a delivery."""
    before, after = moved.before, moved.after
    return Change(
        before.tenant,
        MACHINE.name,
        before.delivery_id,
        moved.event,
        before.state,
        after.state,
        actor=actor,
        detail={"approval_id": before.approval_id, "channel": before.address.channel, "revision": after.revision},
        about={"approval_id": before.approval_id, "call_id": before.call_id, "channel": before.address.channel},
    )

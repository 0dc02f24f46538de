"""Kill points: named places in the life of a message at which tests end a process.

A crash between two steps is what durable systems get wrong, so that the steps have names: whoever writes a new
transaction, publish or act passes through one of them or says why not, and a contract test sees to that. In production
a point is the call of an empty function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

#: Name -> what has happened, and what has not.
POINTS: Mapping[str, str] = {
    "consumer.received": "an envelope was read, and nothing was done",
    "work.written": "a transaction has written all, and is not committed",
    "work.committed": "state, history, inbox and outbox are committed, and nothing of it was sent",
    "consumer.handled": "what follows was handed over, and the delivery is not acknowledged",
    "outbox.publishing": "an envelope goes to the broker, which has not confirmed it",
    "outbox.confirmed": "the broker has confirmed it, and its row, if it has one, is still there",
    "relay.read": "rows that were left behind are read, and not sent",
    "agent.asking": "a turn is claimed, and the model was not asked",
    "agent.answered": "the model has answered, and nothing of it is stored",
    "approval.expiring": "overdue approvals are closed, and that is not committed",
    "executor.claimed": "a call is claimed, and its tool has not begun",
    "executor.acted": "the tool has ended, and nobody knows",
    "notifier.sending": "a card is claimed, and its channel was not called",
    "notifier.sent": "the channel has shown the card, and it is not recorded",
    "notifier.posting": "an event is claimed, and its webhook was not called",
    "notifier.posted": "the webhook has taken the event, and it is not recorded",
    "audit.sealing": "blocks of the audit chain are written, and not committed",
}


def _pass(_: str) -> None:
    """Go on."""


#: Hears of each point that is reached; tests put their own in its place, in a process that they start.
reached: Callable[[str], None] = _pass

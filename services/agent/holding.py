"""How a held call holds its turn, and when the turn goes on without it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from placet.agent.conversation_state import Held, NextMessage
from placet.agent.rules import Behaviour
from placet.contracts.messages import ApprovalRule


def held_as(rule: ApprovalRule, behaviour: Behaviour | None) -> Held | NextMessage:
    """Return how a call is held by what its rule says, and by what the agent does where it says nothing.

    An agent that is no more goes nowhere meanwhile.
    """
    if behaviour is None:
        return "supersede" if rule.on_message_while_pending == "supersede" else "wait"
    on_message = rule.on_message_while_pending or behaviour.pending
    if rule.while_pending is None and rule.on_message_while_pending in {"wait", "supersede"}:
        # Who says what a message does meanwhile means the turn to wait until there is one.
        return rule.on_message_while_pending
    if (rule.while_pending or behaviour.while_pending) == "continue":
        return "at_once"
    return "on_message" if on_message == "continue" else on_message


def goes_on(held: Sequence[Held | None], *, spoken: bool) -> bool:
    """Tell whether a turn goes on without calls that are held so; `spoken`: its requester's next words are waiting."""
    if not held or None in held:
        return False
    return spoken or all(each == "at_once" for each in held)

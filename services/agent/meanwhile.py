"""Whether a turn goes on while people think about its calls. Pure: what is known of the turn in, yes or no out.

A call that people decide is held in one of four ways: the turn goes on at once, or as soon as its requester writes
again; or it waits, and so does what they write, or that takes the call's place. A turn has one barrier, so it goes on
only when it could for each call that is still open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from services.agent.rules import Behaviour
from shared.messages import ApprovalRule

#: When the model may go on without the result of a held call: as soon as it is held, or when its requester writes.
Held = Literal["at_once", "on_message"]
#: What its requester's next message does where the turn waits for a call: it waits too, or takes the call's place.
NextMessage = Literal["wait", "supersede"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn that waits for calls, some of which people think about."""

    tenant: str
    conversation_id: str
    turn_id: str
    #: Who asked for the calls.
    author: dict[str, str]
    open_calls: int
    #: How those of them are held that may be gone on without.
    held: tuple[Held, ...]
    #: Messages and late outcomes that wait for a turn in its conversation.
    queued: int


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


def goes_on(waiting: Waiting, *, spoken: bool) -> bool:
    """Tell whether a turn goes on without its open calls; `spoken`: its requester's next words are waiting."""
    if len(waiting.held) < waiting.open_calls:
        return False
    return spoken or all(held == "at_once" for held in waiting.held)

"""Whether a turn goes on while people think about its calls. Pure: what is known of the turn in, yes or no out.

A call that people decide is held in one of three ways: the turn waits for it, or goes on at once, or as soon as its
requester writes again. A turn has one barrier, so it goes on only when it could for each call that is still open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from services.agent.rules import Behaviour
from shared.messages import ApprovalRule

#: When the model may go on without the result of a held call: as soon as it is held, or when its requester writes; or
#: the turn waits for it, and its requester's next message waits too, or takes the call's place.
Held = Literal["at_once", "on_message", "wait", "supersede"]
_BARRING: frozenset[Held] = frozenset({"wait", "supersede"})


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn that waits for calls, some of which people think about."""

    tenant: str
    conversation_id: str
    turn_id: str
    #: Who asked for the calls.
    author: dict[str, str]
    open_calls: int
    #: How those of them are held that people think about.
    held: tuple[Held, ...]
    #: Messages and late outcomes that wait for a turn in its conversation.
    queued: int


def held_as(rule: ApprovalRule, behaviour: Behaviour) -> Held:
    """Return how a call is held by what its rule says, and by what the agent does where it says nothing."""
    on_message = rule.on_message_while_pending or behaviour.pending
    if rule.while_pending is None and rule.on_message_while_pending in _BARRING:
        # Who says what a message does meanwhile means the turn to wait until there is one.
        return rule.on_message_while_pending
    if (rule.while_pending or behaviour.while_pending) == "continue":
        return "at_once"
    return "on_message" if on_message == "continue" else on_message


def goes_on(waiting: Waiting, *, spoken: bool) -> bool:
    """Tell whether a turn goes on without its open calls; `spoken`: its requester's next words are waiting."""
    if len(waiting.held) < waiting.open_calls or not _BARRING.isdisjoint(waiting.held):
        return False
    return spoken or all(held == "at_once" for held in waiting.held)

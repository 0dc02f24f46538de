"""How a conversation stands, by its newest items, and in whose name somebody writes in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from placet.contracts.errors import Refused
from placet.contracts.messages import Author
from placet.contracts.visitors import visitor_id
from placet.gateway.conversations.items import Item
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope

CallState = Literal["proposed", "pending_confirmation", "decided", "executing", "success", "error"]
#: States of an execution that somebody works on.
_AT_WORK = frozenset({"running", "verifying"})
#: States of a turn that goes on.
_TURN_RUNS = frozenset({"started", "continued", "paused"})


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as far as items tell of it."""

    call_id: str
    turn_id: str
    tool: str
    arguments: Any
    proposed_at: str
    status: CallState = "proposed"
    #: How it ended; None while it has not.
    kind: str | None = None
    approval_id: str | None = None
    answered_at: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """How a conversation stands."""

    #: The turn that goes on; None while none does.
    turn_id: str | None = None
    #: Calls by their ids, in the order in which they were proposed.
    calls: dict[str, Call] = field(default_factory=dict)

    @property
    def state(self) -> Literal["idle", "working", "waiting"]:
        """waiting: a call waits for people; working: a turn goes on; else idle."""
        if any(call.status == "pending_confirmation" for call in self.calls.values()):
            return "waiting"
        return "working" if self.turn_id else "idle"


def conversation_status(items: Iterable[Item]) -> Status:
    """Return how a conversation stands after its newest `items`."""
    turn_id: str | None = None
    calls: dict[str, Call] = {}
    for item in items:
        data = item.data
        if item.type == "turn":
            turn_id = data["turn_id"] if data["state"] in _TURN_RUNS else None
        elif item.type == "tool_call" and data["status"] == "proposed":
            calls[data["call_id"]] = Call(
                data["call_id"], data["turn_id"], data["tool"], data.get("arguments"), item.at
            )
        elif (call := calls.get(data.get("call_id", ""))) and call.kind is None:
            calls[call.call_id] = _moved(call, item)
    return Status(turn_id, calls)


def _moved(call: Call, item: Item) -> Call:
    """Return an unanswered call after an item about it."""
    data = item.data
    match item.type:
        case "tool_call" if data["status"] in {"success", "error"}:
            return replace(call, status=data["status"], kind=data["kind"], answered_at=item.at)
        case "tool_call":
            return replace(call, status="pending_confirmation")
        case "approval":
            status: CallState = "pending_confirmation" if data["state"] == "pending" else "decided"
            return replace(call, status=status, approval_id=data["approval_id"])
        case "progress":
            return replace(call, status="executing")
    return call


def call_status(approval: str | None, execution: str | None) -> CallState:
    """Return the status of a call that has no result, by the states of its approval and of its execution."""
    if execution in _AT_WORK:
        return "executing"
    if approval == "pending":
        return "pending_confirmation"
    return "decided" if approval else "proposed"


@dataclass(frozen=True, slots=True)
class Card:
    """An approval's card as a conversation shows it."""

    #: Of the arguments that it shows.
    digest: str
    #: Whether the model has said anything since, that is shown.
    spoken_since: bool


def shown_card(items: Sequence[Item], approval_id: str) -> Card | None:
    """Return how the newest `items` show an approval; None where they do not."""
    card: Card | None = None
    for item in items:
        data = item.data
        if item.type == "approval" and data.get("approval_id") == approval_id and data.get("digest"):
            card = Card(data["digest"], spoken_since=False)
        elif card and item.type == "message" and data["role"] == "assistant" and data["text"]:
            card = replace(card, spoken_since=card.spoken_since or not data.get("while_waiting"))
    return card


def author_of(caller: Caller, conversation: Any, wanted: str | None) -> Author:
    """Return who a message is from; approvals ask this author as their `requester`.

    A conversation token always writes as the visitor and a signed-in person as themselves. A key may relay for the
    visitor, which is what it does unasked where its conversation was opened for one. A key that may decide too does so
    only in conversations that count as its owner's: it could ask in one name and decide in another. Raises Refused
    (403) where it is told to all the same.
    """
    visitor = Author(kind="visitor", id=visitor_id(conversation.visitor, conversation.conversation_id))
    if caller.proof == "conversation_token":
        return visitor
    trusted = not caller.may(Scope.DECIDE) or (conversation.opener_decides and conversation.created_by == caller.person)
    asked = wanted or ("visitor" if conversation.visitor and trusted else "person")
    if caller.proof != "api_key" or asked == "person":
        return Author(kind="person", id=caller.person)
    if not trusted:
        detail = "A key that may decide writes for the visitor only in a conversation that it opened itself."
        raise Refused(detail, status=403, kind="author-not-allowed")
    return visitor

"""From messages to feed items: what every frontend of a conversation is told, in one vocabulary.

Pure. A frontend can render a call from `status` alone: proposed, pending_confirmation, executing, success or error.
Items of one call come from several queues and may change places; a final status (success, error) is never taken back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from pydantic_core import from_json, to_json

from shared import messages as m
from shared.messages import Message, ShownCall

Data = dict[str, Any]
#: What a feed item can be; beside these a stream has `delta`, a text being written, which is kept nowhere.
ItemType = Literal[
    "message", "tool_call", "approval", "progress", "decision", "holder", "turn", "resolution", "conversation"
]
ITEM_TYPES: tuple[ItemType, ...] = get_args(ItemType)
#: A conversation's key: tenant and id.
Place = tuple[str, str]

#: Result kinds that a frontend shows as done; every other ending is an error with its kind beside it.
SUCCESSES = frozenset({"succeeded", "staged"})


@dataclass(frozen=True, slots=True)
class Item:
    """One feed item before it has its number."""

    tenant: str
    conversation_id: str
    type: ItemType
    data: Data
    #: The same source never makes two items of a conversation.
    source_id: str

    @property
    def place(self) -> Place:
        """The key of its conversation."""
        return self.tenant, self.conversation_id

    @property
    def asks(self) -> bool:
        """Whether it is something a person writes."""
        return self.data.get("role") == "user"


def items_of(message: Message, event_id: str) -> tuple[Item, ...]:
    """Return the feed items that a message makes, none for one it passes over; `event_id` carried the message."""
    make = _MAKERS.get(type(message))
    items = make(message, event_id) if make else []
    return tuple(_storable_item(item) for item in items)


def status_of(kind: str) -> str:
    """Return the status that a frontend renders for a result kind: success or error."""
    return "success" if kind in SUCCESSES else "error"


def arguments_value(text: str) -> Any:
    """Return the value of a call's shown arguments; None where the model wrote no JSON or nothing may be shown."""
    try:
        return storable(from_json(text, allow_inf_nan=False))
    except ValueError:
        return None


def _posted(message: m.MessagePosted, _: str) -> list[Item]:
    author = message.author.model_dump()
    data = {"role": "user", "message_id": message.message_id, "text": message.text, "author": author}
    # The sender chose the message id, so the copy that comes back through the broker is known by it.
    return [_item(message, "message", data, f"message:{message.message_id}")]


def _operator_spoke(message: m.OperatorSpoke, _: str) -> list[Item]:
    author = {"kind": "operator", "id": message.operator}
    data = {"role": "operator", "message_id": message.message_id, "text": message.text, "author": author}
    return [_item(message, "message", data, f"message:{message.message_id}")]


def _holder_changed(message: m.HolderChanged, _: str) -> list[Item]:
    data = message.model_dump(include={"event", "operator", "revision", "text"})
    return [_item(message, "holder", {"state": message.holder, **data}, f"holder:{message.revision}")]


def _ended(message: m.ConversationEnded, _: str) -> list[Item]:
    # A conversation ends once, so the copy that comes back through the broker is known too.
    return [_item(message, "conversation", {"state": "ended", "by": message.by}, "ended")]


def _stopping(message: m.StopTurn, _: str) -> list[Item]:
    """Show nothing: the end of the turn says that it was stopped, and by whom."""
    del message
    return []


def _conversation_event(message: m.ConversationEvent, event_id: str) -> list[Item]:
    payload = {**message.payload, "turn_id": message.turn_id}
    match message.kind:
        case "assistant_message":
            return [_item(message, "message", {**payload, "role": "assistant"}, event_id)]
        case "turn_started":
            return [_item(message, "turn", {**payload, "state": "started"}, event_id)]
        case "turn_ended":
            return [_item(message, "turn", payload, event_id)]
        case "call_answered":
            status = status_of(str(payload.get("kind", "")))
            return [_item(message, "tool_call", {**payload, "status": status}, event_id)]


def _proposed(message: m.ToolCallProposed, event_id: str) -> list[Item]:
    return [_call_item(message.call, "proposed", event_id)]


def _opened(message: m.ApprovalOpened, event_id: str) -> list[Item]:
    call = message.call
    card = {
        "approval_id": message.approval_id,
        "call_id": call.call_id,
        "turn_id": call.turn_id,
        "state": "pending",
        "revision": message.revision,
        "digest": call.digest,
        "summary": message.summary,
        "reason": message.reason,
        "tool": call.tool,
        "arguments": arguments_value(call.shown_arguments),
        "approvers": message.approval.approvers,
        "expires_at": message.expires_at.isoformat(),
    }
    if call.quote:
        card["quote"] = call.quote
    approval = Item(call.tenant, call.conversation_id, "approval", card, f"{event_id}#approval")
    return [_call_item(call, "pending_confirmation", event_id), approval]


def _progressed(message: m.ApprovalProgressed, event_id: str) -> list[Item]:
    fields = {"approval_id", "call_id", "revision", "kind", "note", "person", "expires_at"}
    card = {**message.model_dump(mode="json", include=fields), "state": "pending"}
    if message.call is not None:
        edited = {"digest": message.call.digest, "summary": message.summary}
        card |= edited | {"arguments": arguments_value(message.call.shown_arguments)}
    if message.approvers:
        card["asked_too"] = message.approvers
    return [_item(message, "approval", card, event_id)]


def _closed(message: m.ApprovalClosed, event_id: str) -> list[Item]:
    answered = set() if message.answer_kind else {"answer_kind"}
    data = message.model_dump(mode="json", exclude={"tenant", "conversation_id", *answered})
    return [_item(message, "approval", data, event_id)]


def _finished(message: m.ToolCallFinished, event_id: str) -> list[Item]:
    fields = {"call_id", "tool", "kind", "data", "error", "ui_blocks"}
    data = {**message.model_dump(mode="json", include=fields), "status": status_of(message.kind)}
    return [_item(message, "tool_call", data, event_id)]


def _progressed_call(message: m.ToolCallProgressed, event_id: str) -> list[Item]:
    data = message.model_dump(mode="json", include={"call_id", "tool", "fraction", "text", "attempt"})
    data["status"] = "executing"
    return [_item(message, "progress", data, event_id)]


def _refused(message: m.ToolCallRefused, event_id: str) -> list[Item]:
    data = {
        "call_id": message.call_id,
        "tool": message.tool,
        "status": status_of(message.kind),
        "kind": message.kind,
        "error": message.reason,
        "decided_by": message.decided_by,
    }
    if message.answer_kind:
        data |= {"answer_kind": message.answer_kind, "answer": message.answer}
    return [_item(message, "tool_call", data, event_id)]


def _resolved(message: m.CallResolved, event_id: str) -> list[Item]:
    data = message.model_dump(mode="json", exclude={"tenant", "conversation_id"})
    return [_item(message, "resolution", data, event_id)]


def _item(message: Any, kind: ItemType, data: Data, source_id: str) -> Item:
    return Item(message.tenant, message.conversation_id, kind, data, source_id)


def _call_item(call: ShownCall, status: str, source_id: str) -> Item:
    data = {
        "call_id": call.call_id,
        "turn_id": call.turn_id,
        "tool": call.tool,
        "arguments": arguments_value(call.shown_arguments),
        "status": status,
    }
    return Item(call.tenant, call.conversation_id, "tool_call", data, source_id)


def storable(value: Any) -> Any:
    """Return a JSON value as jsonb can keep it: no NUL character, no number beyond a double; tools answer with both."""
    text = to_json(value)
    # Hardly any value has one of them; a text that only spells it is mended into itself.
    return _mended(value) if b"\\u0000" in text or b"NaN" in text or b"Infinity" in text else value


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict):
        return {_mended(key): _mended(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_mended(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _storable_item(item: Item) -> Item:
    data = storable(item.data)
    return item if data is item.data else replace(item, data=data)


_MAKERS: Mapping[type[Message], Callable[[Any, str], list[Item]]] = {
    m.MessagePosted: _posted,
    m.OperatorSpoke: _operator_spoke,
    m.HolderChanged: _holder_changed,
    m.ConversationEnded: _ended,
    m.StopTurn: _stopping,
    m.ConversationEvent: _conversation_event,
    m.ToolCallProposed: _proposed,
    m.ApprovalOpened: _opened,
    m.ApprovalProgressed: _progressed,
    m.ApprovalClosed: _closed,
    m.ToolCallFinished: _finished,
    m.ToolCallProgressed: _progressed_call,
    m.ToolCallRefused: _refused,
    m.CallResolved: _resolved,
}

#: The messages that make feed items.
SOURCES = tuple(_MAKERS)

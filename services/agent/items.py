"""Items of a conversation's log: what every frontend shows, in one vocabulary. Pure.

A frontend can render a call from `status` alone: proposed, pending_confirmation, executing, success or error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic_core import from_json, to_json

from placet.agent.rules import CheckedCall, Claim, Result
from placet.contracts import messages as m

Data = dict[str, Any]
ItemType = Literal[
    "message", "tool_call", "approval", "progress", "decision", "holder", "turn", "resolution", "conversation"
]

#: Result kinds that a frontend shows as done; every other ending is an error with its kind beside it.
_SUCCESSES = frozenset({"succeeded", "staged"})


def posted(message: m.MessagePosted | m.ProposeJob) -> Data:
    """Return the item of what a person wrote."""
    author = message.author.model_dump()
    data = {"role": "user", "message_id": message.message_id, "text": message.text, "author": author}
    taken_as = message.taken_as if isinstance(message, m.MessagePosted) else None
    return data | ({"taken_as": taken_as.model_dump()} if taken_as else {})


def operator_spoke(message: m.OperatorSpoke) -> Data:
    """Return the item of what an operator wrote."""
    author = {"kind": "operator", "id": message.operator}
    return {"role": "operator", "message_id": message.message_id, "text": message.text, "author": author}


def holder(message: m.HolderChanged) -> Data:
    """Return the item of a change of who answers."""
    return {"state": message.holder, **message.model_dump(include={"event", "operator", "revision", "text"})}


def decision(message: m.ConsentAnswered) -> Data:
    """Return the item of what became of a message that was taken for a decision."""
    fields = {"message_id", "outcome", "detail", "state"}
    return {**message.taken_as.model_dump(), **message.model_dump(include=fields)}


def assistant(claim: Claim, text: str, *, heard_meanwhile: bool, while_waiting: bool) -> Data:
    """Return the item of what the model said in a step."""
    words = {"message_id": claim.assistant_message_id, "turn_id": claim.turn_id, "step": claim.step, "text": text}
    told = {"heard_meanwhile": heard_meanwhile, "while_waiting": while_waiting}
    return {"role": "assistant", **words, **{name: True for name, is_so in told.items() if is_so}}


def proposed(claim: Claim, call: CheckedCall) -> Data:
    """Return the item of a call of a step."""
    return {
        "call_id": call.call_id,
        "turn_id": claim.turn_id,
        "step": claim.step,
        "tool": call.tool,
        "arguments": arguments_value(call.shown_arguments),
        "status": "proposed",
    }


def held(message: m.ApprovalOpened) -> tuple[Data, Data]:
    """Return the items of a call that people are asked about: the call's, and its card."""
    call = message.call
    told = {"call_id": call.call_id, "turn_id": call.turn_id}
    what = {"tool": call.tool, "arguments": arguments_value(call.shown_arguments)}
    card = {
        "approval_id": message.approval_id,
        **told,
        "state": "pending",
        "revision": message.revision,
        "digest": call.digest,
        "summary": message.summary,
        "reason": message.reason,
        **what,
        "approvers": message.approval.approvers,
        "expires_at": message.expires_at.isoformat(),
    }
    return {**told, **what, "status": "pending_confirmation"}, card | ({"quote": call.quote} if call.quote else {})


def approval_progressed(message: m.ApprovalProgressed, turn_id: str) -> Data:
    """Return the item of an approval that changed without being decided."""
    fields = {"approval_id", "call_id", "revision", "kind", "note", "person", "expires_at"}
    card = {**message.model_dump(mode="json", include=fields), "turn_id": turn_id, "state": "pending"}
    return card | _edited(message) | ({"asked_too": message.approvers} if message.approvers else {})


def approval_closed(message: m.ApprovalClosed, turn_id: str) -> Data:
    """Return the item of an approval that is over; of one that was edited, with what its arguments were last."""
    left_out = {"tenant", "conversation_id", "edited"} | (set() if message.answer_kind else {"answer_kind"})
    return {**message.model_dump(mode="json", exclude=left_out), **_edited(message.edited), "turn_id": turn_id}


def _edited(message: m.ApprovalProgressed | None) -> Data:
    """Return what the news of an edit says of the call; nothing where there is none."""
    if message is None or message.call is None:
        return {}
    arguments = arguments_value(message.call.shown_arguments)
    return {"digest": message.call.digest, "summary": message.summary, "arguments": arguments}


def progressed(message: m.ToolCallProgressed, turn_id: str) -> Data:
    """Return the item of how far a running call is."""
    fields = {"call_id", "tool", "fraction", "text", "attempt"}
    return {**message.model_dump(mode="json", include=fields), "turn_id": turn_id, "status": "executing"}


def answered(
    call: Mapping[str, str], result: Result, *, error: str | None = None, ui_blocks: Sequence[Data] = ()
) -> Data:
    """Return the item of a call's one result; `call` has call_id, turn_id and tool, `error` is for people."""
    data = {
        **call,
        "status": "success" if result.kind in _SUCCESSES else "error",
        "kind": result.kind,
        "data": result.data,
        "error": result.error or result.reason if error is None else error,
        "ui_blocks": list(ui_blocks),
    }
    people = {"decided_by": result.decided_by, "answer_kind": result.answer_kind, "answer": result.answer}
    return data | {name: value for name, value in people.items() if value}


def staged_end(call: Mapping[str, str], result: Result, outcome: str) -> Data:
    """Return the item of a staged call's end: it had the result `staged` before, and takes effect or never will."""
    return answered(call, result) | {"outcome": outcome}


def resolved(message: m.CallResolved) -> Data:
    """Return the item of what a person found out about a call."""
    return message.model_dump(mode="json", exclude={"tenant", "conversation_id"})


def arguments_value(text: str) -> Any:
    """Return the value of a call's shown arguments; None where the model wrote no JSON or nothing may be shown."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None


def storable_item(data: Data) -> Data:
    """Return an item as jsonb can keep it: no NUL character, no number beyond a double; tools answer with both."""
    text = to_json(data, inf_nan_mode="constants")
    # Hardly any value has one of them; a text that only spells it is mended into itself.
    mended: Data = _mended(data) if b"\\u0000" in text or b"NaN" in text or b"Infinity" in text else data
    return mended


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\x00", "\ufffd")
        case Mapping():
            return {_mended(key): _mended(each) for key, each in value.items()}
        case list():
            return [_mended(each) for each in value]
        case float() if not math.isfinite(value):
            return None
    return value

"""AG-UI: a conversation's moves as the events that `@ag-ui/client` and its like read.

A run begins with snapshots of everything before it, so its events tell only what is new. A call has one result, told
once: while people think, the approval is an activity of its own and the run ends by asking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from services.gateway.dialects.ag_ui_history import Transcript
from services.gateway.dialects.cards import shown_card
from services.gateway.dialects.moves import (
    CallAnswered,
    CallMade,
    CallProgressed,
    CardMoved,
    Move,
    OperatorSpoke,
    StepBegan,
    StepEnded,
    TextBegan,
    TextEnded,
    TextWritten,
    TurnEnded,
)
from services.gateway.dialects.reader import Said
from services.gateway.feed import SUCCESSES
from shared.approvers import name_of

Event = dict[str, Any]

PROTOCOL = "1.0"
#: Type of the activity that follows an approval to its end.
APPROVAL = "placet.approval"
#: Where our part of the state and of metadata is.
OURS = "placet"
#: What an answer to an interrupt may say.
ANSWER_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "Your decision; left out, nothing is decided by this answer."},
        "reason": {"type": "string", "description": "Your words, for people and the model."},
    },
}


class AgUi:
    """Writes the events of one run, and keeps the messages and the state that its client has then."""

    def __init__(self, state: Any = None) -> None:
        self._transcript = Transcript()
        #: What the application keeps in the shared state is given back as it came.
        self._theirs: dict[str, Any] = state if isinstance(state, dict) else {}
        self._calls: dict[str, Any] = {}
        self._approvals: dict[str, Any] = {}
        self._holder: dict[str, Any] = {}
        self._turn: dict[str, Any] = {}
        #: Whether it ended in this run.
        self._turn_is_news = False
        self._steps = 0
        self._open_step = ""
        self._open_texts: dict[str, None] = {}
        #: The message to which calls of the step belong.
        self._parent = ""

    @property
    def turn(self) -> Mapping[str, Any]:
        """How the turn ended that ended last in this run, {state, reason, final_answer}; empty while none did."""
        return self._turn if self._turn_is_news else {}

    def result(self, *, held: bool) -> Mapping[str, Any]:
        """Return what the run's end says: how its turn ended, and who answers where people hold the thread."""
        return {**self.turn, **({"holder": self._holder} if held else {})}

    def begin(self, thread_id: str, run_id: str, *, modern: bool) -> Event:
        """Return what begins a run; a client that does not name the protocol's version is not told it either."""
        version = {"protocolVersion": PROTOCOL} if modern else {}
        return {"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id, **version}

    def events(self, told: Move | Said) -> Iterator[Event]:
        """Yield the events of one move."""
        for event in self._events(told):
            self._transcript.add(event)
            yield event

    def hold(self, data: Mapping[str, Any]) -> Iterator[Event]:
        """Yield what tells who answers from now on: {state, operator, text}."""
        self._holder = {name: data[name] for name in ("state", "operator", "text")}
        yield self._changed("holder", "", self._holder)

    def snapshots(self, posted: list[Any]) -> Iterator[Event]:
        """Yield what the client needs of everything so far; its messages only where they differ from `posted`.

        What was open is closed: it belongs to other runs.
        """
        self._open_step, self._open_texts, self._turn_is_news = "", {}, False
        if self._transcript.differs(posted):
            yield self._transcript.snapshot(APPROVAL)
        yield self._state()

    def end(self) -> Iterator[Event]:
        """Yield what closes everything that is open."""
        yield from ({"type": "TEXT_MESSAGE_END", "messageId": text_id} for text_id in self._open_texts)
        self._open_texts = {}
        yield from self._end_step()

    def _events(self, told: Move | Said) -> Iterator[Event]:
        match told:
            case Said() | TextBegan() | TextWritten() | TextEnded():
                yield from self._words(told)
            case StepBegan():
                yield from self._begin_step()
            case StepEnded():
                yield from self._end_step()
            case CallMade():
                yield from self._call(told)
            case CardMoved():
                yield from self._card(told)
            case CallAnswered():
                yield from self._answer(told)
            case CallProgressed(call_id, fraction, text):
                told_now = {"status": "executing", "progress": {"text": text, "fraction": fraction}}
                self._calls[call_id] = {**self._calls[call_id], **told_now}
                yield self._changed("calls", call_id, self._calls[call_id])
            case OperatorSpoke(message_id, operator, text):
                yield from _message(message_id, "assistant", text, name=name_of(operator))
            case TurnEnded(end):
                self._turn = {name: end[name] for name in ("state", "reason", "final_answer") if end.get(name)}
                self._turn_is_news = True
                yield self._changed("turn", "", self._turn)

    def _words(self, told: Said | TextBegan | TextWritten | TextEnded) -> Iterator[Event]:
        match told:
            case Said(message_id, text):
                yield from _message(message_id, "user", text)
            case TextBegan(text_id):
                self._parent = text_id
                self._open_texts[text_id] = None
                yield {"type": "TEXT_MESSAGE_START", "messageId": text_id, "role": "assistant"}
            case TextWritten(text_id, text):
                yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": text_id, "delta": text}
            case TextEnded(text_id):
                self._open_texts.pop(text_id, None)
                yield {"type": "TEXT_MESSAGE_END", "messageId": text_id}

    def _begin_step(self) -> Iterator[Event]:
        yield from self._end_step()
        self._parent, self._steps = "", self._steps + 1
        if self._turn:
            yield from self._begin_turn()
        self._open_step = f"step-{self._steps}"
        yield {"type": "STEP_STARTED", "stepName": self._open_step}

    def _end_step(self) -> Iterator[Event]:
        if self._open_step:
            yield {"type": "STEP_FINISHED", "stepName": self._open_step}
            self._open_step = ""

    def _begin_turn(self) -> Iterator[Event]:
        """Forget what an earlier turn is done with: the state must not grow with the conversation."""
        self._turn, self._turn_is_news = {}, False
        self._calls = {call_id: call for call_id, call in self._calls.items() if "result" not in call}
        self._approvals = {key: card for key, card in self._approvals.items() if card["state"] == "pending"}
        yield self._state()

    def _call(self, made: CallMade) -> Iterator[Event]:
        call_id, arguments = made.call_id, {} if made.arguments is None else made.arguments
        text = _json(arguments)
        if self._transcript.edit(call_id, text):
            # What was streamed of a call cannot be taken back, but its message can be replaced.
            yield self._transcript.snapshot(APPROVAL)
        else:
            parent = {"parentMessageId": self._parent} if self._parent else {}
            self._parent = self._parent or call_id
            yield {"type": "TOOL_CALL_START", "toolCallId": call_id, "toolCallName": made.tool, **parent}
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": text}
            yield {"type": "TOOL_CALL_END", "toolCallId": call_id}
        self._calls[call_id] = {"tool": made.tool, "status": "proposed"}
        yield self._changed("calls", call_id, self._calls[call_id])

    def _card(self, moved: CardMoved) -> Iterator[Event]:
        card, approval_id = shown_card(moved.card), moved.approval_id
        yield {"type": "ACTIVITY_SNAPSHOT", "messageId": approval_id, "activityType": APPROVAL, "content": card}
        # The card has the arguments and words; the state says only how it stands.
        known = {"call_id": moved.call_id, "state": moved.state, "revision": card.get("revision")}
        self._approvals[approval_id] = known
        yield self._changed("approvals", approval_id, known)
        if not moved.answered:
            status = "pending_confirmation" if moved.state == "pending" else "decided"
            self._calls[moved.call_id] = {**self._calls[moved.call_id], "status": status}
            yield self._changed("calls", moved.call_id, self._calls[moved.call_id])

    def _answer(self, move: CallAnswered) -> Iterator[Event]:
        succeeded = move.kind in SUCCESSES
        content = move.result.get("data") if succeeded else {"result": move.kind, "error": move.error}
        blocks = {"ui_blocks": move.result["ui_blocks"]} if move.result.get("ui_blocks") else {}
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{move.call_id}.result",
            "toolCallId": move.call_id,
            "role": "tool",
            "content": content if isinstance(content, str) else _json(content),
            "metadata": {OURS: {"kind": move.kind, **blocks}},
        }
        status = "success" if succeeded else "error"
        self._calls[move.call_id] = {"tool": move.tool, "status": status, "result": move.kind}
        yield self._changed("calls", move.call_id, self._calls[move.call_id])

    def _state(self) -> Event:
        ours = {"turn": self._turn, "calls": self._calls, "approvals": self._approvals}
        ours |= {"holder": self._holder} if self._holder else {}
        return {"type": "STATE_SNAPSHOT", "snapshot": {**self._theirs, OURS: {k: dict(v) for k, v in ours.items()}}}

    @staticmethod
    def _changed(what: str, key: str, value: Any) -> Event:
        # Ids have no character that a JSON pointer would have to escape.
        path = f"/{OURS}/{what}/{key}" if key else f"/{OURS}/{what}"
        return {"type": "STATE_DELTA", "delta": [{"op": "add", "path": path, "value": value}]}


def interrupt_of(approval: Mapping[str, Any], problem: Mapping[str, Any] | None = None) -> Event:
    """Return what asks for a decision; its id names the very arguments that are shown.

    `approval` is a row of `read.approvals`; `problem` says why an answer to it did not count.
    """
    told = {"approval_id": approval["approval_id"], "reason": approval["reason"], "rule": approval["rule"]}
    interrupt: Event = {
        "id": f"{approval['approval_id']}.{approval['digest']}",
        "reason": "tool_call",
        "message": approval["summary"],
        "toolCallId": approval["call_id"],
        "responseSchema": ANSWER_SCHEMA,
        "metadata": {OURS: told | ({"problem": dict(problem)} if problem else {})},
    }
    expires_at: datetime = approval["expires_at"]
    # A clock that stands still has no end that could be named.
    return interrupt if approval["paused_at"] else interrupt | {"expiresAt": expires_at.isoformat()}


def finished(
    thread_id: str, run_id: str, result: Mapping[str, Any], interrupts: list[Event], *, modern: bool
) -> Iterator[Event]:
    """Yield what ends a run: asking where calls wait for people, else with its result.

    That is how its turn ended, and who answers in the agent's place; {} where no turn ended and nobody does.

    Clients from before version 1.0 know no interrupts: they are told of what waits in an event of ours.
    """
    if interrupts and not modern:
        yield {"type": "CUSTOM", "name": "placet.waiting", "value": interrupts}
    if not interrupts and result.get("state") == "failed":
        yield {"type": "RUN_ERROR", "message": result.get("reason") or "The turn failed.", "code": "turn-failed"}
        return
    end = {"type": "RUN_FINISHED", "threadId": thread_id, "runId": run_id} | (
        {"result": dict(result)} if result else {}
    )
    if modern:
        end["outcome"] = {"type": "interrupt", "interrupts": interrupts} if interrupts else {"type": "success"}
    yield end


def _message(message_id: str, role: str, text: str, **more: str) -> Iterator[Event]:
    """Yield a message that is there whole."""
    yield {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": role, **more}
    yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": text}
    yield {"type": "TEXT_MESSAGE_END", "messageId": message_id}


def _json(value: Any) -> str:
    # Sorted, because the store keeps no order: what streams now is the same when it is shown again.
    return json.dumps(value, separators=(",", ":"), sort_keys=True)

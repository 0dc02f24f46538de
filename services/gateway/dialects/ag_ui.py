"""AG-UI: a conversation's log as the events that `@ag-ui/client` and its like read. Pure.

A run begins with snapshots of everything before it, so its events tell only what is new. A call has one result, told
once: while people think, the approval is an activity of its own, and the run ends by asking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from placet.domain.approvers import name_of
from placet.gateway.conversations.items import SUCCESSES
from placet.gateway.dialects import changes
from placet.gateway.dialects.ag_ui_transcript import APPROVAL, OURS, Event, Transcript
from placet.gateway.dialects.changes import Call, Change, Data, shown_card
from placet.gateway.dialects.conversation_state import ConversationState, Entry
from placet.gateway.dialects.staged import leave_out_schema

PROTOCOL = "1.0"
#: What an answer to an interrupt may say.
ANSWER_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean", "description": "Your decision; left out, nothing is decided by this answer."},
        "reason": {"type": "string", "description": "Your words, for people and the model."},
    },
}


@dataclass(frozen=True)
class Goal:
    """What a run tells, and what must have happened before it ends."""

    thread_id: str
    run_id: str
    #: The messages that the client has, and the state that its application keeps.
    messages: Sequence[Any] = ()
    state: Any = None
    #: The message that the agent must have taken; empty where there is none.
    message_id: str = ""
    #: Whether it answers interrupts, in whatever way.
    resumes: bool = False
    #: Approvals that were decided just now.
    decided: frozenset[str] = frozenset()
    #: Answers that did not count: {interruptId, approval_id, kind, title, status, …}.
    refused: Sequence[Data] = ()
    #: Why the run ends at once: {kind, title, …}; empty where it does not.
    error: Data = field(default_factory=dict)
    #: Who answers, {state, operator, text}; empty for the agent. And how often that has changed.
    holder: Data = field(default_factory=dict)
    holder_revision: int = 0
    #: Whether the conversation has more than the run begins with.
    older: bool = False


@dataclass
class AgUiState:
    """A run, as far as it was told."""

    goal: Goal
    log: ConversationState = field(default_factory=ConversationState)
    transcript: Transcript = field(default_factory=Transcript)
    #: Our part of the shared state.
    turn: dict[str, Any] = field(default_factory=dict)
    calls: dict[str, Data] = field(default_factory=dict)
    approvals: dict[str, Data] = field(default_factory=dict)
    holder: dict[str, Any] = field(default_factory=dict)
    #: Whether the turn ended in this run.
    is_news: bool = False
    steps: int = 0
    open_step: str = ""
    open_text: str = ""
    #: The message to which calls of the step belong.
    parent: str = ""
    #: Whether its beginning was told, and how things stood then.
    began: bool = False
    is_open: bool = False
    done: bool = False

    def copy(self) -> AgUiState:
        """Return another one that has told the same."""
        log, transcript = self.log.copy(), self.transcript.copy()
        return replace(self, log=log, transcript=transcript, calls=dict(self.calls), approvals=dict(self.approvals))

    def read(self, entry: Entry) -> list[Event]:
        """Take an entry and return its events; what is older than the run makes the snapshots that it begins with."""
        events = []
        for change in self.log.read(entry):
            for event in self._events(change):
                self.transcript.add(event)
                events.append(event)
        return events if self.is_open else []

    @property
    def rests(self) -> bool:
        """Whether nothing follows until people decide or write, and all is told that was asked for."""
        log = self.log
        on_their_way = any(call.approval_id in self.goal.decided for call in log.waiting)
        moves = on_their_way or log.lags(self.goal.holder_revision)
        return self.is_open and log.rests and log.settled and not moves

    def settle(self) -> list[Event]:
        """Return what begins the run where it has not begun, and what ends it where nothing follows.

        It begins with how things stand when the client's message is in the log: it has that one already.
        """
        goal, events = self.goal, list[Event]()
        if not self.began:
            self.began = True
            place = {"threadId": goal.thread_id, "runId": goal.run_id}
            events.append({"type": "RUN_STARTED", **place, "protocolVersion": PROTOCOL})
        if not self.is_open and (not goal.message_id or self.log.knows(goal.message_id)):
            events += self._open()
        return events if self.done or not self.rests else [*events, *self._end()]

    def _open(self) -> Iterator[Event]:
        """Yield how things stand, and which answers did not count."""
        goal, self.is_open = self.goal, True
        # What is open belongs to other runs.
        self.open_step, self.open_text, self.is_news = "", "", False
        if goal.holder and not self.holder:
            self.holder = _shown_holder(goal.holder)
        if self.transcript.differs(goal.messages):
            yield self.transcript.snapshot(older=self.goal.older)
        yield self._state()
        yield from ({"type": "CUSTOM", "name": "placet.refused", "value": dict(each)} for each in goal.refused)
        if goal.error:
            yield from self._fail(str(goal.error["title"]), str(goal.error["kind"]))

    def let_go(self) -> Iterator[Event]:
        """Yield what ends the run before its end."""
        yield from self._fail("The stream was let go; run again to go on.", "let-go")

    def _end(self) -> Iterator[Event]:
        """Yield what ends the run: asking where calls wait for people, else with its result."""
        if self.is_news and self.turn.get("state") == "failed" and not self.log.waiting:
            yield from self._fail(self.turn.get("reason") or "The turn failed.", "turn-failed")
        else:
            yield from self._finish()

    def _fail(self, message: str, code: str) -> Iterator[Event]:
        """Yield what ends the run with an error.

        A client forgets no question until a run finishes, answered or not, and posts nothing meanwhile. So one that
        answers some finishes first, with what still waits.
        """
        self.done = True
        yield from self._finish() if self.began and self.goal.resumes else self._close()
        yield {"type": "RUN_ERROR", "message": message, "code": code}

    def _finish(self) -> Iterator[Event]:
        self.done = True
        yield from self._close()
        problems = {str(each.get("approval_id")): each for each in self.goal.refused}
        waiting = [call for call in self.log.waiting if call.approval_id not in self.goal.decided]
        asked = [interrupt_of(call, problems.get(call.approval_id)) for call in waiting]
        turn = self.turn if self.is_news else {}
        held = {"holder": self.holder} if self.holder.get("state", "agent") != "agent" else {}
        result = {"result": {**turn, **held}} if turn or held else {}
        outcome = {"type": "interrupt", "interrupts": asked} if asked else {"type": "success"}
        place = {"threadId": self.goal.thread_id, "runId": self.goal.run_id}
        yield {"type": "RUN_FINISHED", **place, **result, "outcome": outcome}

    def _events(self, change: Change) -> Iterator[Event]:
        match change:
            case changes.UserSpoke(message_id, text):
                yield from _message(message_id, "user", text)
            case changes.OperatorSpoke(message_id, operator, text):
                yield from _message(message_id, "assistant", text, name=name_of(operator))
            case changes.HolderMoved(holder):
                self.holder = _shown_holder(holder)
                yield _changed("holder", "", self.holder)
            case changes.ReplyBegan():
                yield from self._forget()
            case changes.StepBegan():
                self.parent, self.steps = "", self.steps + 1
                self.open_step = f"step-{self.steps}"
                yield {"type": "STEP_STARTED", "stepName": self.open_step}
            case changes.StepEnded():
                yield from self._end_step()
            case changes.Text():
                yield from self._text(change)
            case changes.TurnEnded(_, end):
                self.turn = changes.shown_end(end)
                self.is_news = True
                yield _changed("turn", "", self.turn)
            case _:
                yield from self._of_call(change)

    def _of_call(self, change: Change) -> Iterator[Event]:
        match change:
            case changes.CallMade(_, call):
                yield from self._call(call)
            case changes.CardMoved(_, call):
                yield from self._card(call)
            case changes.CallAnswered():
                yield from self._answer(change)
            case changes.CallProgressed(_, call_id, fraction, text):
                now = {"status": "executing", "progress": {"text": text, "fraction": fraction}}
                yield self._stands(call_id, {**self.calls.get(call_id, {}), **now})

    def _forget(self) -> Iterator[Event]:
        """Forget what an earlier turn is done with: the state must not grow with the conversation."""
        if self.turn:
            self.turn, self.is_news = {}, False
            self.calls = {call_id: call for call_id, call in self.calls.items() if "result" not in call}
            self.approvals = {key: card for key, card in self.approvals.items() if card["state"] == "pending"}
            yield self._state()

    def _end_step(self) -> Iterator[Event]:
        if self.open_step:
            yield {"type": "STEP_FINISHED", "stepName": self.open_step}
            self.open_step = ""

    def _text(self, text: changes.Text) -> Iterator[Event]:
        # What was given up is taken back, so each attempt has the id of the message that is stored.
        message_id = text.text_id.partition("#")[0]
        if text.begins or (text.text and self.open_text != message_id):
            # What a run was begun in the middle of, it begins too: its client goes on with what it was shown.
            self.open_text = message_id
            yield {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"}
        if text.text:
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": text.text}
        if text.ends:
            self.parent = message_id if text.counts else ""
            yield from self._end_text()
        if not text.counts:
            self.transcript.drop(message_id)
            yield self.transcript.snapshot(older=self.goal.older)

    def _close(self) -> Iterator[Event]:
        if self.is_open:
            yield from self._end_text()
            yield from self._end_step()

    def _end_text(self) -> Iterator[Event]:
        if self.open_text:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self.open_text}
            self.open_text = ""

    def _call(self, call: Call) -> Iterator[Event]:
        text = _json({} if call.arguments is None else call.arguments)
        if self.transcript.edit(call.call_id, text):
            # What was streamed of a call cannot be taken back, but its message can be replaced.
            yield self.transcript.snapshot(older=self.goal.older)
        else:
            parent = {"parentMessageId": self.parent} if self.parent else {}
            self.parent = self.parent or call.call_id
            yield {"type": "TOOL_CALL_START", "toolCallId": call.call_id, "toolCallName": call.tool, **parent}
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call.call_id, "delta": text}
            yield {"type": "TOOL_CALL_END", "toolCallId": call.call_id}
        if not call.kind:
            yield self._stands(call.call_id, {"tool": call.tool, "status": "proposed"})

    def _card(self, call: Call) -> Iterator[Event]:
        card, approval_id, state = shown_card(call.card), call.approval_id, str(call.card["state"])
        yield {"type": "ACTIVITY_SNAPSHOT", "messageId": approval_id, "activityType": APPROVAL, "content": card}
        # The card has the arguments and words; the state says only how it stands.
        known = {"call_id": call.call_id, "state": state, "revision": card.get("revision")}
        self.approvals[approval_id] = known
        yield _changed("approvals", approval_id, known)
        if not call.kind:
            status = "pending_confirmation" if state == "pending" else "decided"
            yield self._stands(call.call_id, {**self.calls.get(call.call_id, {}), "status": status})

    def _answer(self, answered: changes.CallAnswered) -> Iterator[Event]:
        call, result = answered.call, answered.result
        succeeded = call.kind in SUCCESSES
        content = result.get("data") if succeeded else {"result": call.kind, "error": answered.error}
        blocks = {"ui_blocks": result["ui_blocks"]} if result.get("ui_blocks") else {}
        yield {
            "type": "TOOL_CALL_RESULT",
            "messageId": f"{call.call_id}.result",
            "toolCallId": call.call_id,
            "role": "tool",
            "content": content if isinstance(content, str) else _json(content),
            "metadata": {OURS: {"kind": call.kind, **blocks}},
        }
        status = "success" if succeeded else "error"
        yield self._stands(call.call_id, {"tool": call.tool, "status": status, "result": call.kind})

    def _stands(self, call_id: str, stands: Data) -> Event:
        self.calls[call_id] = stands
        return _changed("calls", call_id, stands)

    def _state(self) -> Event:
        theirs = self.goal.state if isinstance(self.goal.state, dict) else {}
        ours: dict[str, Any] = {"turn": self.turn, "calls": dict(self.calls), "approvals": dict(self.approvals)}
        ours |= {"holder": self.holder} if self.holder else {}
        return {"type": "STATE_SNAPSHOT", "snapshot": {**theirs, OURS: ours}}


def interrupt_of(call: Call, problem: Data | None = None) -> Event:
    """Return what asks for a decision; its id names the very arguments that are shown.

    `problem` says why an answer to it did not count. Until when it may be answered is no `expiresAt`: after that a
    client takes no answer, not even one that only looks what became of it, and no message beside it.
    """
    card = call.card
    told: dict[str, Any] = {"approval_id": call.approval_id, "reason": card.get("reason", "")}
    told |= {"expires_at": card["expires_at"]} if card.get("expires_at") else {}
    if problem:
        told["problem"] = {name: each for name, each in problem.items() if name not in {"interruptId", "approval_id"}}
    return {
        "id": f"{call.approval_id}.{card.get('digest', '')}",
        "reason": "tool_call",
        "message": card.get("summary", ""),
        "toolCallId": call.call_id,
        "responseSchema": {**ANSWER_SCHEMA, "properties": {**ANSWER_SCHEMA["properties"], **leave_out_schema(card)}},
        "metadata": {OURS: told},
    }


def _message(message_id: str, role: str, text: str, **more: str) -> Iterator[Event]:
    """Yield a message that is there whole."""
    yield {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": role, **more}
    yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": text}
    yield {"type": "TEXT_MESSAGE_END", "messageId": message_id}


def _changed(what: str, key: str, value: Any) -> Event:
    # Ids have no character that a JSON pointer would have to escape.
    path = f"/{OURS}/{what}/{key}" if key else f"/{OURS}/{what}"
    return {"type": "STATE_DELTA", "delta": [{"op": "add", "path": path, "value": value}]}


def _shown_holder(holder: Data) -> dict[str, Any]:
    return {name: holder[name] for name in ("state", "operator", "text")}


def _json(value: Any) -> str:
    # Sorted, because the store keeps no order: what streams now is the same when it is shown again.
    return json.dumps(value, separators=(",", ":"), sort_keys=True)

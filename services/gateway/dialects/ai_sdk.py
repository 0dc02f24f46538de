"""The Vercel AI SDK's UI message stream: a conversation's log as the chunks that `useChat` reads. Pure.

One stream tells one reply. It ends where the reply is over or waits for people, because the SDK posts no answer while a
stream is open, and none while a call of the newest step runs: so what people are asked in jobs is a step of its own.
Clients of version 6 end a stream with an error at a chunk they do not know, so `tool-approval-response` goes to clients
of version 7 only. What no version has a chunk for travels as `data-…` parts, which all of them keep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from placet.gateway.conversations.items import SUCCESSES
from placet.gateway.dialects import changes
from placet.gateway.dialects.changes import Call, Change, Data, OfReply, shown_card
from placet.gateway.dialects.conversation_state import ConversationState, Entry

Chunk = dict[str, Any]
Version = Literal["6", "7"]

#: States of a turn -> finish reasons of the SDK.
_FINISH = {"finished": "stop", "failed": "error"}


@dataclass(frozen=True)
class Seen:
    """What a client shows of a reply that it wants gone on with."""

    steps: int = 0
    #: Also those that the model gave up, which no log has.
    texts: tuple[str, ...] = ()
    #: Call -> the arguments that are shown; and the calls whose result is.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    answered: frozenset[str] = frozenset()
    #: Approval -> digest of the call whose request is shown.
    requested: Mapping[str, str] = field(default_factory=dict)
    #: Approval -> what the user said to it.
    responded: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal:
    """What a stream tells, and what must have happened before it ends."""

    version: Version = "6"
    #: The reply that is told; where it is not known yet, the one to this message of the user.
    reply_id: str = ""
    message_id: str = ""
    #: Number of the newest item when the stream was asked for: it does not end before that one.
    newest: int = 0
    seen: Seen = field(default_factory=Seen)
    #: Approvals that were decided just now: the stream does not end before their calls have results.
    decided: frozenset[str] = frozenset()
    #: Answers that did not count: approval -> {title, status, kind}.
    refused: Mapping[str, Data] = field(default_factory=dict)
    #: Why the stream ends with an error although the reply does not; empty for none.
    fault: str = ""
    #: Who answers, {state, operator, text}; empty for the agent.
    holder: Data = field(default_factory=dict)


class Writer:
    """What a client was told of one reply, and the chunks of what comes next."""

    def __init__(self, version: Version, seen: Seen) -> None:
        self.version: Version = version
        self.began = self.in_step = False
        #: Whether the step is one of calls in jobs.
        self.in_job = False
        self.steps = 0
        #: Call -> the step in which it was told: told again in another one, it would be another call to the SDK.
        self.made: dict[str, int] = {}
        #: Approval -> digest of the call in the request; and what the client has as the decision.
        self.requested = dict(seen.requested)
        self.responded = dict(seen.responded)
        #: Calls that the client shows, whose shown arguments have been told again.
        self.met: frozenset[str] = frozenset()
        #: Text that the client shows -> how often it was not told again so far.
        self.shown = dict(Counter(seen.texts))
        #: Results of calls whose approval's end is still to come.
        self.results: dict[str, changes.CallAnswered] = {}
        #: How the reply's newest turn ended; empty while none has.
        self.end: Data = {}
        self._seen = seen

    def copy(self) -> Writer:
        """Return another one that has told the same."""
        made = Writer(self.version, self._seen)
        known = {name: dict(getattr(self, name)) for name in ("made", "requested", "responded", "results", "shown")}
        made.__dict__ |= self.__dict__ | known
        return made

    def chunks(self, change: OfReply, *, waits: bool) -> Iterator[Chunk]:
        """Yield the chunks of one change; `waits`: a call of the reply waits for people, so no other step may begin."""
        match change:
            case changes.StepBegan(_, aside) if not (self.in_step and (waits or aside)):
                yield from self._begin_step()
            case changes.StepEnded(_, aside) if not (waits or aside):
                yield from self._end_step()
            case changes.Text():
                yield from self._text(change)
            case changes.TurnEnded(_, end):
                self.end = end
                if reason := failure_of(end):
                    data = {"reason": reason, **({"limit": end["limit"]} if end.get("limit") else {})}
                    yield {"type": "data-failure", "id": str(end["turn_id"]), "data": data}
            case _:
                yield from self._of_call(change)

    def _of_call(self, change: OfReply) -> Iterator[Chunk]:
        match change:
            case changes.CallMade(_, call) if call.caller and call.call_id not in self.made and not self.in_job:
                yield from self._begin_step(in_job=True)
                yield from self._of_call(change)
            case changes.CallMade(_, call) if self._is_here(call) and self._is_news(call):
                made = {"toolCallId": call.call_id, "toolName": call.tool, "dynamic": True}
                yield {"type": "tool-input-available", **made, "input": _input(call)}
            case changes.CardMoved(_, call) if call.call_id not in self._seen.answered:
                yield from self._card(call)
                if call.card["state"] != "pending" and (answered := self.results.pop(call.call_id, None)):
                    yield from self._answer(replace(answered, call=call))
            case changes.CallProgressed(_, call_id, fraction, text):
                report = {"call_id": call_id, "fraction": fraction, "text": text}
                # Transient: it goes to `onData`, and no message keeps how far a call once was.
                yield {"type": "data-progress", "id": call_id, "data": report, "transient": True}
            case changes.CallAnswered(_, call) if call.call_id not in self._seen.answered:
                if call.card.get("state") == "pending":
                    # It took another way than the decision, which must be told first.
                    self.results[call.call_id] = change
                else:
                    yield from self._answer(change)

    def close(self, waiting: Iterable[Call]) -> Iterator[Chunk]:
        """Yield what ends the stream: requests for what waits, and the end of what is open."""
        asks = False
        for call in waiting:
            asks = True
            if self.requested.get(call.approval_id) != call.card.get("digest") or call.approval_id in self.responded:
                yield self._request(call)
                yield _approval_part(call)
        yield from self._end_step()
        told = changes.shown_end(self.end)
        reason = "tool-calls" if asks or not self.end else _FINISH.get(str(self.end["state"]), "other")
        yield {"type": "finish", "finishReason": reason, **({"messageMetadata": told} if told else {})}
        if failed := failure_of(self.end):
            yield {"type": "error", "errorText": failed}

    def _is_news(self, call: Call) -> bool:
        """Whether the client does not show a call as it is: of one that it shows only later edits are news."""
        if call.call_id in self._seen.answered:
            return False
        if call.call_id not in self._seen.arguments:
            return True
        if call.call_id in self.met:
            # The SDK looks for a call in the newest step alone: elsewhere it would make a second part of it.
            return self.steps >= self._seen.steps
        if self._seen.arguments[call.call_id] == _input(call):
            self.met |= {call.call_id}
        return False

    def _is_here(self, call: Call) -> bool:
        return self.made.setdefault(call.call_id, self.steps) == self.steps

    def _begin_step(self, *, in_job: bool = False) -> Iterator[Chunk]:
        yield from self._end_step()
        self.steps, self.in_step, self.in_job = self.steps + 1, True, in_job
        if self.steps > self._seen.steps:
            yield {"type": "start-step"}

    def _end_step(self) -> Iterator[Chunk]:
        if self.in_step and self.steps > self._seen.steps:
            yield {"type": "finish-step"}
        self.in_step = False

    def _text(self, text: changes.Text) -> Iterator[Chunk]:
        # What is told again comes whole, from the log.
        if text.begins and text.ends and self.shown.get(text.text):
            self.shown[text.text] -= 1
            return
        if text.begins:
            yield {"type": "text-start", "id": text.text_id}
        if text.text:
            yield {"type": "text-delta", "id": text.text_id, "delta": text.text}
        if text.ends:
            yield {"type": "text-end", "id": text.text_id}

    def _card(self, call: Call) -> Iterator[Chunk]:
        state, requested = call.card["state"], self.requested.get(call.approval_id)
        if state == "pending":
            # Version 6 cannot be told of a decision, so it is asked only where the stream ends by asking.
            if self.version == "7" and requested != call.card.get("digest"):
                yield self._request(call)
        elif requested is not None:
            yield from self._respond(call, approved=state == "approved")
        yield _approval_part(call)

    def _request(self, call: Call) -> Chunk:
        self.requested[call.approval_id] = str(call.card.get("digest", ""))
        self.responded.pop(call.approval_id, None)
        request: Chunk = {"type": "tool-approval-request", "approvalId": call.approval_id, "toolCallId": call.call_id}
        request["approvalDescriptor"] = shown_card(call.card)
        return request | ({"reason": str(call.card.get("reason", ""))} if self.version == "7" else {})

    def _respond(self, call: Call, *, approved: bool) -> Iterator[Chunk]:
        """Yield the decision where the client has another one, or none; only version 7 can be told."""
        if self.version == "7" and self.responded.get(call.approval_id) != approved:
            # Where the page said the other thing, its reason is taken back too.
            said = call.approval_id in self.responded
            self.responded[call.approval_id] = approved
            words = str(call.card.get("decision_reason") or ("" if approved else call.card["state"]))
            told = {"approvalId": call.approval_id, "approved": approved}
            yield {"type": "tool-approval-response", **told, **({"reason": words} if words or said else {})}

    def _answer(self, answered: changes.CallAnswered) -> Iterator[Chunk]:
        call, result = answered.call, answered.result
        told: Chunk = {"toolCallId": call.call_id}
        if call.kind in SUCCESSES:
            yield {"type": "tool-output-available", **told, "output": result.get("data"), "dynamic": True}
        elif call.card.get("state") != "approved" and self.responded.get(call.approval_id) is False:
            yield {"type": "tool-output-denied", **told}
        else:
            words = call.card.get("decision_reason") or answered.error
            error = f"Denied: {words}" if call.kind == "denied" else answered.error
            yield {"type": "tool-output-error", **told, "errorText": error, "dynamic": True}
        if call.kind not in SUCCESSES:
            why = {"call_id": call.call_id, "kind": call.kind, "error": answered.error}
            yield {"type": "data-tool-result", "id": call.call_id, "data": why}
        if blocks := result.get("ui_blocks"):
            yield {"type": "data-ui-blocks", "id": call.call_id, "data": {"call_id": call.call_id, "blocks": blocks}}


@dataclass
class AiSdkState:
    """A stream, as far as it was told."""

    goal: Goal
    writer: Writer
    log: ConversationState = field(default_factory=ConversationState)
    done: bool = False

    @property
    def reply_id(self) -> str:
        """The reply that is told; empty while it has not begun."""
        return self.goal.reply_id or self.log.replies.get(self.goal.message_id, "")

    @property
    def is_known(self) -> bool:
        """Whether the log tells of the reply."""
        turns = {turn.reply_id for turn in self.log.turns.values()}
        return self.reply_id in turns.union(self.log.replies.values())

    @property
    def calls(self) -> list[Call]:
        """The reply's calls."""
        return [call for call in self.log.calls.values() if call.reply_id == self.reply_id]

    @property
    def waiting(self) -> list[Call]:
        """Those that people are asked to decide."""
        return [call for call in self.calls if call.waits]

    @property
    def is_tellable(self) -> bool:
        """Whether a replay says what the history says: version 6 has no chunk for a no that the page did not give."""
        says_no = (
            call.kind and call.kind not in SUCCESSES and call.card.get("state", "approved") != "approved"
            for call in self.calls
        )
        return self.goal.version == "7" or not any(says_no)

    @property
    def rests(self) -> bool:
        """Whether nothing of the reply follows until people decide or write."""
        log, decided = self.log, self.goal.decided
        if not self.reply_id:
            # Where people have decided what it waits for, the turn goes on, and its answer follows.
            on_their_way = any(call.approval_id in decided for call in log.waiting)
            return log.rests and not on_their_way and log.unanswered.get(self.goal.message_id, False)
        if (log.running and log.running.reply_id == self.reply_id) or self.reply_id in log.untold:
            return False
        if self.writer.results:
            # The end of its card is still to come, and the result is told behind that.
            return False
        # What ran when its turn was stopped is told with the next message.
        stopped = {turn_id for turn_id, turn in log.turns.items() if turn.state == "stopped"}
        runs = (log.runs(call) and call.turn_id not in stopped for call in self.calls)
        return not any(runs) and not any(call.approval_id in decided for call in self.calls if not call.kind)

    def copy(self) -> AiSdkState:
        """Return another one that has told the same."""
        return replace(self, writer=self.writer.copy(), log=self.log.copy())

    def read(self, entry: Entry) -> list[Chunk]:
        """Take an entry and return its chunks."""
        return [chunk for change in self.log.read(entry) for chunk in self._tell(change)]

    def settle(self) -> list[Chunk]:
        """Return what ends the stream, where the reply is over or waits for people."""
        return list(self._end()) if not self.done and self.log.seq >= self.goal.newest and self.rests else []

    def _tell(self, change: Change) -> Iterator[Chunk]:
        match change:
            case changes.HolderMoved(holder) if self.log.seq > self.goal.newest:
                yield holder_part(holder)
            case changes.OperatorSpoke() if not self.reply_id and self.log.seq > self.goal.newest:
                self.done = True
                yield {"type": "start", "messageId": change.message_id}
                yield from operators_words(change)
            case changes.UserSpoke() | changes.OperatorSpoke() | changes.HolderMoved():
                pass
            case _ if change.reply_id == self.reply_id:
                yield from self._start()
                yield from self.writer.chunks(change, waits=any(map(self.log.asks, self.calls)))

    def _start(self) -> Iterator[Chunk]:
        if not self.writer.began:
            self.writer.began = True
            yield {"type": "start", "messageId": self.reply_id}
            for approval_id, problem in self.goal.refused.items():
                data = {"approval_id": approval_id, **problem}
                yield {"type": "data-approval-problem", "id": approval_id, "data": data}

    def _end(self) -> Iterator[Chunk]:
        holder = self.log.holder or self.goal.holder
        if self.reply_id:
            yield from self._start()
            yield from self.writer.close(self.waiting)
            if self.goal.fault:
                yield {"type": "error", "errorText": self.goal.fault}
        elif holder.get("state", "agent") == "agent" or self.log.waiting:
            yield {"type": "data-waiting", "data": {"message_id": self.goal.message_id}, "transient": True}
        else:
            # Nothing can be decided on the page, so it may stay and hear what the operator says.
            return
        self.done = True


def begin(goal: Goal) -> AiSdkState:
    """Return the state of a stream that has told nothing yet."""
    return AiSdkState(goal, Writer(goal.version, goal.seen))


def operators_words(spoke: changes.OperatorSpoke) -> Iterator[Chunk]:
    """Yield what a person said, whole at once: a message of its own."""
    text_id = spoke.message_id
    yield {"type": "start-step"}
    yield {"type": "data-operator", "id": text_id, "data": {"operator": spoke.operator}}
    yield {"type": "text-start", "id": text_id}
    yield {"type": "text-delta", "id": text_id, "delta": spoke.text}
    yield {"type": "text-end", "id": text_id}
    yield {"type": "finish-step"}
    told = {"state": "finished", "operator": spoke.operator}
    yield {"type": "finish", "finishReason": "stop", "messageMetadata": told}


def holder_part(holder: Data) -> Chunk:
    """Return what tells, in no message, who answers from now on; clients pass it to `onData` and keep it nowhere."""
    told = {name: holder[name] for name in ("state", "operator", "text")}
    return {"type": "data-holder", "data": told, "transient": True}


def failure_of(end: Data) -> str:
    """Return why a turn failed; empty where it did not."""
    return str(end.get("reason") or "The turn failed.") if end.get("state") == "failed" else ""


def _approval_part(call: Call) -> Chunk:
    """Return the part that shows how an approval stands, in place of the one before."""
    return {"type": "data-approval", "id": call.approval_id, "data": shown_card(call.card)}


def _input(call: Call) -> Any:
    return {} if call.arguments is None else call.arguments

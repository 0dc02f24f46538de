"""What is stored of a conversation, what happened to it since it was loaded, and how that is noted. Pure.

Also how a held call holds its turn, and when the turn goes on without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from placet.agent import accomplish, items
from placet.agent.attempts import Attempt
from placet.agent.items import Data, ItemType
from placet.agent.rules import Behaviour, Claim, Queued
from placet.agent.staging import StagedEntry
from placet.agent.states import CALL_MACHINE, MACHINE, CallEvent, CallState, Event, State
from placet.contracts import messages as m
from placet.contracts.canonical import data_digest
from placet.contracts.errors import Poison
from placet.contracts.messages import ACCOMPLISH_TOOL, ApprovalRule, Message
from placet.runtime.work import Cause, Change

#: When the model may go on without the result of a held call: as soon as it is held, or when its requester writes.
Held = Literal["at_once", "on_message"]
#: What its requester's next message does where the turn waits for a call: it waits too, or takes the call's place.
NextMessage = Literal["wait", "supersede"]


@dataclass(slots=True)
class Turn:
    """A turn as it is stored."""

    turn_id: str
    state: State
    step: int
    fence: int
    takeovers: int
    message_id: str
    author: dict[str, str]
    cause: dict[str, str]
    paused: bool = False
    #: Whether its worker said nothing for the time of its lease.
    lost: bool = False
    reason: str = ""
    final_answer: dict[str, Any] | None = None
    stopped_number: int | None = None


def result_detail(kind: str, result: Any) -> dict[str, str]:
    """Return what the history says of a result: its kind, and the digest of what is stored."""
    return {"kind": kind, "result_digest": data_digest(result)}


@dataclass(slots=True)
class Call:
    """A tool call as it is stored."""

    call_id: str
    turn_id: str
    step: int
    tool: str
    #: The person's message that its turn answered then.
    message_id: str
    state: CallState = CALL_MACHINE.initial
    result_kind: str | None = None
    held: Held | None = None
    next_message: NextMessage | None = None
    approval_id: str | None = None
    approval_revision: int = 0
    #: Whether it waits for people now.
    undecided: bool = False
    told_number: int | None = None
    #: Of the job that it began: call -> its approval while people are asked about it, empty once they are not.
    cards: dict[str, str] | None = None
    #: Whether a person found out what became of it.
    known: bool = False
    #: Of its turn.
    author: dict[str, str] = field(default_factory=dict)
    cause: dict[str, str] = field(default_factory=dict)
    #: The result that it was given just now.
    result: dict[str, Any] | None = None

    @property
    def names(self) -> dict[str, str]:
        """What every item about it says."""
        return {"call_id": self.call_id, "turn_id": self.turn_id, "tool": self.tool}

    @property
    def asked(self) -> dict[str, str]:
        """What people are asked in the job that it began: call -> approval."""
        return {call_id: approval_id for call_id, approval_id in (self.cards or {}).items() if approval_id}


@dataclass(slots=True)
class ConversationState:
    """A conversation, and what happened to it since it was loaded."""

    conversation_id: str
    tenant: str
    #: Empty until its first message came.
    agent: str = ""
    language: str = "en"
    labels: dict[str, str] = field(default_factory=dict)
    ended: bool = False
    held: bool = False
    holder_revision: int = 0
    holder_told: int = 0
    log_seq: int = 0
    version: int = 0
    turn_id: str | None = None
    #: Whether it has no row yet.
    is_new: bool = False
    #: The turn that goes on, and those that were asked for.
    turns: dict[str, Turn] = field(default_factory=dict)
    #: The calls of the turn that goes on, and those that were asked for.
    calls: dict[str, Call] = field(default_factory=dict)
    #: What waits for a turn, also while people hold the conversation.
    queue: list[Queued] = field(default_factory=list)
    #: Entries that wait in workspaces, in their order.
    staged: list[StagedEntry] = field(default_factory=list)
    #: Texts of those messages that were asked for and are there.
    known: dict[str, str] = field(default_factory=dict)
    #: Where it is an attempt of a job, and whether that changed.
    attempt: Attempt | None = None
    attempt_changed: bool = False
    stored: set[str] = field(init=False)

    #: What the work goes back to; set before each thing that happens.
    cause: Cause = field(default_factory=Cause)
    items: list[tuple[ItemType, Data]] = field(default_factory=list)
    emitted: list[tuple[Message, Cause]] = field(default_factory=list)
    changes: list[tuple[Change, Cause]] = field(default_factory=list)
    #: Claims to work on, and turns to leave alone.
    begun: list[Claim] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    #: Rows to store: of messages by id, also what changes of those that were there; and the others.
    new_messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    moved_messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    new_steps: list[dict[str, Any]] = field(default_factory=list)
    new_calls: list[dict[str, Any]] = field(default_factory=list)
    new_facts: list[dict[str, Any]] = field(default_factory=list)
    changed_turns: dict[str, Turn] = field(default_factory=dict)
    changed_calls: dict[str, Call] = field(default_factory=dict)
    changed_staged: dict[str, StagedEntry] = field(default_factory=dict)
    #: Entries that wait no more.
    gone_staged: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Know what is there."""
        self.stored = set(self.known)

    @property
    def place(self) -> dict[str, str]:
        """What every message about it says."""
        return {"tenant": self.tenant, "conversation_id": self.conversation_id}

    @property
    def turn(self) -> Turn | None:
        """The turn that goes on."""
        return self.turns[self.turn_id] if self.turn_id else None

    def of(self, turn: Turn) -> Claim:
        """Return the claim of a turn as it is now."""
        ids = (self.tenant, self.agent, self.conversation_id, turn.turn_id)
        return Claim(*ids, turn.step, turn.fence, turn.message_id, turn.author, turn.cause)

    def _call(self, call_id: str) -> Call:
        if (call := self.calls.get(call_id)) is None:
            raise Poison(f"call {call_id} was never proposed in conversation {self.conversation_id}")
        return call

    def _of_turn(self, turn: Turn) -> list[Call]:
        return [call for call in self.calls.values() if call.turn_id == turn.turn_id]

    def _open_calls(self, turn: Turn) -> list[Call]:
        return [call for call in self._of_turn(turn) if call.state is CallState.OPEN]

    def _queued(self) -> list[Queued]:
        """Return what waits for a turn; nothing does while people hold the conversation."""
        return [] if self.held else self.queue

    def _note_step(
        self, claim: Claim, raw: dict[str, Any], *, model: str = "", input_tokens: int = 0, output_tokens: int = 0
    ) -> None:
        """Store what was said in a step, by a model or in its stead."""
        self.new_steps.append(
            {
                "turn_id": claim.turn_id,
                "step": claim.step,
                "message_id": claim.assistant_message_id,
                "raw": raw,
                "model": model,
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
            }
        )

    def _append(self, kind: ItemType, data: Data) -> Data:
        self.log_seq += 1
        data = items.storable_item(data)
        self.items.append((kind, data))
        return data

    def _tell(self, kind: ItemType, data: Data) -> None:
        """Append an item that the conversation also hears of for which this one works."""
        self._surface(kind, self._append(kind, data))

    def _surface(self, kind: ItemType, data: Data) -> None:
        if self.attempt is not None and self.attempt.caller is not None:
            self._emit(m.CallSurfaced(tenant=self.tenant, **self.attempt.caller, kind=kind, data=data))

    def _surface_end(self, call: Call, result: Data) -> None:
        """Tell how a call ended that people were asked about."""
        if call.approval_id is not None:
            self._surface("tool_call", result)

    def _cancel_jobs(self, call_ids: Sequence[str]) -> None:
        """Let nobody go on with the jobs of those of these calls that people do not think about."""
        known = [self.calls[each] for each in call_ids if each in self.calls]
        for call in known:
            if call.tool == ACCOMPLISH_TOOL and not call.undecided:
                self._cancel_job(call.call_id)

    def _cancel_job(self, call_id: str) -> None:
        job_id = accomplish.job_id(self.tenant, call_id)
        self._emit(m.CancelJob(tenant=self.tenant, job_id=job_id, by=accomplish.CALLER))

    def _emit(self, message: Message) -> None:
        self.emitted.append((message, self.cause))

    def _store(self, message_id: str, text: str, queued: Queued, *, number: int, call_id: str | None = None) -> None:
        """Keep something that the model has not heard of."""
        self.queue.append(queued)
        self.new_messages[message_id] = {
            "message_id": message_id,
            "number": number,
            "text": text,
            "author": queued.author,
            "cause": queued.cause,
            "turn_id": None,
            "step": None,
            "call_id": call_id,
            "by_operator": False,
        }

    def _change_message(self, message_id: str, **values: Any) -> None:
        """Note what changes of a message: its `turn_id` and `step`, its `number`, or that it is `by_operator`."""
        if (new := self.new_messages.get(message_id)) is not None:
            new |= values
            return
        row = {"message_id": message_id, "turn_id": None, "step": None, "number": None, "by_operator": False}
        self.moved_messages[message_id] = self.moved_messages.get(message_id, row) | values

    def _give(self, run: Iterable[Queued], turn: Turn) -> None:
        """Let a turn see what waited, from its present step on."""
        for each in list(run):
            self.queue.remove(each)
            self._change_message(each.message_id, turn_id=turn.turn_id, step=turn.step)

    def _end_staged(self, entries: Iterable[StagedEntry]) -> None:
        """Note that entries wait no more."""
        for each in list(entries):
            self.staged.remove(each)
            self.changed_staged.pop(each.call_id, None)
            self.gone_staged.append(each.call_id)

    def _move(self, turn: Turn, event: Event, detail: dict[str, Any]) -> None:
        before, turn.state = turn.state, MACHINE.next_state(turn.state, event)
        self.changed_turns[turn.turn_id] = turn
        self._record_turn(turn, event, before, detail)

    def _move_call(self, call: Call, event: CallEvent, detail: dict[str, Any]) -> None:
        before, call.state = call.state, CALL_MACHINE.next_state(call.state, event)
        self.changed_calls[call.call_id] = call
        self._record_call(call, event, before, detail)

    def _record_turn(self, turn: Turn, event: str, before: State | None, detail: dict[str, Any]) -> None:
        ids = (turn.turn_id, event, before, turn.state, "agent", None)
        about = {"conversation_id": self.conversation_id}
        self.changes.append((Change(self.tenant, MACHINE.name, *ids, detail, about), self.cause))

    def _record_call(self, call: Call, event: str, before: CallState | None, detail: dict[str, Any]) -> None:
        ids = (call.call_id, event, before, call.state, "agent", call.call_id)
        about = {"conversation_id": self.conversation_id, "turn_id": call.turn_id}
        if call.approval_id is not None:
            about["approval_id"] = call.approval_id
        self.changes.append((Change(self.tenant, CALL_MACHINE.name, *ids, detail, about), self.cause))


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

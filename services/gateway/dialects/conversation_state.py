"""What a conversation's log says so far, and what each entry made: the one reader of every dialect. Pure.

The agent guarantees the order of items. Only deltas, which take another way, may come early, twice or never: each is
kept until the step that it belongs to is the one being written, and the stored message fills every gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

from placet.contracts.messages import ACCOMPLISH_TOOL, COMMIT_TOOL
from placet.gateway.conversations.items import Delta, Item
from placet.gateway.dialects import changes, staged
from placet.gateway.dialects.changes import Call, Change, Data, Turn

Entry = Item | Delta
#: Deltas that are kept because nobody knows yet whose they are; the oldest go, and their text comes with its message.
EARLY_MAX = 500


@dataclass(frozen=True, slots=True)
class Draft:
    """A text that is being written."""

    message_id: str
    text_id: str
    reply_id: str
    told: str = ""
    resets: int = 0
    #: Pieces that come after one that is missing: offset -> text.
    ahead: Mapping[int, str] = field(default_factory=dict)


@dataclass
class ConversationState:
    """What is known of a conversation."""

    #: Number of the last item.
    seq: int = 0
    calls: dict[str, Call] = field(default_factory=dict)
    turns: dict[str, Turn] = field(default_factory=dict)
    #: What is staged, by the call: {call_id, tool, summary}, with its `outcome` once it has one.
    staged: dict[str, Data] = field(default_factory=dict)
    #: A user's message -> the reply to it.
    replies: dict[str, str] = field(default_factory=dict)
    #: The user's messages that have no reply yet -> whether they wait until people act.
    unanswered: dict[str, bool] = field(default_factory=dict)
    #: Who answers, {state, operator, text}; empty where the log has not said.
    holder: Data = field(default_factory=dict)
    #: Whether a turn follows by itself, although none runs now; and the replies that have a late result to tell of.
    follows: bool = False
    untold: frozenset[str] = frozenset()
    draft: Draft | None = None
    #: The reply, turn and step whose output shows now.
    shown: tuple[str, str, int] | None = None
    early: tuple[Delta, ...] = ()

    @property
    def running(self) -> Turn | None:
        """The turn that goes on; None where none does until people decide or write."""
        newest = next(reversed(self.turns.values()), None)
        return newest if newest is not None and newest.state == "running" else None

    @property
    def rests(self) -> bool:
        """Whether nothing follows until people decide or write; a call that runs on behind its turn keeps nothing."""
        return self.running is None and not self.follows

    @property
    def waiting(self) -> list[Call]:
        """The calls that people are asked to decide, the oldest first."""
        return [call for call in self.calls.values() if self.asks(call)]

    def asks(self, call: Call) -> bool:
        """Whether people are asked about a call: not any more where its job is over, although that is told later."""
        return call.waits and not self._is_left(call)

    def _is_left(self, call: Call) -> bool:
        caller = self.calls.get(call.caller)
        return bool(caller and caller.kind)

    @property
    def settled(self) -> bool:
        """Whether nothing more is told of any call until people decide."""
        return not any(self.runs(call) for call in self.calls.values())

    def runs(self, call: Call) -> bool:
        """Whether more is told of a call before people decide; a job whose question pauses its turn tells nothing."""
        turn = self.turns.get(call.turn_id)
        asks = call.tool == ACCOMPLISH_TOOL and turn is not None and turn.state == "paused"
        return not call.settled and not asks

    def call_of(self, approval_id: str) -> Call | None:
        """Return the call that an approval is about; None where the log has not told of it."""
        return next((call for call in self.calls.values() if call.approval_id == approval_id), None)

    def withdrew(self, turn_id: str) -> bool:
        """Whether a turn is over and the card of each of its calls is, which may be told behind the call's result."""
        turn = self.turns.get(turn_id)
        asks = any(call.card.get("state") == "pending" for call in self.calls.values() if call.turn_id == turn_id)
        return turn is not None and turn.over and not asks

    def unclear(self, turn_id: str) -> list[Call]:
        """Return the calls of a turn of which the log cannot say that nobody will be asked: no card, and no result."""
        return [call for call in self.calls.values() if call.turn_id == turn_id and not call.kind and not call.card]

    def lags(self, holder_revision: int) -> bool:
        """Whether the log does not tell yet of the newest change of who answers."""
        return bool(self.holder) and self.holder.get("revision", 0) < holder_revision

    def knows(self, message_id: str) -> bool:
        """Whether the log has a message of the user."""
        return message_id in self.replies or message_id in self.unanswered

    def copy(self) -> ConversationState:
        """Return another one that knows the same."""
        return replace(
            self,
            calls=dict(self.calls),
            staged=dict(self.staged),
            turns=dict(self.turns),
            replies=dict(self.replies),
            unanswered=dict(self.unanswered),
        )

    def read(self, entry: Entry) -> list[Change]:
        """Take an entry, and return what it changes; an item that is known already changes nothing."""
        return [] if isinstance(entry, Item) and entry.id <= self.seq else list(self._read(entry))

    def _read(self, entry: Entry) -> Iterator[Change]:
        if isinstance(entry, Delta):
            yield from self._delta(entry)
            return
        self.seq, data = entry.id, entry.data
        match entry.type:
            case "message":
                yield from self._message(data)
            case "turn":
                yield from self._turn(data)
            case "tool_call":
                yield from self._tool_call(data)
            case "approval":
                yield from self._approval(data)
            case "progress":
                call = self.calls.get(data["call_id"])
                if call is not None and not call.kind:
                    self._go_on(call.turn_id)
                    yield changes.CallProgressed(call.reply_id, call.call_id, data["fraction"], data["text"])
            case "holder":
                self.holder = data
                # Given back, the agent may answer at once what operators left.
                self.follows = self.follows or not data.get("idle", True)
                yield changes.HolderMoved(data)

    def _message(self, data: Data) -> Iterator[Change]:
        message_id = data["message_id"]
        match data["role"]:
            case "user":
                if not data.get("taken_as"):
                    waits = bool(data.get("waits"))
                    self.unanswered[message_id] = waits
                    self.follows = self.follows or not waits
                yield changes.UserSpoke(message_id, data["text"])
            case "operator":
                yield changes.OperatorSpoke(message_id, data["author"]["id"], data["text"])
            case "assistant":
                yield from self._said(data)

    def _turn(self, data: Data) -> Iterator[Change]:
        turn = self._known(data["turn_id"])
        match data["state"]:
            case "started":
                reply_id = self._reply_to(data.get("message_id", ""), turn.turn_id)
                yield from self._ask(replace(turn, reply_id=reply_id), 1)
            case "continued":
                reply_id = self._reply_to(data.get("message_id", ""), f"{turn.turn_id}.{data['step']}", turn.reply_id)
                yield from self._ask(replace(turn, reply_id=reply_id, open=frozenset()), data["step"])
            case "paused":
                self.turns[turn.turn_id] = replace(turn, state="paused", asked=0)
                self.follows, self.untold = False, frozenset()
                self.unanswered = dict.fromkeys(self.unanswered, True)
            case state:
                yield from self._end_text()
                yield from self._end_step()
                self.turns[turn.turn_id] = replace(turn, state=state, asked=0)
                self._forget(turn.turn_id)
                self.follows = not data.get("idle", True)
                if not self.follows:
                    self.untold = frozenset()
                yield changes.TurnEnded(turn.reply_id, data)

    def _known(self, turn_id: str) -> Turn:
        # Of a turn that began before the first item that was read, everything since is told.
        return self.turns.get(turn_id) or Turn(turn_id, turn_id)

    def _reply_to(self, message_id: str, reply_id: str, otherwise: str = "") -> str:
        """Return the reply to a message, `reply_id` where it begins; it answers what was written before, too."""
        if not message_id:
            return otherwise or reply_id
        if message_id in self.unanswered:
            for each in list(self.unanswered):
                del self.unanswered[each]
                self.replies[each] = reply_id
                if each == message_id:
                    break
        return self.replies.setdefault(message_id, reply_id)

    def _ask(self, turn: Turn, step: int) -> Iterator[Change]:
        """Note that the model is asked for a step of a turn."""
        if self.shown and self.shown[0] != turn.reply_id:
            yield from self._end_text()
            yield from self._end_step()
        # The newest turn is the last one of the dict.
        self.turns.pop(turn.turn_id, None)
        aside = any(call.reply_id == turn.reply_id for call in self.waiting)
        self.turns[turn.turn_id] = replace(turn, state="running", asked=step, aside=aside)
        self.follows, self.untold = False, self.untold - {turn.reply_id}
        yield changes.ReplyBegan(turn.reply_id)
        # Pieces that waited for this step.
        early, self.early = self.early, ()
        for piece in early:
            yield from self._delta(piece)

    def _go_on(self, turn_id: str) -> None:
        turn = self.turns.get(turn_id)
        if turn is not None and turn.state == "paused":
            self.turns[turn_id] = replace(turn, state="running")

    # --- what the model says --------------------------------------------------------------------------------------

    def _delta(self, piece: Delta) -> Iterator[Change]:
        turn = self.turns.get(piece.turn_id)
        if piece.while_waiting or (turn and (turn.over or piece.step <= turn.step)):
            return
        if turn is None or piece.step != turn.asked:
            self.early = (*self.early, piece)[-EARLY_MAX:]
            return
        draft = self.draft
        if draft is None:
            draft = Draft(piece.message_id, piece.message_id, turn.reply_id)
        if piece.reset and not (piece.text and draft.told.startswith(piece.text)):
            yield from self._end_text()
            draft = _again(draft)
        ahead, told = {**draft.ahead, piece.offset: piece.text}, draft.told
        while joining := [at for at in ahead if at <= len(told)]:
            if text := ahead.pop(joining[0])[len(told) - joining[0] :]:
                yield from self._begin_step(turn, turn.asked)
                yield changes.Text(draft.reply_id, draft.text_id, text, begins=not told)
                told += text
        self.draft = replace(draft, told=told, ahead=ahead)

    def _said(self, data: Data) -> Iterator[Change]:
        """Tell the rest of a message that is stored: its deltas may have been lost, and nothing is told twice."""
        turn, draft, text = self._known(data["turn_id"]), self.draft, str(data["text"])
        step = data.get("step", turn.step + 1)
        self._forget(turn.turn_id, step)
        self.turns[turn.turn_id] = replace(turn, step=step, asked=0, open=frozenset())
        if data.get("while_waiting"):
            return
        yield from self._begin_step(turn, step)
        if draft is not None and not text.startswith(draft.told):
            # Pieces of an attempt that was given up: this is what the model said.
            yield from self._end_text()
            draft = _again(draft)
        draft = draft or Draft(data["message_id"], data["message_id"], turn.reply_id)
        if text:
            yield changes.Text(draft.reply_id, draft.text_id, text[len(draft.told) :], begins=not draft.told, ends=True)
        self.draft = None

    def _end_text(self) -> Iterator[Change]:
        if self.draft is not None and self.draft.told:
            yield changes.Text(self.draft.reply_id, self.draft.text_id, "", ends=True, counts=False)
        self.draft = None

    def _begin_step(self, turn: Turn, step: int) -> Iterator[Change]:
        shown = (turn.reply_id, turn.turn_id, step)
        if self.shown != shown:
            yield from self._end_step(aside=turn.aside)
            self.shown = shown
            yield changes.StepBegan(turn.reply_id, turn.aside)

    def _end_step(self, *, aside: bool = False) -> Iterator[Change]:
        if self.shown is not None:
            yield changes.StepEnded(self.shown[0], aside)
            self.shown = None

    def _forget(self, turn_id: str, up_to: float = float("inf")) -> None:
        self.early = tuple(each for each in self.early if each.turn_id != turn_id or each.step > up_to)

    # --- calls and cards ------------------------------------------------------------------------------------------

    def _tool_call(self, data: Data) -> Iterator[Change]:
        call = self.calls.get(data["call_id"])
        staged.note(self.staged, data)
        if data["status"] == "proposed" and call is None:
            turn = self._known(data["turn_id"])
            place, caller = (turn.turn_id, turn.reply_id), data.get("caller", "")
            call = Call(data["call_id"], *place, data["tool"], data["arguments"], caller=caller)
            self.calls[call.call_id] = call
            # The next step waits for the job, not for the calls in it.
            self.turns[turn.turn_id] = turn if caller else replace(turn, open=turn.open | {call.call_id})
            yield from self._begin_step(turn, turn.step)
            yield changes.CallMade(turn.reply_id, call)
        elif data["status"] in {"success", "error"} and call is not None and not call.kind:
            yield from self._answered(replace(call, kind=data["kind"]), data)

    def _answered(self, call: Call, data: Data) -> Iterator[Change]:
        if call.caller and self.calls[call.call_id].waits:
            self._go_on(call.turn_id)
        self.calls[call.call_id] = call
        yield changes.CallAnswered(call.reply_id, call, data)
        if "idle" in data:
            self.follows = not data["idle"]
            self.untold = self.untold | {call.reply_id} if self.follows else frozenset()
        turn = self.turns.get(call.turn_id)
        if turn is None or turn.over or call.call_id not in turn.open:
            if turn is not None and not turn.over and not call.caller:
                # It came late: the turn's next step tells of it, or the turn behind it. One that waits for people goes
                # on with it at once, or says that it waits on.
                self._go_on(turn.turn_id)
                self.untold |= {call.reply_id}
            return
        turn = replace(turn, state="running", open=turn.open - {call.call_id})
        self.turns[turn.turn_id] = turn
        # Where somebody wrote meanwhile, the next step may be the reply to them: then that is said first.
        if not turn.open and not self.unanswered:
            yield from self._ask(turn, turn.step + 1)

    def _approval(self, data: Data) -> Iterator[Change]:
        call = self.calls.get(data["call_id"])
        if call is None or call.card.get("state", "pending") != "pending":
            return
        if data.get("revision", 0) < call.card.get("revision", 0):
            return
        if data["state"] != "pending":
            # Why it was held stays beside why it was decided so.
            data = {**{k: v for k, v in data.items() if k != "reason"}, "decision_reason": data.get("reason", "")}
            if not call.kind:
                self._go_on(call.turn_id)
        if call.tool == COMMIT_TOOL and "arguments" in data:
            data = {**data, "staged": staged.entries_of(self.staged, data["arguments"])}
        edited = "arguments" in data and "arguments" in call.card and data["arguments"] != call.card["arguments"]
        call = replace(call, card={**call.card, **data}, arguments=data["arguments"] if edited else call.arguments)
        self.calls[call.call_id] = call
        # Where its job is over the next step may have begun, and nothing of the one before is made anew.
        if edited and not self._is_left(call):
            yield changes.CallMade(call.reply_id, call)
        yield changes.CardMoved(call.reply_id, call)


def _again(draft: Draft) -> Draft:
    """Return the draft of a text that begins anew, under an id of its own where some of it was told."""
    resets = draft.resets + bool(draft.told)
    text_id = f"{draft.message_id}#{resets}" if resets else draft.message_id
    return replace(draft, text_id=text_id, told="", resets=resets, ahead={})


class Told(Protocol):
    """What a client was told in one dialect: the state of a stream."""

    #: What it waits for: among others `message_id`, and the approvals that are `decided` already.
    goal: Any

    @property
    def log(self) -> ConversationState:
        """What is known of the conversation."""

    @property
    def done(self) -> bool:
        """Whether the stream has ended."""

    def copy(self) -> Self:
        """Return another one that has told the same."""

    def read(self, entry: Entry) -> list[dict[str, Any]]:
        """Take an entry into this very state, and return what the wire says of it."""

    def settle(self) -> list[dict[str, Any]]:
        """Return what ends the stream, where nothing that it waits for follows."""


T = TypeVar("T", bound=Told)


def fold(state: T, entry: Entry) -> tuple[T, list[dict[str, Any]]]:
    """Return the state of a stream after an entry, and what the wire says of it."""
    after = state.copy()
    return after, [*after.read(entry), *after.settle()]


def replay(state: T, items: Iterable[Item]) -> tuple[T, list[dict[str, Any]]]:
    """Return the state after what is in the log already, and what the wire says of all that."""
    after = state.copy()
    events = [event for item in items for event in after.read(item)]
    return after, [*events, *after.settle()]

"""One turn as moves in an order that every dialect accepts, whatever order its feed items came in.

Items of one call come from several queues and may change places: a result may be there before its call. Frontends
throw on that, so an answer or a card waits here until its call was told. What is known of calls is kept in one place,
which the readers of several turns may share. Pure: the reader remembers, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Data = Mapping[str, Any]
#: By call: type and data of items that came before the call was told.
Early = dict[str, list[tuple[str, Data]]]


@dataclass(frozen=True, slots=True)
class StepBegan:
    """The model was asked once more."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    """What that answer led to is told, or people are asked now."""


@dataclass(frozen=True, slots=True)
class TextBegan:
    """The model begins to say something."""

    text_id: str


@dataclass(frozen=True, slots=True)
class TextWritten:
    """It says some more."""

    text_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TextEnded:
    """It is done saying it."""

    text_id: str


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call was proposed, or its arguments were edited by an approver."""

    call_id: str
    tool: str
    #: Redacted values are masked; None where the model wrote no JSON.
    arguments: Any


@dataclass(frozen=True, slots=True)
class CardMoved:
    """An approval of a call was opened, has changed, or is over; `card` is everything known of it now."""

    call_id: str
    card: Data
    #: Whether the call's result was told before.
    answered: bool = False

    @property
    def approval_id(self) -> str:
        """The approval's id."""
        return str(self.card["approval_id"])

    @property
    def state(self) -> str:
        """`pending`, or how it ended."""
        return str(self.card["state"])


@dataclass(frozen=True, slots=True)
class CallProgressed:
    """A call that runs says how far it is."""

    call_id: str
    #: From 0 to 1; None where the tool cannot say.
    fraction: float | None
    #: What it does now; may be empty.
    text: str


@dataclass(frozen=True, slots=True)
class CallAnswered:
    """A call has its one result: {kind, data, error, ui_blocks}."""

    call_id: str
    tool: str
    result: Data

    @property
    def kind(self) -> str:
        """How it ended: `succeeded`, `denied`, …."""
        return str(self.result.get("kind", ""))

    @property
    def error(self) -> str:
        """What people are told where it did not succeed; never empty then."""
        return str(self.result.get("error") or f"The call did not run: {self.kind}.")


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over: {state, reason, final_answer}."""

    end: Data


@dataclass(frozen=True, slots=True)
class OperatorSpoke:
    """A person said something, in the agent's place."""

    message_id: str
    #: Stable id of the operator, for example `person:ada`.
    operator: str
    text: str


Move = (
    OperatorSpoke
    | StepBegan
    | StepEnded
    | TextBegan
    | TextWritten
    | TextEnded
    | CallMade
    | CardMoved
    | CallProgressed
    | CallAnswered
    | TurnEnded
)


def spoken(data: Data) -> OperatorSpoke:
    """Return what an operator said, from its feed item."""
    return OperatorSpoke(str(data["message_id"]), str(data["author"]["id"]), str(data["text"]))


@dataclass
class Call:
    """What is known of one call."""

    turn_id: str
    tool: str
    #: As people may see them; None where the model wrote no JSON.
    arguments: Any = None
    #: Its approval's card, empty where it has none.
    card: Data = field(default_factory=dict)
    answered: bool = False

    @property
    def waits(self) -> bool:
        """Whether people are asked and nobody has decided."""
        return not self.answered and self.card.get("state") == "pending"


@dataclass
class TurnReader:
    """Reads the feed items and deltas of one turn."""

    turn_id: str
    #: Call id -> what is known of it; other turns' calls may be there too.
    calls: dict[str, Call] = field(default_factory=dict)
    #: Call id -> what came before the call it is about.
    early: Early = field(default_factory=dict)
    _in_step: bool = False
    #: The message that the current step says.
    _message: str = ""
    _speaking: str = ""
    #: Message id -> how many characters of it were told, and how often its writing began anew: a text of its own.
    _told: dict[str, int] = field(default_factory=dict)
    _resets: dict[str, int] = field(default_factory=dict)
    #: The messages that are stored: nothing that is written of them is news.
    _stored: set[str] = field(default_factory=set)
    ended: bool = False
    #: The newest step whose message is stored; 0 for none.
    step: int = 0

    @property
    def waits(self) -> bool:
        """Whether nothing goes on here until people decide, as far as the feed told."""
        open_calls = [call for call in self.calls.values() if call.turn_id == self.turn_id and not call.answered]
        return bool(open_calls) and all(call.waits for call in open_calls)

    @property
    def waiting(self) -> dict[str, str]:
        """The calls that wait for people: call id -> approval id."""
        return {
            call_id: call.card["approval_id"]
            for call_id, call in self.calls.items()
            if call.turn_id == self.turn_id and call.waits
        }

    def pause(self) -> Iterator[Move]:
        """Yield what closes the current step: people are asked, and the stream ends for now."""
        yield from self._end_step()

    def read(self, kind: str, data: Data) -> Iterator[Move]:
        """Yield the moves that an item of type `kind`, or a delta, makes; none where it is another turn's.

        After its end only what became of its calls is read: the model may have gone on without their outcomes.
        """
        if self.ended and kind not in {"tool_call", "approval", "progress"}:
            return
        match kind:
            case "delta" if self._ours(data):
                yield from self._written(data)
            case "message" if self._ours(data) and data["role"] == "assistant":
                yield from self._said(data)
            case "tool_call":
                yield from self._called(data)
            case "approval":
                yield from self._asked(data)
            case "progress":
                yield from self._progressed(data)
            case "turn" if self._ours(data) and data["state"] != "started":
                yield from self._end_step()
                yield TurnEnded(data)
                self.ended = True

    def _ours(self, data: Data) -> bool:
        return bool(data.get("turn_id") == self.turn_id)

    # --- what the model says ------------------------------------------------------------------------------------

    def _written(self, data: Data) -> Iterator[Move]:
        message_id = data["message_id"]
        if data.get("while_waiting") or message_id in self._stored:
            return
        if data.get("reset") and self._told.get(message_id):
            yield from self._end_text()
            self._told[message_id] = 0
            self._resets[message_id] = self._resets.get(message_id, 0) + 1
        yield from self._begin_message(message_id)
        if data["offset"] == self._told.get(message_id, 0) and data["text"]:
            yield from self._tell(data["text"])

    def _said(self, data: Data) -> Iterator[Move]:
        """Tell the rest of a message that is stored: its deltas may have been lost, and nothing is told twice."""
        message_id = data["message_id"]
        late = data.get("step", 0) < self.step or (self._speaking and message_id != self._message)
        self.step = max(self.step, data.get("step", 0))
        self._stored.add(message_id)
        if data.get("while_waiting"):
            # Nothing of it is shown, so it is no step either: the one that asks people stays the last one.
            if message_id != self._message:
                yield from self._end_step()
            yield from self._end_text()
            return
        rest = str(data["text"])[self._told.get(message_id, 0) :]
        if late and not rest:
            # A step before the one that is told now, and nothing was said in it.
            return
        yield from self._begin_message(message_id)
        if rest:
            yield from self._tell(rest)
        yield from self._end_text()

    def _begin_message(self, message_id: str) -> Iterator[Move]:
        if message_id == self._message:
            return
        # Calls that were told before the words beside them belong to the same step.
        if self._message:
            yield from self._end_step()
        self._message = message_id
        yield from self._begin_step()

    def _tell(self, text: str) -> Iterator[Move]:
        if not self._speaking:
            resets = self._resets.get(self._message, 0)
            self._speaking = self._message + (f"#{resets}" if resets else "")
            yield TextBegan(self._speaking)
        self._told[self._message] = self._told.get(self._message, 0) + len(text)
        yield TextWritten(self._speaking, text)

    def _end_text(self) -> Iterator[Move]:
        if self._speaking:
            yield TextEnded(self._speaking)
            self._speaking = ""

    def _begin_step(self) -> Iterator[Move]:
        if not self._in_step:
            self._in_step = True
            yield StepBegan()

    def _end_step(self) -> Iterator[Move]:
        yield from self._end_text()
        if self._in_step:
            self._in_step = False
            yield StepEnded()

    # --- calls and cards ----------------------------------------------------------------------------------------

    def _called(self, data: Data) -> Iterator[Move]:
        call_id, known = data["call_id"], data["call_id"] in self.calls
        if data["status"] in {"success", "error"}:
            if known:
                yield from self._answer(call_id, data)
            elif self._ours(data):
                # A call that was never proposed: its arguments were no valid ones.
                yield from self._make(call_id, data["tool"], data.get("arguments"))
                yield from self._answer(call_id, data)
            else:
                self.early.setdefault(call_id, []).append(("tool_call", data))
        elif not known and self._ours(data):
            yield from self._make(call_id, data["tool"], data["arguments"])

    def _make(self, call_id: str, tool: str, arguments: Any) -> Iterator[Move]:
        self.calls[call_id] = Call(self.turn_id, tool, arguments)
        yield from self._begin_step()
        yield from self._end_text()
        yield CallMade(call_id, tool, arguments)
        for kind, early in self.early.pop(call_id, []):
            yield from self.read(kind, early)

    def _answer(self, call_id: str, data: Data) -> Iterator[Move]:
        call = self.calls[call_id]
        if not call.answered:
            call.answered = True
            yield CallAnswered(call_id, call.tool, data)

    def _progressed(self, data: Data) -> Iterator[Move]:
        # A report is worth nothing before its call was told, and after its end.
        call = self.calls.get(data["call_id"])
        if call is not None and not call.answered:
            yield CallProgressed(data["call_id"], data["fraction"], data["text"])

    def _asked(self, data: Data) -> Iterator[Move]:
        call_id = data["call_id"]
        call = self.calls.get(call_id)
        if call is None:
            self.early.setdefault(call_id, []).append(("approval", data))
            return
        if data["state"] != "pending":
            # Why it was held stays beside why it was decided so.
            data = {**{k: v for k, v in data.items() if k != "reason"}, "decision_reason": data.get("reason", "")}
        stale = data.get("revision", 0) < call.card.get("revision", 0)
        if call.card.get("state", "pending") != "pending" or stale:
            return
        edited = "arguments" in data and "arguments" in call.card and data["arguments"] != call.card["arguments"]
        call.card = {**call.card, **data}
        if edited:
            call.arguments = data["arguments"]
            yield CallMade(call_id, call.tool, call.arguments)
        yield CardMoved(call_id, call.card, call.answered)

"""Conversations as the agent's log tells them: every order that it promises, with pieces of text that keep none.

`conversations()` draws one: turns, free and held calls, jobs that ask in cards of their own, messages meanwhile, edits,
votes, denials, expiries, late outcomes, operators, stops and failures. Pieces of text come early, late, twice or never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

from placet.gateway.conversations.items import Delta, Item

AT = "2026-01-01T00:00:00+00:00"
T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]
#: How far a piece of text may come before or behind its place among the items, in entries.
EARLY, LATE = 3, 6


@dataclass
class Conversation:
    """A log, and what is true of it after each item."""

    #: Items, and pieces of text as they come.
    entries: list[Item | Delta] = field(default_factory=list)
    #: Number of an item -> the messages of the user of whose answers something goes on by itself after it; None where
    #: more is told in the same breath.
    live: dict[int, frozenset[str] | None] = field(default_factory=dict)
    #: Numbers of items after which a turn goes on by itself: not only a call that a turn went on without.
    turning: set[int] = field(default_factory=set)

    @property
    def items(self) -> list[Item]:
        """The items alone."""
        return [entry for entry in self.entries if isinstance(entry, Item)]

    @property
    def rests(self) -> bool:
        """Whether nothing goes on by itself at its end."""
        return not self.live[len(self.live)]

    @property
    def messages(self) -> list[str]:
        """Ids of the user's messages."""
        return [
            each.data["message_id"] for each in self.items if each.type == "message" and each.data["role"] == "user"
        ]


@dataclass
class _Call:
    call_id: str
    turn_id: str
    message_id: str
    #: `free`, `hold`, `continue` or `supersede`: what a message does while people think; `job`: people are asked about
    #: calls in it, which have it as their `caller`.
    way: str
    caller: _Call | None = None
    #: `running`, `waiting`, `continued` or `done`.
    state: str = "running"
    revision: int = 0
    arguments: int = 0
    decided: str = ""

    @property
    def tool(self) -> str:
        """Its tool."""
        return "accomplish" if self.way == "job" else "deploy"

    @property
    def reports(self) -> bool:
        """Whether its conversation hears how far it is."""
        return self.way != "job" and self.caller is None

    @property
    def keeps(self) -> bool:
        """Whether its turn waits for it, and not for people."""
        return self.state == "running" or (self.state == "waiting" and bool(self.decided))


class _Agent:
    """Writes a log as the agent does."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.made = Conversation()
        #: Pieces of text: place among the items, number, piece.
        self.pieces: list[tuple[float, Delta]] = []
        self._calls: dict[str, _Call] = {}
        self._turn = ""
        #: The message that the turn answers, its step, and whether the model is asked now.
        self._answers, self._step, self._thinks = "", 0, False
        self._queued: list[str] = []
        self._late: list[_Call] = []
        self._held = False
        self._paused = False
        self._names = 0
        #: Where pieces of the text that is being written belong among the items.
        self._place = 0.0

    # --- drawing ------------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Do one thing that may happen now."""
        waiting = [each for each in self._calls.values() if each.state in {"waiting", "continued"} and not each.decided]
        running = [
            each for each in self._calls.values() if each.state == "running" or (each.state != "done" and each.decided)
        ]
        acts: list[Callable[[], None]] = [self._write]
        acts += [self._answer] * 4 if self._thinks else []
        acts += [lambda: self._go_on_with(self._one_of(running))] * 4 if running else []
        acts += [lambda: self._decide(self._one_of(waiting))] * 3 if waiting else []
        acts += [self._stop] if self._turn and self._draw(st.integers(0, 5)) == 0 else []
        acts += [self._operate] if self._draw(st.integers(0, 5)) == 0 else []
        self._one_of(acts)()

    def _one_of(self, options: Sequence[T]) -> T:
        found: T = self._draw(st.sampled_from(options))
        return found

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _append(self, kind: Any, /, **data: Any) -> None:
        seq = len(self.made.live) + 1
        self.made.entries.append(Item(seq, kind, AT, data))
        self.made.live[seq] = None

    def _seal(self) -> None:
        """Note what is true after everything of this transaction."""
        open_now = [each for each in self._mine if each.keeps and not (self._paused and each.way == "job")]
        if self._thinks or open_now:
            self.made.turning.add(len(self.made.live))
        live = {self._answers} if self._thinks or open_now else set[str]()
        decided = [each for each in self._calls.values() if each.decided and each.state != "done"]
        behind = [each for each in decided if each.state == "continued" or each.caller]
        live |= {each.message_id for each in behind if not self._was_stopped(each.turn_id)}
        self.made.live[len(self.made.live)] = frozenset(live)

    @property
    def _mine(self) -> list[_Call]:
        return [each for each in self._calls.values() if each.turn_id == self._turn and not each.caller]

    @property
    def _asked_in_jobs(self) -> list[_Call]:
        """What people are asked in jobs that go on."""
        waiting = [each for each in self._calls.values() if each.state == "waiting" and not each.decided]
        return [each for each in waiting if each.caller in self._mine and each.caller.state == "running"]

    @property
    def _hears_late(self) -> bool:
        """Whether what waits for people lets its turn go on for what came late."""
        waiting = [each for each in self._mine if each.state == "waiting"]
        return not self._held and not self._asked_in_jobs and all(each.way == "continue" for each in waiting)

    # --- turns --------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        message_id = self._name("u")
        on_hold = any(each.way == "hold" and each.state == "waiting" for each in self._mine)
        waits = self._held or (self._paused and (on_hold or bool(self._asked_in_jobs)))
        author = {"kind": "visitor", "id": "visitor:v"}
        self._append(
            "message",
            role="user",
            message_id=message_id,
            text=f"say {message_id}",
            author=author,
            **({"waits": True} if waits else {}),
        )
        self._queued.append(message_id)
        if not waits and not self._turn:
            self._begin(message_id)
        elif not waits and self._paused:
            self._settle()
        self._seal()

    def _begin(self, message_id: str) -> None:
        self._turn, self._answers, self._step, self._paused = self._name("t"), message_id, 1, False
        self._thinks = True
        self._append("turn", state="started", turn_id=self._turn, message_id=message_id)
        if message_id in self._queued:
            self._queued.clear()

    def _ask(self) -> None:
        """Have the model asked for the next step, which hears what was written meanwhile."""
        self._step, self._thinks, self._paused = self._step + 1, True, False
        goes_on = any(each.state == "continued" for each in self._mine)
        queued = [] if self._held else self._queued
        if queued or self._late or goes_on:
            late = self._late[-1].message_id if self._late else ""
            answers = queued[-1] if queued else late
            heard = {"message_id": answers} if answers else {}
            self._append("turn", state="continued", turn_id=self._turn, step=self._step, **heard)
            self._answers = answers or self._answers
            queued.clear()
            self._late.clear()

    def _answer(self) -> None:
        """Have the model say something, and call tools."""
        self._thinks = False
        aside = any(each.state == "continued" for each in self._mine) and self._draw(st.booleans())
        words = self._one_of(["", "Well.", "One two three four five six."])
        words += f" {self._turn} {self._step}" if words else ""
        message_id = f"m-{self._turn}-{self._step}"
        self._speak(message_id, words, aside=aside)
        if self._draw(st.integers(0, 9)) == 0:
            self._end("failed", "No model answered.")
            self._seal()
            return
        more = {"while_waiting": True} if aside else {}
        place = {"turn_id": self._turn, "message_id": message_id, "step": self._step}
        self._append("message", role="assistant", text=words, **place, **more)
        calls = [] if self._step >= 5 else [self._name("k") for _ in range(self._draw(st.integers(0, 3)))]
        for call_id in calls:
            way = self._one_of(["free", "free", "hold", "continue", "supersede", "job", "job"])
            self._propose(_Call(call_id, self._turn, self._answers, way))
        for call_id in calls:
            if self._calls[call_id].way == "free" and self._draw(st.integers(0, 4)) == 0:
                self._finish(self._calls[call_id], "invalid", settle=False)
        if not calls:
            self._end("finished", "")
        else:
            self._settle()
        self._seal()

    def _propose(self, call: _Call) -> None:
        self._calls[call.call_id] = call
        named = {"call_id": call.call_id, "turn_id": call.turn_id, "step": self._step, "tool": call.tool}
        within = {"caller": call.caller.call_id} if call.caller else {}
        self._append("tool_call", **named, **within, arguments={"v": 0}, status="proposed")

    def _speak(self, message_id: str, words: str, *, aside: bool) -> None:
        """Send a text in pieces, sometimes after an attempt that was given up."""
        attempts = ["Not this", words] if self._draw(st.integers(0, 7)) == 0 else [words]
        self._place = float(len(self.made.entries))
        for attempt, text in enumerate(attempts):
            offset = 0
            if attempt:
                # As the agent says it: the next attempt's text is not known yet.
                reset = Delta(self._turn, self._step, message_id, 0, "", reset=True, while_waiting=aside)
                self._send(reset, early=0, late=0)
            while offset < len(text):
                size = self._draw(st.integers(1, 12))
                piece = Delta(self._turn, self._step, message_id, offset, text[offset : offset + size])
                # One agent's pieces keep their order: none is told before it was said that the text begins again.
                self._send(replace(piece, while_waiting=aside), early=0 if attempt else EARLY)
                offset += size

    def _send(self, piece: Delta, early: int = EARLY, late: int = LATE) -> None:
        """Have a piece come early, late, twice or never."""
        for _ in range(self._one_of([1, 1, 1, 1, 0, 2])):
            shift = self._one_of([0.0, 0.0, 0.0, *(float(each) for each in range(-early, late + 1))])
            self.pieces.append((self._place + shift, piece))

    def _end(self, state: str, reason: str) -> None:
        mine = [each for each in self._mine if each.state != "done"]
        follows = bool((self._queued or self._late) and not self._held)
        ended = {"turn_id": self._turn, "reason": reason, "open": [each.call_id for each in mine]}
        self._append("turn", state=state, idle=not follows, **ended)
        self._turn, self._thinks, self._paused = "", False, False
        if follows:
            late = self._late.pop(0) if self._late and not self._queued else None
            self._begin(late.message_id if late else self._queued[-1])

    def _stop(self) -> None:
        for each in [each for each in self._mine if each.state == "running"]:
            self._finish(each, "cancelled", settle=False)
        self._end("stopped", "Stopped by visitor:v.")
        self._seal()

    def _settle(self) -> None:
        """Pause, go on, or wait, by what is open."""
        in_jobs = self._asked_in_jobs
        if any(each.keeps and not (in_jobs and each.way == "job") for each in self._mine):
            return
        heard = (self._queued or self._late) and not self._held
        if heard and self._queued:
            for each in [each for each in self._mine if each.state == "waiting" and each.way == "supersede"]:
                self._close(each, "withdrawn")
                self._finish(each, "superseded", settle=False)
        waiting = [each for each in self._mine if each.state == "waiting"]
        if not waiting and not in_jobs:
            self._ask()
        elif not in_jobs and all(each.way == "continue" for each in waiting) and (heard or self._draw(st.booleans())):
            for each in waiting:
                each.state = "continued"
            self._ask()
        else:
            self._paused = True
            asked = [{"call_id": each.call_id, "approval_id": f"a-{each.call_id}"} for each in waiting + in_jobs]
            self._append("turn", state="paused", turn_id=self._turn, waiting=asked)

    # --- calls --------------------------------------------------------------------------------------------------

    def _go_on_with(self, call: _Call) -> None:
        """Have a call that nobody thinks about go one step on."""
        if call.way == "job" and self._draw(st.integers(0, 2)):
            asked = _Call(self._name("k"), call.turn_id, call.message_id, "hold", call)
            self._propose(asked)
            self._hold(asked)
        elif call.way in {"hold", "continue", "supersede"} and not call.revision:
            self._hold(call)
        elif self._draw(st.integers(0, 3)) == 0 and call.decided in {"", "approved"} and call.reports:
            told = {"call_id": call.call_id, "tool": call.tool, "fraction": 0.5, "text": "Half.", "attempt": 1}
            self._append("progress", turn_id=call.turn_id, **told)
        else:
            ends = {"approved": ["succeeded", "failed", "unknown"], "": ["succeeded", "failed", "refused"]}
            kind = self._one_of(ends.get(call.decided, [call.decided]))
            self._finish(call, kind)
        self._seal()

    def _hold(self, call: _Call) -> None:
        named = {"call_id": call.call_id, "turn_id": call.turn_id, "tool": call.tool, "arguments": {"v": 0}}
        self._append("tool_call", **named, status="pending_confirmation")
        self._card(call, state="pending", summary="Deploy?", reason="by rule", expires_at=AT)
        call.state = "waiting"
        self._settle()

    def _decide(self, call: _Call) -> None:
        """Have people vote, edit or decide; an end may be told after the result that it led to."""
        # What is edited and decided at once may be told by the end alone.
        decision = self._one_of(["vote", "edit", "approved", "approved", "denied", "expired", "silently"])
        at_once = decision in {"approved", "silently"} and self._draw(st.integers(0, 2)) == 0
        call.arguments += at_once
        match decision:
            case "vote":
                self._card(call, state="pending", kind="voted", note="One of two.")
            case "edit":
                call.arguments += 1
                self._card(call, state="pending", kind="edited", summary="Deploy?")
            case "silently":
                self._finish(call, "succeeded")
                self._seal()
                self._close(call, "approved")
            case _:
                self._close(call, decision)
                call.decided = decision
                if at_once and call.caller and self._draw(st.booleans()):
                    # News from the conversation of a job keep no order.
                    self._card(call, state="pending", kind="edited", summary="Deploy?")
                if call.caller:
                    self._over_in_job(call)
                else:
                    self._paused = self._paused and call.state != "waiting"
        self._seal()

    def _over_in_job(self, call: _Call) -> None:
        """Go on, or wait for what else is asked, when nobody is asked any more about a call of a job."""
        if call.caller in self._mine and call.caller.state == "running" and self._paused:
            self._paused = False
            self._settle()

    def _close(self, call: _Call, state: str) -> None:
        call.revision += 1
        named = {"approval_id": f"a-{call.call_id}", "call_id": call.call_id, "turn_id": call.turn_id}
        end = {"state": state, "revision": call.revision, "decided_by": "person:ada", "reason": "Not today."}
        self._append("approval", **named, **end, **(_shown(call) if call.arguments else {}))

    def _card(self, call: _Call, **members: Any) -> None:
        call.revision += 1
        named = {"approval_id": f"a-{call.call_id}", "call_id": call.call_id, "turn_id": call.turn_id, "tool": "deploy"}
        self._append("approval", **named, **_shown(call), revision=call.revision, **members)

    def _finish(self, call: _Call, kind: str, *, settle: bool = True) -> None:
        over, late = call.turn_id != self._turn and not call.caller, call.state == "continued"
        asked, call.state = call.state == "waiting" and not call.decided, "done"
        status = "success" if kind == "succeeded" else "error"
        named = {"call_id": call.call_id, "turn_id": call.turn_id, "tool": call.tool, "status": status, "kind": kind}
        answer = {
            "data": 1 if kind == "succeeded" else None,
            "error": "" if kind == "succeeded" else "It came to nothing.",
        }
        stopped = self._was_stopped(call.turn_id)
        begins = over and late and not stopped and not self._turn and not self._held
        goes_on = late and not stopped and self._paused and self._hears_late
        idle = {"idle": not (begins or goes_on or (self._turn and not self._paused))} if over else {}
        self._append("tool_call", **named, **answer, **idle)
        if call.caller:
            if asked:
                self._over_in_job(call)
        elif begins:
            self._begin(call.message_id)
        elif late and not stopped:
            self._late.append(call)
            if self._paused and (goes_on or not over):
                # A turn of its own says that it waits on, where it does.
                self._paused = False
                self._settle()
        elif not over and settle:
            self._settle()

    def _was_stopped(self, turn_id: str) -> bool:
        turns = (each.data for each in self.made.items if each.type == "turn" and each.data["turn_id"] == turn_id)
        return any(each["state"] == "stopped" for each in turns)

    # --- people in the agent's place ------------------------------------------------------------------------------

    def _operate(self) -> None:
        """Take the conversation over, say something, or give it back."""
        if not self._held:
            self._held = True
            self._append("holder", state="operator", operator="person:ada", text="You talk to ada.", revision=1)
        elif self._draw(st.booleans()):
            author = {"kind": "operator", "id": "person:ada"}
            self._append("message", role="operator", message_id=self._name("o"), text="Two pairs.", author=author)
        else:
            self._held = False
            begins = bool(self._queued and not self._turn)
            told = {"operator": "", "text": "You talk to the assistant.", "revision": 2, "idle": not begins}
            self._append("holder", state="agent", **told)
            if begins:
                self._begin(self._queued[-1])
        self._seal()


def _shown(call: _Call) -> dict[str, Any]:
    return {"arguments": {"v": call.arguments}, "digest": f"{call.arguments:064x}"}


@st.composite
def conversations(draw: Draw, steps: int = 24) -> Conversation:
    """Draw a conversation that may end anywhere."""
    agent = _Agent(draw)
    agent._write()
    for _ in range(draw(st.integers(0, steps))):
        agent.act()
    made = agent.made
    placed: list[tuple[float, Item | Delta]] = [(float(at), item) for at, item in enumerate(made.entries)]
    # A piece that belongs at a place comes before the item there.
    placed += [(place - 0.5, piece) for place, piece in agent.pieces]
    made.entries = [entry for _, entry in sorted(placed, key=lambda each: each[0])]
    return made

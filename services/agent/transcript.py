"""The transcript: a conversation's rows as the messages that a model reads, in OpenAI's shape.

Providers refuse a history for ever once it breaks one of their rules, so the rules hold here by construction: each
assistant message with calls is followed at once by all its results in the order of the calls, each id is used once,
arguments are JSON objects, names and texts are never empty. A step whose calls are still open has no transcript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

#: Largest output of a tool that the model is shown, in bytes of UTF-8; the rest is cut, and said to be.
OUTPUT_BYTES_MAX = 65_536
#: Longest text repeated to the model of arguments that it wrote and nobody could read, in characters.
INVALID_ARGUMENTS_MAX = 2_000

#: What the model is told of a call that people still think about.
PENDING = (
    "It waits for people and has no outcome yet. Do not make this call again. Its outcome will come in a message that "
    "begins with <placet-outcome>."
)
#: How a late outcome begins. A person's text that contains it is changed so that it does not.
OUTCOME_MARK = "<placet-outcome>"
OUTCOME_HEAD = "From the system, not from the user: a call that was pending_confirmation has its outcome now."
#: The same where the turn of the call was stopped.
STOPPED_OUTCOME_HEAD = "From the system, not from the user: a call of a stopped turn has its outcome now."
#: What the model is told of a call whose turn was stopped before it had a result.
STOPPED = (
    "A person stopped the turn before this call had a result. It may have run all the same. Do not make it again by "
    "yourself. Its outcome will come in a message that begins with <placet-outcome>."
)
#: What the model is told of the stop itself, before the next message.
STOPPED_HEAD = (
    "From the system, not from the user: your turn was stopped before its end, and what you were writing then was "
    "thrown away. Do not go on with it unless you are asked to."
)
#: How the words of an operator begin, who answered in the assistant's place.
OPERATOR_MARK = "<placet-operator>"
OPERATOR_HEAD = "From the system, not from the user: a person of the house answered the user in the assistant's place."
_MARK = re.compile(r"<(\s*+(?:/\s*+)?+)placet-", re.IGNORECASE)
#: The same in JSON text, where what stands between may be written as escapes.
_MARK_IN_JSON = re.compile(r"<(?=(?:\s|/|\\[bfnrt/]|\\u00[0-9a-f]{2})*placet-)", re.IGNORECASE)

#: Parts of a result that the model is shown.
_SHOWN = ("answer_kind", "answer", "data", "error", "reason", "edited")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_MAX = 64
#: One writer for all: making one costs as much as writing a short text.
_json = json.JSONEncoder(ensure_ascii=False).encode
#: Keys of a raw assistant message that are written here anew.
_OURS = {"role", "content", "tool_calls"}


class Unanswered(Exception):
    """A call has no result yet: the model must not be asked."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A person's message, or the late outcome of a call, at the first step of the turn that sees it."""

    turn_id: str
    step: int
    text: str
    #: Its place in the conversation, growing.
    number: int = 0
    #: The call whose outcome it is; None for a person's message.
    call_id: str | None = None
    #: Id of whoever wrote it.
    author: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """What became known of an earlier call; read with the first message whose number is higher."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """What an operator wrote in the assistant's place, or what they answered; read like a fact."""

    number: int
    #: Stable id of the operator who wrote it; empty where a visitor did.
    operator: str
    text: str
    #: Id of whoever wrote it.
    author: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the model. `raw` is the assistant message without its calls."""

    turn_id: str
    step: int
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a step with its result. `result` is what `rules.Result.as_json` wrote; None while it is open."""

    turn_id: str
    step: int
    position: int
    provider_call_id: str
    tool: str
    arguments: str
    #: False: the arguments are what the model wrote, whatever that is.
    sound: bool
    result_kind: str | None
    result: Mapping[str, Any] | None
    call_id: str = ""
    #: True: the model went on with an interim result; the real one is a message of its own.
    interim: bool = False
    #: True: its turn was stopped before it had a result; that one is told by itself.
    stopped: bool = False
    #: Its place among the numbers of the messages where its result came after that; None: it has not come.
    told_number: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """All rows of a conversation that a model has seen or will see; messages in the order they were stored."""

    messages: tuple[UserMessage, ...]
    steps: tuple[Step, ...]
    calls: tuple[Call, ...]
    #: In the order of their numbers.
    facts: tuple[Fact, ...] = ()
    #: Likewise.
    spoken: tuple[Spoken, ...] = ()

    def spoken_in(self, turn_id: str) -> bool:
        """Tell whether a person wrote while the turn went on, and it has heard them."""
        return any(each.turn_id == turn_id and each.step > 1 and each.call_id is None for each in self.messages)

    def tools_in(self, turn_id: str) -> list[str]:
        """Return the tools that the model called in a turn."""
        return [each.tool for each in self.calls if each.turn_id == turn_id]

    def waits_in(self, turn_id: str) -> bool:
        """Tell whether the model goes on although people think about a call of the turn."""
        return any(each.turn_id == turn_id and each.interim and each.told_number is None for each in self.calls)

    def aside_in(self, turn_id: str) -> bool:
        """Tell whether what the model says is chatter about a call that waits.

        It is none where somebody wrote since, or where it says what became of another call.
        """
        heard = any(each.turn_id == turn_id and each.step > 1 for each in self.messages)
        return self.waits_in(turn_id) and not heard


def transcript(instructions: str, history: History) -> list[dict[str, Any]]:
    """Return the messages to ask a model with; raise Unanswered while a call is open."""
    system = [{"role": "system", "content": instructions}] if instructions.strip() else []
    return [*system, *_Writer(history).messages()]


def result_text(kind: str, result: Mapping[str, Any]) -> str:
    """Return a tool message's JSON text: {result, answer_kind?, answer?, data?, error?, reason?, edited?}, cut to size.

    What a tool returned stands inside JSON strings, and nothing in it can look like Placet's own words: a mark is
    written as JSON's escape for its first character. So the data are the same, and the text has no mark.
    """
    content = {"result": kind} | {name: result[name] for name in _SHOWN if name in result}
    text = _json(content)
    # A character has at most four bytes: what is short enough by its length needs no second look.
    text = text if len(text) * 4 <= OUTPUT_BYTES_MAX else _cut_text(content)
    return _MARK_IN_JSON.sub(r"\\u003c", text)


def _cut_text(content: dict[str, Any]) -> str:
    for name in _SHOWN:
        if name in content:
            content[name], cut = _cut(content[name])
            if cut:
                content["note"] = f"{name} was {cut} bytes long and is cut to {OUTPUT_BYTES_MAX}"
    return _json(content)


def interim_text(call_id: str) -> str:
    """Return the tool message of a call that people still think about; it stays so when they are done."""
    content = {"result": "pending_confirmation", "call": call_id, "reason": PENDING}
    return _json(content)


def stopped_text(call_id: str) -> str:
    """Return the tool message of a call whose turn was stopped before it had a result; it stays so."""
    return _json({"result": "stopped", "call": call_id, "reason": STOPPED})


def outcome_text(call: Call) -> str:
    """Return the message that brings the outcome of a call which the model went on without.

    It has a user's role, since no other may stand there with every provider.
    """
    head = _json({"call": call.call_id, "tool": call.tool})
    outcome = result_text(str(call.result_kind), call.result or {})
    body = f"{head[:-1]}, {outcome[1:]}".replace("<", "\\u003c")
    return _marked(f"{OUTCOME_HEAD if call.interim else STOPPED_OUTCOME_HEAD}\n{body}")


def _marked(text: str) -> str:
    """Return what the house itself says about a call; nothing in it can end its mark early."""
    return f"{OUTCOME_MARK}\n{text.replace('<', '&lt;')}\n</placet-outcome>"


def spoken_text(spoken: Spoken) -> str:
    """Return the message that tells what an operator wrote; what a visitor wrote to them stands there as it is.

    It has a user's role too, and not the assistant's: the model must not take for its own what it never said.
    """
    if not spoken.operator:
        return _persons_text(spoken.text)
    words = _json({"operator": spoken.operator, "said": spoken.text})
    said = words.replace("<", "\\u003c")
    return f"{OPERATOR_MARK}\n{OPERATOR_HEAD}\n{said}\n</placet-operator>"


def _persons_text(text: str) -> str:
    """Return a person's text. Only Placet itself may speak under its marks."""
    text = _MARK.sub(r"&lt;\1placet-", text)
    return text if text.strip() else "(blank message)"


class _Writer:
    """Writes one transcript; remembers which ids are used, since a provider wants each once in the whole of it."""

    def __init__(self, history: History) -> None:
        self._used: set[str] = set()
        self._order = {turn: place for place, turn in enumerate(dict.fromkeys(m.turn_id for m in history.messages))}
        self._heard = _by_step(history.messages)
        self._steps = _by_step(history.steps)
        self._calls = _by_step(history.calls)
        told = [(fact.number, _marked(fact.text)) for fact in history.facts]
        told += [(spoken.number, spoken_text(spoken)) for spoken in history.spoken]
        told += [(call.told_number, outcome_text(call)) for call in history.calls if call.told_number is not None]
        #: What is read before the first message with a higher number, in its order.
        self._told = sorted(told)
        self._by_id = {call.call_id: call for call in history.calls}

    def messages(self) -> Iterator[dict[str, Any]]:
        for at in sorted({*self._heard, *self._steps}, key=lambda key: (self._order[key[0]], key[1])):
            for message in self._heard.get(at, ()):
                while self._told and self._told[0][0] < message.number:
                    yield {"role": "user", "content": self._told.pop(0)[1]}
                yield {"role": "user", "content": self._heard_text(message)}
            for step in self._steps.get(at, ()):
                yield from self._said(step, self._calls.get(at, []))

    def _heard_text(self, message: UserMessage) -> str:
        if message.call_id is not None:
            return outcome_text(self._by_id[message.call_id])
        return _persons_text(message.text)

    def _said(self, step: Step, calls: list[Call]) -> Iterator[dict[str, Any]]:
        """Write an assistant message and all its results. One that says nothing at all is left out."""
        text = str(step.raw.get("content") or "")
        ids = [self._unused(call) for call in calls]
        if not calls and not text.strip():
            return
        said: dict[str, Any] = {"role": "assistant", "content": text if text.strip() else None}
        if calls:
            said["tool_calls"] = [_written(call, call_id) for call, call_id in zip(calls, ids, strict=True)]
        yield said | {name: value for name, value in step.raw.items() if name not in _OURS}
        for call, call_id in zip(calls, ids, strict=True):
            yield {"role": "tool", "tool_call_id": call_id, "content": _answer_text(call)}

    def _unused(self, call: Call) -> str:
        """Return the call's id, numbered where the transcript has it already. Append-only rows give the same again."""
        wanted = call.provider_call_id or f"call_{call.turn_id}_{call.step}_{call.position}"
        found, number = wanted, 1
        while found in self._used:
            number += 1
            found = f"{wanted}-{number}"
        self._used.add(found)
        return found


def _answer_text(call: Call) -> str:
    """Return the one tool message of a call."""
    if call.interim:
        return interim_text(call.call_id)
    if call.stopped:
        return stopped_text(call.call_id)
    if call.result_kind is None:
        raise Unanswered(f"call {call.position} of step {call.step} in turn {call.turn_id}")
    return result_text(call.result_kind, call.result or {})


def _by_step(rows: Iterable[Any]) -> dict[tuple[str, int], list[Any]]:
    found: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        found.setdefault((row.turn_id, row.step), []).append(row)
    return {key: sorted(group, key=lambda row: getattr(row, "position", 0)) for key, group in found.items()}


def _written(call: Call, call_id: str) -> dict[str, Any]:
    """Write a call as a valid object, whatever the model wrote."""
    invalid = {"invalid_arguments": call.arguments[:INVALID_ARGUMENTS_MAX]}
    return {
        "id": call_id,
        "type": "function",
        "function": {
            "name": _NOT_IN_A_NAME.sub("_", call.tool)[:_NAME_MAX] or "unnamed",
            "arguments": call.arguments if call.sound else _json(invalid),
        },
    }


def _cut(value: Any) -> tuple[Any, int]:
    """Return a tool's output and 0, or the beginning of its text and its whole length in bytes."""
    text = value if isinstance(value, str) else _json(value)
    size = len(text.encode())
    if size <= OUTPUT_BYTES_MAX:
        return value, 0
    return text.encode()[:OUTPUT_BYTES_MAX].decode(errors="ignore"), size

"""What a model said, put together strictly from whole messages or from stream deltas.

Owns the values `ModelAnswer` and `ProposedCall` and the rule that nothing is guessed: a call's arguments are
exactly the text the model wrote. Libraries key stream deltas on `index` alone, drop calls without an id and
turn a call that was cut off into `{}`, an object the model never wrote; so the calls are assembled here.

Pure: deltas and messages are plain dicts in OpenAI's shape.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from placet.contracts.errors import PlacetError

#: Separates a Gemini call id from the signature that litellm hides behind it; the signature must survive.
SIGNATURE_MARK = "__thought__"
#: Characters of one answer, with its reasoning and its calls: several times what any model writes at once.
ANSWER_MAX = 2_000_000


class UnusableAnswer(PlacetError):
    """The model answered, but nothing of it may be used. The text is one line without any of its words."""


class StreamCut(UnusableAnswer):
    """The stream ended without the provider's word that it was whole."""


class ModelAnswerCut(UnusableAnswer):
    """The model ran into its length limit (or a filter) in the middle of its answer."""


@dataclass(frozen=True)
class ProposedCall:
    """One tool call as the model wrote it, not yet checked against anything."""

    #: The id the result must carry; unique in the transcript, opaque, possibly kilobytes long (Gemini).
    provider_call_id: str
    #: Any text, also of a tool that does not exist or the empty string.
    name: str
    #: The argument text, byte for byte; "" when the model wrote none. Never defaulted to an empty object.
    arguments_text: str


@dataclass(frozen=True)
class ModelAnswer:
    """One whole answer of a model."""

    text: str
    #: In the order the model made them.
    calls: tuple[ProposedCall, ...]
    #: OpenAI's word: stop, tool_calls, content_filter. Some providers say stop although calls are present.
    finish_reason: str
    #: As the provider counted them; 0 when it did not say.
    input_tokens: int
    output_tokens: int
    #: The `model` of the settings that answered, which is a fallback's when the first one failed.
    model: str
    #: The assistant message for the transcript, JSON-safe: role, content, tool_calls with the ids of `calls`,
    #: and what only its author may get back (thinking_blocks, reasoning_content), marked by `origin`.
    raw: dict[str, Any]


@dataclass
class _CallDraft:
    index: int
    call_id: str
    name: str = ""
    fragments: list[str] = field(default_factory=list)

    def take(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function") or {}
        self.call_id = self.call_id or piece.get("id") or ""
        self.name = self.name or function.get("name") or ""
        self.fragments.append(function.get("arguments") or "")


@dataclass
class Draft:
    """An answer under construction. Feed it deltas (or one whole message), then `finished` it."""

    text: str = ""
    reasoning: str = ""
    thinking: list[dict[str, Any]] = field(default_factory=list)
    calls: list[_CallDraft] = field(default_factory=list)
    finish_reason: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    #: Characters so far.
    size: int = 0

    def take(self, delta: Mapping[str, Any]) -> str:
        """Add one delta (or whole message) and answer with the text in it, "" if none; too many are an error."""
        # A refusal is for the person to read, like any other text; of a whole message litellm keeps it beside.
        refusal = delta.get("refusal") or (delta.get("provider_specific_fields") or {}).get("refusal")
        text = (delta.get("content") or "") + (refusal or "")
        self.size += len(text) + len(delta.get("reasoning_content") or "")
        self.size += sum(map(_arguments_size, delta.get("tool_calls") or ()))
        if self.size > ANSWER_MAX:
            raise ModelAnswerCut(f"the answer has more than {ANSWER_MAX:,} characters")
        self.text += text
        self.reasoning += delta.get("reasoning_content") or ""
        for block in delta.get("thinking_blocks") or ():
            self._take_thinking(dict(block))
        for piece in delta.get("tool_calls") or ():
            self._take_call(_as_function(piece))
        return text

    def take_message(self, message: Mapping[str, Any]) -> None:
        """Add a message that was not streamed. Its calls are one per place: their `index` means nothing."""
        calls = [{**call, "index": place} for place, call in enumerate(message.get("tool_calls") or ())]
        self.take({**message, "tool_calls": calls})

    def _take_call(self, piece: Mapping[str, Any]) -> None:
        call = self._open_call(piece)
        if call is None:
            call = _CallDraft(index=_index(piece, len(self.calls)), call_id=piece.get("id") or "")
            self.calls.append(call)
        call.take(piece)

    def _open_call(self, piece: Mapping[str, Any]) -> _CallDraft | None:
        """Find the call a piece continues, or None when it begins a new one.

        A new index begins a call, and so does a new id or another name at a known index.
        """
        at_index = [call for call in self.calls if call.index == _index(piece, self._last_index())]
        if not at_index:
            return None
        call_id, name = piece.get("id"), (piece.get("function") or {}).get("name")
        named = [call for call in at_index if not (name and call.name) or call.name == name]
        if call_id and at_index[-1].call_id:
            named = [call for call in named if call.call_id == call_id]
        return named[-1] if named and (call_id or named[-1] is at_index[-1]) else None

    def _last_index(self) -> int:
        return self.calls[-1].index if self.calls else 0

    def _take_thinking(self, block: dict[str, Any]) -> None:
        """Add a thinking block; a signed one carries the whole thought and replaces its unsigned pieces."""
        if block.get("type") == "thinking" and block.get("signature"):
            self.thinking = [kept for kept in self.thinking if _is_sealed(kept)]
        self.thinking.append(block)


def _arguments_size(piece: Mapping[str, Any]) -> int:
    return len((_as_function(piece).get("function") or {}).get("arguments") or "")


def finished(
    draft: Draft,
    *,
    model: str,
    empty_arguments: str = "",
    ids_taken: Iterable[str] = (),
    calls_allowed: bool = True,
    new_id: Callable[[], str] = lambda: f"call_{uuid4().hex[:24]}",
) -> ModelAnswer:
    """Judge a draft and make the answer of it, or raise an `UnusableAnswer`.

    `empty_arguments` is what "no argument text at all" means to this provider: nothing ("") in OpenAI's
    protocol, and by Anthropic's documentation an empty object ("{}"). It applies to whole answers only; a
    stream that was cut raises before. `ids_taken` are the call ids already used in the transcript.
    """
    _refuse_unusable(draft, calls_allowed=calls_allowed)
    ids = _unique_ids([call.call_id for call in draft.calls], set(ids_taken), new_id)
    calls = tuple(
        ProposedCall(call_id, call.name, "".join(call.fragments) or empty_arguments)
        for call_id, call in zip(ids, draft.calls, strict=True)
    )
    return ModelAnswer(
        text=draft.text,
        calls=calls,
        finish_reason=str(draft.finish_reason),
        input_tokens=draft.input_tokens,
        output_tokens=draft.output_tokens,
        model=model,
        raw=_raw(draft, calls, model),
    )


def _refuse_unusable(draft: Draft, *, calls_allowed: bool) -> None:
    """Raise when the answer may not be used; calls decide, the finish reason only where it warns."""
    if draft.finish_reason is None:
        raise StreamCut("the stream ended without a finish reason")
    if draft.finish_reason == "length":
        raise ModelAnswerCut("the answer was cut at its length limit")
    if draft.finish_reason == "content_filter" and draft.calls:
        raise ModelAnswerCut("a content filter stopped the answer in the middle of its calls")
    if draft.finish_reason == "content_filter" and not draft.text:
        raise ModelAnswerCut("a content filter left nothing of the answer")
    if draft.finish_reason in {"tool_calls", "function_call"} and not draft.calls:
        raise UnusableAnswer("the model announced tool calls and made none")
    if draft.calls and not calls_allowed:
        raise UnusableAnswer("the model called tools although it has none")


def _raw(draft: Draft, calls: tuple[ProposedCall, ...], model: str) -> dict[str, Any]:
    """Write the assistant message, with what its author wants back."""
    raw: dict[str, Any] = {"role": "assistant", "content": draft.text or (None if calls else "")}
    if calls:
        raw["tool_calls"] = [
            {
                "id": call.provider_call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments_text},
            }
            for call in calls
        ]
    sealed = [block for block in draft.thinking if _is_sealed(block)]
    if sealed:
        raw["thinking_blocks"] = sealed
    if draft.reasoning:
        raw["reasoning_content"] = draft.reasoning
    return {**raw, "origin": model}


def _unique_ids(ids: list[str], taken: set[str], new_id: Callable[[], str]) -> list[str]:
    """Make up missing ids and tell repeated ones apart, so that each result has one call to belong to."""
    unique: list[str] = []
    for call_id in ids:
        chosen, number = call_id or new_id(), 1
        while chosen in taken:
            number += 1
            chosen = _numbered(call_id, number) if call_id else new_id()
        taken.add(chosen)
        unique.append(chosen)
    return unique


def _numbered(call_id: str, number: int) -> str:
    head, mark, signature = call_id.partition(SIGNATURE_MARK)
    return f"{head}-{number}{mark}{signature}"


def _index(piece: Mapping[str, Any], default: int) -> int:
    index = piece.get("index")
    return default if index is None else int(index)


def _as_function(piece: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a free-text (custom) call like any other: its text is no JSON object and will be judged so."""
    custom = piece.get("custom")
    if not custom:
        return piece
    return {**piece, "function": {"name": custom.get("name"), "arguments": custom.get("input")}}


def _is_sealed(block: Mapping[str, Any]) -> bool:
    return block.get("type") != "thinking" or bool(block.get("signature"))

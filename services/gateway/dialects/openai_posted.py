"""What OpenAI clients post: of a history only what stands at its end counts, in the caller's own name.

Agent, tools and instructions are Placet's. A parameter that would change them is refused rather than passed over: its
sender would believe that it holds. What clients add to every request, such as tools of their own, is passed over, and
the answer names it in its header `Placet-Ignored`. What only tunes a model (temperature and its like) is passed over in
silence.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import dropwhile, takewhile
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field, StrictBool, TypeAdapter, ValidationError

from placet.contracts.errors import Refused
from placet.contracts.messages.message import Identifier
from placet.gateway.approvals.answers import Answer
from placet.gateway.dialects.openai import SERVER_LABEL, conversation_of, parse_request_id
from placet.gateway.dialects.openai_items import as_asked, before_others, is_answer, is_users, newest_of, spoken
from placet.gateway.dialects.posted import LeaveOut, checked_answers, checked_text, kept_reason
from placet.gateway.texts import Text

#: Messages or items of a posted history.
ITEMS_MAX = 2_000
_TEXTS = ("text", "input_text")
#: Where a request says which entries of a commit do not run; one without them approves all of it.
_LEAVE_OUT = "placet_leave_out"
_ENTRIES: TypeAdapter[tuple[str, ...]] = TypeAdapter(LeaveOut)
#: As messages carry it.
_LANGUAGE = re.compile(r"[a-z]{2}")
#: What frontends send in place of a conversation's id while they have none: it would be one for everybody.
_NO_IDS = frozenset({"", "new", "null", "undefined", "local"})

Items = Annotated[list[dict[str, Any]], Field(max_length=ITEMS_MAX)]
_Metadata = Annotated[dict[str, Any], Field(max_length=64)]


class _Posted(BaseModel):
    """What both dialects have."""

    #: Members of the metadata that are read; no others are kept.
    read: ClassVar[frozenset[str]] = frozenset({"language", _LEAVE_OUT})

    stream: StrictBool | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    metadata: _Metadata | None = Field(
        default=None,
        description="`conversation_id` names the conversation; `language` that of one that begins; "
        "`placet_leave_out`, in Responses, the entries of the approved commit that do not run, with commas between.",
    )

    @property
    def language(self) -> str:
        """The language of a conversation that begins; English where none, or no known form of one, is named."""
        language = (self.metadata or {}).get("language")
        return language if isinstance(language, str) and _LANGUAGE.fullmatch(language) else "en"

    @property
    def left_out(self) -> tuple[str, ...]:
        """The entries of a commit that do not run; raise Refused (400) for what names none."""
        given = (self.metadata or {}).get(_LEAVE_OUT)
        if given is None or given == "":
            return ()
        try:
            return _ENTRIES.validate_python([each.strip() for each in given.split(",")])
        except (AttributeError, ValidationError):
            raise invalid(f"metadata.{_LEAVE_OUT}", "must name entries, with commas between") from None

    @property
    def ignored(self) -> dict[str, str]:
        """The header that names what was passed over; empty where nothing was."""
        return {"placet-ignored": ", ".join(names)} if (names := list(self._passed_over())) else {}

    def _passed_over(self) -> Iterator[str]:
        if not all(map(_is_ours, self.tools or ())):
            yield "tools"
        if self.parallel_tool_calls is False:
            yield "parallel_tool_calls"
        if not (self.metadata or {}).keys() <= self.read:
            yield "metadata"

    def check(self) -> None:
        """Raise Refused (400) for what would change the agent."""
        if any(_is_ours(tool) and tool.get("require_approval", "always") != "always" for tool in self.tools or ()):
            raise unsupported("tools", "The rulebook says which calls wait: `require_approval` can only be `always`.")
        if self.tool_choice not in (None, "auto"):
            why = "The agent chooses its tools, and no caller switches them off: send `auto`, or leave it out."
            raise unsupported("tool_choice", why)


class ChatCompletionIn(_Posted):
    """A request for a chat completion; parameters that are not named here are passed over."""

    model: Annotated[Text, Field(min_length=1, max_length=256, description="The agent's name.")]
    messages: Annotated[Items, Field(min_length=1, description="The history; only what the user wrote last is read.")]
    n: int | None = None
    response_format: dict[str, Any] | None = None
    modalities: list[Any] | None = None
    stream_options: dict[str, Any] | None = None
    functions: Any = None
    function_call: Any = None

    read = _Posted.read | {"conversation_id"}

    def check(self) -> None:
        """Raise Refused (400) for what would change the agent, or what it cannot do."""
        super().check()
        if self.n not in {None, 1}:
            raise unsupported("n", "There is one answer.")
        if (self.response_format or {}).get("type", "text") != "text":
            raise unsupported("response_format", "The agent answers with text.")
        if self.modalities and self.modalities != ["text"]:
            raise unsupported("modalities", "The agent answers with text.")
        if (self.metadata or {}).get(_LEAVE_OUT):
            raise unsupported(f"metadata.{_LEAVE_OUT}", "It goes with an answer to an approval request, in Responses.")

    def _passed_over(self) -> Iterator[str]:
        yield from super()._passed_over()
        if self.functions:
            yield "functions"
        if self.function_call not in (None, "auto"):
            yield "function_call"

    @property
    def counts(self) -> bool:
        """Whether a stream shall end with what it took."""
        return (self.stream_options or {}).get("include_usage") is True

    @property
    def begins(self) -> bool:
        """Whether the history holds nothing but what the user writes now."""
        return all(map(is_users, spoken(self.messages)))

    @property
    def named(self) -> str:
        """The conversation that its metadata names, empty where they name none; raise Refused (400) for no text."""
        name = (self.metadata or {}).get("conversation_id")
        if not isinstance(name, str | None):
            raise misnamed("metadata.conversation_id")
        return name or ""

    def written(self) -> str:
        """Return what the user wrote last; raise Refused (400, 413) where that is no text."""
        newest = [*takewhile(is_users, reversed(spoken(self.messages)))][::-1]
        if not newest:
            raise invalid("messages", "must end with a message of the user")
        return _text_of(newest, "messages")

    @property
    def history(self) -> str:
        """A digest of all that was said, by whomever: the same for a history that is posted again."""
        said = [[message.get("role"), message.get("content")] for message in spoken(self.messages)]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def first(self) -> list[str]:
        """Return what the user wrote first: alone, and with all until an answer; empty where it could be no message."""
        began = dropwhile(lambda message: not is_users(message), spoken(self.messages))
        first = list(takewhile(is_users, began))
        try:
            return [_text_of(first[:1], "messages"), _text_of(first, "messages")]
        except Refused:
            return []


class ConversationName(BaseModel):
    """A conversation as the SDK also writes it."""

    id: Identifier


class ResponseIn(_Posted):
    """A request for a response; parameters that are not named here are passed over."""

    model: Annotated[Text, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="The agent's name; left out: the conversation's, else `default`."
    )
    input: Text | Items = ""
    conversation: Identifier | ConversationName | None = None
    previous_response_id: Annotated[str, Field(max_length=128)] | None = None
    instructions: Any = None
    background: StrictBool | None = None
    prompt: Any = None
    text: dict[str, Any] | None = None
    max_tool_calls: Any = None

    def check(self) -> None:
        """Raise Refused (400) for what would change the agent, or what it cannot do."""
        super().check()
        if self.instructions:
            raise unsupported("instructions", "The agent's instructions are Placet's.")
        if self.prompt:
            raise unsupported("prompt", "The agent's instructions are Placet's.")
        if self.background:
            raise unsupported("background", "A response is streamed or waited for.")
        form = (self.text or {}).get("format") or {"type": "text"}
        if not isinstance(form, dict) or form.get("type", "text") != "text":
            raise unsupported("text.format", "The agent answers with text.")
        if self.conversation and self.previous_response_id:
            raise invalid("previous_response_id", "cannot stand beside `conversation`")

    def _passed_over(self) -> Iterator[str]:
        yield from super()._passed_over()
        if self.max_tool_calls is not None:
            yield "max_tool_calls"
        if self._ends_with_words and any(item.get("approve") for item in self._newest if is_answer(item)):
            yield "mcp_approval_response"

    @property
    def named(self) -> str:
        """The conversation that it names itself; empty where it names none."""
        name = self.conversation
        return (name.id if isinstance(name, ConversationName) else name) or ""

    @property
    def knows_requests(self) -> bool:
        """Whether its client knows approval requests: it declares Placet's tools, or answers one."""
        return any(map(_is_ours, self.tools or ())) or any(map(is_answer, self._items))

    @property
    def remembered(self) -> set[str]:
        """The conversations that ids in its history name."""
        return {conversation_of(str(item.get("id"))) for item in self._items} - {""}

    @property
    def asked(self) -> str:
        """The approval that its history asks about last, or answers; empty for none."""
        for item in reversed(self._items):
            if named := parse_request_id(str(item.get("approval_request_id" if is_answer(item) else "id"))):
                return named[0]
        return ""

    @property
    def answered(self) -> set[str]:
        """The approvals that the answers at its end name, also those that are not read."""
        requests = [parse_request_id(str(item.get("approval_request_id"))) for item in self._newest if is_answer(item)]
        return {request[0] for request in requests if request}

    @property
    def _items(self) -> Items:
        return [] if isinstance(self.input, str) else self.input

    @property
    def begins(self) -> bool:
        """Whether its input holds nothing but what the user says now."""
        return isinstance(self.input, str) or len(self._newest) == len(before_others(spoken(self.input)))

    def written(self, known: Collection[str] = ()) -> str:
        """Return what the user wrote last, empty for answers alone; raise Refused (400, 413) where it is no text.

        `known`: what users wrote before what is answered was asked. Where nothing but the answers names a conversation,
        such words in front of an answer are those again: the client posts its history, and keeps no requests in it.
        """
        if isinstance(self.input, str):
            return _text_of([{"content": self.input}], "input")
        newest = self._newest
        if not newest:
            raise invalid("input", "must end with a message of the user, or with answers to approval requests")
        again = () if self.named or self.previous_response_id else known
        last = max((place for place, item in enumerate(newest) if is_answer(item)), default=0)
        before = [item for item in newest[:last] if not is_answer(item)]
        if before and _text_of(before, "input") in again:
            before = []
        new = [item for item in before if _content_text(item.get("content"), "input") not in again]
        messages = [*new, *(item for item in newest[last:] if not is_answer(item))]
        return _text_of(messages, "input") if messages else ""

    def answers(self) -> list[Answer]:
        """Return the answers to approval requests at the end; raise Refused (400) for one that is none, or too many.

        Of those in front of the user's words only denials are read: a history has an approval also where it never
        reached Placet, and the words may take it back.
        """
        given = [(item.get("approval_request_id"), _answer_of(item)) for item in self._newest if is_answer(item)]
        found = as_asked(given)
        if self._ends_with_words:
            found = [replace(each, has_words=True) for each in found if not each.approved]
        checked_answers(found, partial(invalid, "input"))
        if len({(each.approval_id, each.approved) for each in found}) > len({each.approval_id for each in found}):
            raise invalid("input", "has a yes and a no to the same approval request")
        left_out = self.left_out
        if left_out and [answer.approved for answer in found] != [True]:
            raise invalid(f"metadata.{_LEAVE_OUT}", "goes with one answer, which approves")
        return [replace(answer, leave_out=left_out) for answer in found]

    @cached_property
    def _newest(self) -> list[Mapping[str, Any]]:
        return newest_of(self._items)

    @property
    def _ends_with_words(self) -> bool:
        return not all(map(is_answer, self._newest[-1:]))


def conversation_named(text: str | None) -> str:
    """Return the conversation that a frontend's header names; empty for a word that stands for none yet."""
    name = (text or "").strip()
    return "" if name.lower() in _NO_IDS or name.startswith(("{{", "local:")) else name


def invalid(param: str, detail: str, kind: str = "invalid-request", *, is_header: bool = False) -> Refused:
    """Return the refusal of a parameter, or of a header, that is no such thing."""
    place = {"parameter": param} if is_header else {"pointer": "#/" + param.replace(".", "/")}
    fault = {"detail": detail, **place}
    return Refused(f"`{param}` {detail}.", status=400, kind=kind, errors=[fault])


def misnamed(where: str) -> Refused:
    """Return the refusal of a conversation's name, which stands in a header or in metadata."""
    is_header = not where.startswith("metadata.")
    return invalid(where, "must be a text of letters, digits, _ and -, at most 64", is_header=is_header)


def unsupported(param: str, why: str) -> Refused:
    """Return the refusal of a parameter that would change the agent, or that it cannot heed."""
    fault = {"detail": "not supported", "pointer": "#/" + param.replace(".", "/")}
    return Refused(f"`{param}` is not supported. {why}", status=400, kind="unsupported-parameter", errors=[fault])


def _is_ours(tool: Any) -> bool:
    return isinstance(tool, dict) and tool.get("type") == "mcp" and tool.get("server_label") == SERVER_LABEL


def _answer_of(item: Mapping[str, Any]) -> Answer:
    request, approve, reason = item.get("approval_request_id"), item.get("approve"), item.get("reason")
    named = parse_request_id(request) if isinstance(request, str) else None
    if named is None or not isinstance(approve, bool) or not isinstance(reason, str | None):
        raise invalid("input", "has an mcp_approval_response without a request's id, or a yes or no")
    if "leave_out" in item:
        raise invalid("input", f"has an mcp_approval_response with `leave_out`, which is `metadata.{_LEAVE_OUT}`")
    return Answer(*named, approve, kept_reason(reason or ""))


def _text_of(messages: Sequence[Mapping[str, Any]], param: Literal["messages", "input"]) -> str:
    text = "\n\n".join(_content_text(message.get("content"), param) for message in messages)
    return checked_text(text, partial(invalid, param))


def _content_text(content: Any, param: str) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    if any(not isinstance(part, dict) or part.get("type") not in _TEXTS for part in parts):
        raise invalid(param, "has content that is no text")
    return "\n".join(str(part.get("text") or "") for part in parts)

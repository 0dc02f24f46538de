"""What an AG-UI client posts for a run: of its history we believe nothing but the newest message of the user.

History is the client's: it can say that anything was approved. What counts is what the caller asks for now, in their
own name: a new text, or answers to interrupts, each bound to the digest that the interrupt's id names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from services.gateway.conversations import Plan
from services.gateway.dialects.posted import MESSAGE_ID, Answer, checked_answers, checked_text, invalid_request
from services.gateway.texts import Text
from shared.ids import derived_id
from shared.messages.approvals import REASON_MAX
from shared.messages.message import Identifier

#: Messages of a posted history.
MESSAGES_MAX = 2_000
#: Interrupts that one run may name; clients name all of them, also those that they do not decide.
RESUME_MAX = 200
_INTERRUPT = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9a-f]{64})")
#: Reason of a decision that a client makes by abandoning a question.
ABANDONED = "Abandoned in the chat."


class _Payload(BaseModel):
    """An answer to an interrupt, as its `responseSchema` says."""

    model_config = ConfigDict(extra="forbid")

    approved: StrictBool | None = None
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""


class ResumeEntry(BaseModel):
    """What the client says to one interrupt."""

    model_config = ConfigDict(extra="ignore")

    interruptId: Annotated[str, Field(min_length=1, max_length=200)]  # noqa: N815 - the wire's name
    status: Literal["resolved", "cancelled"]
    payload: _Payload | None = None


class _Props(BaseModel):
    """What of `forwardedProps` counts, where a thread begins."""

    model_config = ConfigDict(extra="ignore")

    agent: Identifier = "default"
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"


@dataclass(frozen=True, slots=True)
class Resumed:
    """What the caller says to one interrupt."""

    interrupt_id: str
    #: Empty where it is none of ours.
    approval_id: str
    #: None where it is neither yes nor no, and decides nothing.
    answer: Answer | None
    #: Whether the question was abandoned: then it is no error where that decides nothing.
    abandoned: bool = False


class RunIn(BaseModel):
    """The input of a run. Front-end tools and context are taken and passed over, as is what an application adds."""

    model_config = ConfigDict(extra="ignore")

    threadId: Identifier = Field(description="The conversation's id.")  # noqa: N815 - the wire's name
    runId: Annotated[Text, Field(min_length=1, max_length=200)]  # noqa: N815 - the wire's name
    protocolVersion: Annotated[str, Field(pattern=r"^\d{1,4}\.\d{1,4}$")] | None = Field(  # noqa: N815 - the wire's name
        default=None, description="Left out by clients from before 1.0, which get no interrupts."
    )
    messages: Annotated[list[dict[str, Any]], Field(max_length=MESSAGES_MAX)] = Field(
        description="The history; only the newest message of the user is believed."
    )
    state: Any = Field(default=None, description="Given back with our part of it under `placet`.")
    tools: list[Any] = Field(default_factory=list)
    context: list[Any] = Field(default_factory=list)
    forwardedProps: _Props | None = Field(  # noqa: N815 - the wire's name
        default=None, description="For a thread that begins: `agent` and `language`."
    )
    resume: Annotated[list[ResumeEntry], Field(max_length=RESUME_MAX)] = Field(default_factory=list)

    @property
    def modern(self) -> bool:
        """Whether the client knows interrupts."""
        return self.protocolVersion is not None

    @property
    def plan(self) -> Plan:
        """What is said of a thread that begins."""
        props = self.forwardedProps or _Props()
        return Plan(props.agent, props.language)

    def written(self) -> tuple[str, str] | None:
        """Return the id and the text of the user's newest message; None where there is none.

        Raises Refused: 400 where it is more than text, 413 where it is too much of it.
        """
        newest = next((each for each in reversed(self.messages) if each.get("role") == "user"), None)
        if newest is None:
            return None
        text = _text_of(newest.get("content"))
        message_id = newest.get("id")
        if isinstance(message_id, str) and MESSAGE_ID.fullmatch(message_id):
            return message_id, text
        return derived_id("ag-ui", self.threadId, str(message_id), text), text

    def edited_id(self, message_id: str, text: str) -> str:
        """Return the id that an edited message gets: what was written first keeps its own."""
        return derived_id("ag-ui-edited", self.threadId, message_id, text)

    def resumed(self) -> list[Resumed]:
        """Return what the caller says to interrupts; raise Refused (400) for two things said to one, or too many."""
        if len({entry.interruptId for entry in self.resume}) < len(self.resume):
            raise invalid_request("must name each interrupt once", "#/resume")
        found = [_resumed(entry) for entry in self.resume]
        answers = [each.answer for each in found if each.answer is not None]
        checked_answers(answers, partial(invalid_request, pointer="#/resume"))
        return found


def _resumed(entry: ResumeEntry) -> Resumed:
    ours = _INTERRUPT.fullmatch(entry.interruptId)
    approval_id, digest = ours.groups() if ours else ("", "")
    if entry.status == "cancelled":
        no = Answer(approval_id, digest, approved=False, reason=ABANDONED)
        return Resumed(entry.interruptId, approval_id, no, abandoned=True)
    said = entry.payload or _Payload()
    answer = None if said.approved is None else Answer(approval_id, digest, said.approved, said.reason)
    return Resumed(entry.interruptId, approval_id, answer)


def _text_of(content: Any) -> str:
    """Return the text of a message, its parts joined."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        whole = len(texts) == len(content) and all(isinstance(text, str) for text in texts)
        content = "\n".join(map(str, texts)) if whole else None
    if not isinstance(content, str):
        raise invalid_request("the user's newest message must be text, or parts that are texts", "#/messages")
    return checked_text(content, partial(invalid_request, pointer="#/messages"))

"""Messages of one tool call: proposed, permitted, refused, finished, withdrawn."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from operator import not_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AwareDatetime, Field

from placet.contracts.messages.jobs import ACCOMPLISH_TOOL
from placet.contracts.messages.message import Digest, Identifier, Message, ResultKind, SignedMessage, Tenant, Value
from placet.contracts.messages.stage import COMMIT_TOOL, Staged, StagePlan, WorkspaceBase

if TYPE_CHECKING:
    from placet.contracts.messages.dead_letters import AbandonCall

ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
Pool = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
#: Calls of one answer of a model that are looked at; chats may post the answers to all of them at once.
CALLS_PER_STEP_MAX = 64


class Category(StrEnum):
    """How dangerous a tool is. The rulebook's defaults go by it."""

    SAFE_READ = "safe_read"
    SAFE_SEARCH = "safe_search"
    SAFE_COMPUTE = "safe_compute"
    UNSAFE_WRITE = "unsafe_write"
    UNSAFE_API = "unsafe_api"
    UNSAFE_EXEC = "unsafe_exec"


class ArgumentsChange(Value):
    """One edit that counted: from what the one before it left, the first from what was proposed."""

    person: str = Field(description="Whose edit it is, for example `person:ada`.")
    reason: str = Field(default="", description="Why, in their words.")
    arguments: str = Field(description="Canonical JSON text of the arguments after it, as people may see them.")


class Edited(Value):
    """What approvers changed about a call before it ran; for the model and the history, never executed."""

    person: str = Field(description="Who changed it last, for example `person:ada`.")
    reason: str = Field(default="", description="Why, in their words.")
    changes: list[ArgumentsChange] = Field(
        default_factory=list, description="Every edit that counted, in their order; empty from an older sender."
    )
    restored: bool = Field(default=False, description="True: the arguments are the proposed ones again.")
    proposed: str = Field(description="Canonical JSON text of the proposed arguments, as people may see them.")
    proposed_digest: Digest = Field(description="Of the proposed arguments themselves.")
    revision: int = Field(
        default=0, description="Of the approval, that the last edit made; 0: from an older sender, or not accepted yet."
    )


class ShownCall(Value):
    """One call as people may see it: everything but its real arguments, which only those get who judge or run it."""

    call_id: Identifier = Field(description="Placet's own id; the provider's id never leaves the agent.")
    tenant: Tenant
    conversation_id: Identifier
    turn_id: Identifier
    message_id: Identifier = Field(description="The user's message that triggered the turn.")
    agent: Identifier
    requester: str = Field(description="Id of the author of that message.")
    language: str = "en"
    labels: dict[str, str] = Field(default_factory=dict)
    tool: ToolName
    schema_digest: Digest = Field(
        description="Digest of the tool's name and parameter schema in the agent's catalogue."
    )
    shown_arguments: str = Field(
        description="Canonical JSON text of the arguments as people may see them, redacted values masked; it is all "
        "that any screen, log or API shows of them. Empty: nothing of them."
    )
    digest: Digest = Field(description="Of the real arguments.")
    step: int = Field(default=0, ge=0, description="Number of the model's answer within the turn; 0: not told.")
    position: int = Field(default=0, ge=0, description="Place among the calls of that answer, from 0.")
    quote: str = Field(
        default="", description="The agent's own words beside the call, cut. Shown as a quote or not at all."
    )
    asked: str = Field(
        default="",
        exclude_if=not_,
        description="The requester's message that led to the call, cut. Shown as a quote or not at all.",
    )
    origins: dict[str, list[str]] | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Where texts among the arguments stood before the call, by JSON pointer: `user` (the requester's "
        "own words), `agent` (the agent's instructions), `quoted` (what the requester quoted or pasted), `tool:NAME` "
        "(an output); an empty list: nowhere. What is not named was not looked for. Null: nobody looked. Evidence, no "
        "proof.",
    )


class ToolCall(ShownCall):
    """One call as the agent proposed it. `digest` binds tool, schema, arguments, tenant and conversation."""

    arguments: str = Field(description="Canonical JSON text (RFC 8785) of the arguments: the one byte string.")
    edited: Edited | None = Field(
        default=None, description="Set by approval where people changed the arguments; then `arguments` are theirs."
    )
    base: WorkspaceBase | None = Field(
        default=None,
        exclude_if=not_,
        description="Of attempts at a job: what it reads beneath its conversation's workspace, and where that is "
        "committed.",
    )

    def bare(self) -> Self:
        """Return the call as those get it who run it: without what only those need who judge it."""
        return (
            self.model_copy(update={"asked": "", "origins": None}) if self.asked or self.origins is not None else self
        )


class ToolCallProposed(Message):
    """The model asked for a call whose arguments fit the schema. Sent by the agent to policy."""

    type_name: ClassVar[str] = "placet.tool-call.proposed.v1"

    call: ToolCall
    earlier: list[int] = Field(
        default_factory=list,
        exclude_if=not_,
        description="Positions of the calls of the same answer that stand before it and were proposed too, in order.",
    )


class ToolCallPermitted(Message):
    """A call may run once. Sent by policy (a rule allows it) or approval (people said yes) to one executor pool."""

    type_name: ClassVar[str] = "placet.tool-call.permitted.v1"

    pool: Pool
    call: ToolCall
    permit: str = Field(description="Signed permit, JWS compact form; executors trust nothing else.")
    plan: StagePlan | None = Field(
        default=None, exclude_if=not_, description="Set where the permit is one to stage: how the rule wants it."
    )


class CallApproved(Message):
    """People said yes to a call that another rulebook held than the active one. Sent by approval to policy.

    Policy judges it again, and hands the permit on unless a rule denies the call by now.
    """

    type_name: ClassVar[str] = "placet.call.approved.v1"

    pool: Pool
    call: ToolCall
    permit: str = Field(description="Approval's permit, JWS compact form, as ToolCallPermitted carries it.")
    rule: str = Field(description="Name of the rule that held the call.")


#: What a person's answer is for the model: the result of the call that does not run, or what to do instead.
AnswerKind = Literal["result", "instruction"]


class ToolCallRefused(Message):
    """A call will never run. Sent by policy, approval, executor or jobs; the reason is for the model and for people."""

    type_name: ClassVar[str] = "placet.tool-call.refused.v1"
    tells: ClassVar[bool] = True

    call_id: Identifier
    conversation_id: Identifier
    tool: ToolName
    kind: ResultKind
    reason: str = Field(description="One plain sentence for the model: that nothing ran, and why.")
    decided_by: str = Field(default="", description="The person who denied or answered; empty where no person did.")
    answer_kind: AnswerKind | None = Field(default=None, description="Where a person answered: what `answer` is.")
    answer: str = Field(default="", description="Their words; empty where nobody answered.")
    ends_turn: bool = Field(default=False, description="Whether `decided_by` ends the turn of the call with it.")
    entries: tuple[Identifier, ...] = Field(
        default=(), description="Of a commit: those of its entries that are refused; empty: all of them."
    )

    @classmethod
    def of(cls, call: ToolCall | AbandonCall, kind: ResultKind, reason: str, **more: Any) -> Self:
        """Return the end of a call that never runs, by the call itself or by what is said about it."""
        ids = {name: getattr(call, name) for name in ("tenant", "call_id", "conversation_id", "tool")}
        return cls(**ids, kind=kind, reason=reason, **more)


#: Longest reason of a tool for handing a conversation over, in characters.
HANDOVER_REASON_MAX = 2_000


class Handover(Value):
    """A tool's wish that people take the conversation over."""

    reason: Annotated[str, Field(min_length=1, max_length=HANDOVER_REASON_MAX)] = Field(
        description="Why, for operators; the visitor is not told it."
    )


#: In the place of what a tool answered, where no broker took it.
LEFT_OUT: Mapping[str, str] = {"left_out": "larger than the message broker takes; the call ended as told here"}
#: Characters that are left then of what an entry of a commit says.
BRIEF_CHARACTERS = 200


class ToolCallFinished(Message):
    """A call ran, or may have run. Sent by the executor exactly once per call."""

    type_name: ClassVar[str] = "placet.tool-call.finished.v1"
    tells: ClassVar[bool] = True

    call_id: Identifier
    conversation_id: Identifier
    tool: ToolName
    kind: Literal["succeeded", "failed", "unknown", "staged"]
    data: Any = Field(default=None, description="What the tool answered; a JSON value.")
    error: str = Field(default="", description="Error text for the model; empty on success.")
    ui_blocks: list[dict[str, Any]] = Field(
        default_factory=list, description="Blocks for the frontend, never for the model."
    )
    edited: Edited | None = Field(default=None, description="What people changed about the call before it ran.")
    executed: str = Field(
        default="", description="What people may see of the arguments that ran, where they are not the proposed ones."
    )
    held: bool = Field(default=False, description="Whether people were asked about the call: it has an approval.")
    handover: Handover | None = Field(
        default=None, description="Set: the tool hands the conversation to people; the gateway sees to it."
    )
    staged: Staged | None = Field(
        default=None, exclude_if=not_, description="Of a `staged` call: its place in the workspace."
    )
    attempt: int = Field(ge=1, description="Fence of the attempt that ended the call.")
    started_at: AwareDatetime
    finished_at: AwareDatetime

    def in_brief(self) -> Self:
        """Return how the call ended, without what it answered: whoever waits for it hears that it ran, and goes on."""
        return self.model_copy(update={"data": _in_brief(self.tool, self.data), "ui_blocks": []})


def _in_brief(tool: str, data: Any) -> Any:
    """Return what is told in the place of an answer; of the house's own calls what others count on stays."""
    if not isinstance(data, dict) or tool not in {COMMIT_TOOL, ACCOMPLISH_TOOL}:
        return data if data is None else dict(LEFT_OUT)
    if tool == ACCOMPLISH_TOOL:
        return data | {"result": dict(LEFT_OUT)}
    return data | {"entries": [_entry_in_brief(each) for each in data.get("entries", [])]}


def _entry_in_brief(entry: dict[str, Any]) -> dict[str, Any]:
    brief = {name: str(entry.get(name, ""))[:BRIEF_CHARACTERS] for name in ("summary", "error")}
    return entry | brief | ({} if entry.get("data") is None else {"data": dict(LEFT_OUT)})


#: Longest text of a tool about its progress, in characters.
PROGRESS_TEXT_MAX = 200


class ToolCallProgressed(Message):
    """A tool says how far it is. Sent by the executor now and then while it runs; its end is ToolCallFinished.

    Of a call that people were asked about the first one, without fraction and text, says that it runs now.
    """

    type_name: ClassVar[str] = "placet.tool-call.progressed.v1"

    call_id: Identifier
    conversation_id: Identifier
    tool: ToolName
    fraction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="How much of its work is done, 0 to 1; null where the tool cannot say."
    )
    text: Annotated[str, Field(max_length=PROGRESS_TEXT_MAX)] = Field(
        default="", description="What it does now, for people; plain text."
    )
    attempt: int = Field(ge=1, description="Fence of the attempt that says so.")


#: What a person says of a call whose outcome nobody knew.
Resolution = Literal["ran", "did_not_run"]
#: Longest note to it, in characters.
NOTE_MAX = 2_000


class ResolveCall(SignedMessage):
    """A person has looked whether a call ran that was answered `unknown`. Sent by the gateway to the call's pool."""

    type_name: ClassVar[str] = "placet.tool-call.resolve.v1"

    call_id: Identifier
    pool: Pool
    outcome: Resolution
    note: Annotated[str, Field(max_length=NOTE_MAX, description="What they found, for people and for the model.")] = ""
    by: str = Field(description="Stable id of the person, for example `person:ada`.")


class CallResolved(Message):
    """Whether a call ran that was answered `unknown`: a new fact beside that answer, which stands. By the executor."""

    type_name: ClassVar[str] = "placet.tool-call.resolved.v1"
    tells: ClassVar[bool] = True

    call_id: Identifier
    conversation_id: Identifier
    tool: ToolName
    outcome: Resolution
    note: str = ""
    by: str
    resolved_at: AwareDatetime


class CallsWithdrawn(Message):
    """The conversation no longer wants these calls. What is not decided yet is closed; what is, runs and says so."""

    type_name: ClassVar[str] = "placet.tool-call.withdrawn.v1"

    conversation_id: Identifier
    call_ids: list[Identifier]
    kind: Literal["cancelled", "superseded"]
    reason: str
    by_default: Literal["wait", "supersede"] = Field(
        default="supersede",
        description="For `superseded`: what becomes of a call whose rule does not say. With `wait`, only calls that "
        "wait for people now and whose rule says `supersede` are closed.",
    )

"""What the OpenAI dialects answer, for the API's description: OpenAI's members, and ours beside them in `placet`.

They describe and check nothing; tests hold what is sent against them. A client passes over members
that it does not know.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from placet.gateway.approvals.details import PanelOut


class WaitingRequest(BaseModel):
    """An approval that waits for people."""

    id: str = Field(description="Of the approval.")
    request_id: str = Field(description="Of its `mcp_approval_request`.")
    call_id: str
    tool: str
    summary: str | None = None
    reason: str | None = None
    digest: str
    revision: int | None = None
    approvers: list[str] | None = None
    expires_at: str | None = None
    staged: list[dict[str, Any]] | None = Field(default=None, description="Of a commit: what it does.")
    panels: list[PanelOut] | None = Field(
        default=None, description="Where the caller's vote counts: the ways to say yes, and how far each is."
    )


class EndedCall(BaseModel):
    """How a call ended."""

    id: str
    tool: str
    kind: str
    ui_blocks: list[dict[str, Any]] | None = None


class HoldingPeople(BaseModel):
    """Who answers in the agent's place."""

    state: Literal["waiting", "operator"]
    operator: str


class ResponsePlacet(BaseModel):
    """What Placet tells beside a response."""

    approvals: list[WaitingRequest]
    holder: HoldingPeople | None = Field(description="null: the agent answers.")
    limit: str | None = Field(default=None, description="Which limit ended the turn, such as `steps`.")
    reason: str | None = Field(default=None, description="What people are told of that.")


class CompletionPlacet(ResponsePlacet):
    """What Placet tells beside a completion."""

    conversation_id: str
    calls: list[EndedCall]


class ResponseError(BaseModel):
    """Why a turn failed."""

    type: str
    code: str
    message: str
    param: None


class ResponseConversation(BaseModel):
    """The conversation of a response."""

    id: str


class ResponseUsage(BaseModel):
    """Tokens of the model's steps."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens_details: dict[str, int]


class ResponseOut(BaseModel):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "failed"]
    error: ResponseError | None
    incomplete_details: None
    instructions: None
    metadata: dict[str, str]
    model: str
    output: list[dict[str, Any]] = Field(description="`message`, `mcp_approval_request` and `mcp_call`, as OpenAI's.")
    parallel_tool_calls: bool
    temperature: None
    tool_choice: str
    tools: list[dict[str, Any]]
    top_p: None
    usage: ResponseUsage | None
    conversation: ResponseConversation
    previous_response_id: str | None
    placet: ResponsePlacet


class CompletionMessage(BaseModel):
    """What the assistant says."""

    role: Literal["assistant"]
    content: str
    refusal: None


class CompletionChoice(BaseModel):
    """The one choice."""

    index: int
    message: CompletionMessage
    finish_reason: Literal["stop"]
    logprobs: None


class CompletionUsage(BaseModel):
    """Tokens of the model's steps."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionOut(BaseModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None = None
    placet: CompletionPlacet

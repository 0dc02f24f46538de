"""What somebody asks of the inbox: filters that all must fit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from placet.contracts.ids import own_id
from placet.contracts.messages.approvals import ClosedState
from placet.contracts.messages.tool_calls import Category, ToolName
from placet.gateway.approvals.search import ALTERNATIVES_MAX, alternatives
from placet.gateway.approvals.store.inbox import Filters
from placet.gateway.approvals.survey import Order
from placet.gateway.http.errors import invalid_request
from placet.gateway.identity.auth import Caller
from placet.gateway.texts import Moment, Text

#: Longest search, in characters.
SEARCH_MAX = 200
#: Longest age to ask for, in seconds: ten years.
AGE_MAX_SECONDS = 315_360_000

#: Filters of the query that the store takes under the same names.
_AS_THEY_ARE = ("tool", "agent", "category", "requester", "rule", "decided_by", "opened_after", "opened_before")

State = Literal["pending", ClosedState]


def _with_words(text: str) -> str:
    """Return `text`; raise ValueError where it is too long, or has no word or too many alternatives."""
    if len(text) > SEARCH_MAX:
        raise ValueError(f"must have at most {SEARCH_MAX} characters")
    if not any(char.isalnum() for char in text):
        raise ValueError("must have a word to look for")
    if len(alternatives(text)) > ALTERNATIVES_MAX:
        raise ValueError(f"must have at most {ALTERNATIVES_MAX} alternatives")
    return text


class InboxQuery(BaseModel):
    """The query of a list of approvals."""

    state: State | None = Field(default=None, description="Only approvals in this state.")
    mine: bool = Field(
        default=False, description="Only what you can decide now and have not voted on; implies `state=pending`."
    )
    tool: ToolName | None = Field(default=None, description="Only calls of this tool.")
    agent: Annotated[Text, Field(pattern=r"^.{1,128}$")] | None = Field(default=None, description="Only of this agent.")
    conversation: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = Field(
        default=None, description="Only of this conversation, and of jobs that its calls wait for."
    )
    category: Category | None = Field(default=None, description="Only calls of tools that can do this to the world.")
    requester: Annotated[Text, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="Only what they asked for, such as `person:ada`."
    )
    rule: Annotated[Text, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Only what this rule held."
    )
    decided_by: Annotated[Text, Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="Only what they decided, such as `person:ada`."
    )
    older_than: Annotated[int, Field(ge=0, le=AGE_MAX_SECONDS)] | None = Field(
        default=None, description="Only what was opened at least so many seconds ago."
    )
    opened_after: Moment | None = Field(default=None, description="Only what was opened then or later.")
    opened_before: Moment | None = Field(default=None, description="Only what was opened before.")
    sort: Order = Field(
        default="newest",
        description="`deadline`: nearest first; `risk`: what does most to the world first; `amount`: the largest "
        "argument that is named like an amount first. These three look at 1,000 that fit: for `deadline` the oldest, "
        "else the newest.",
    )
    q: Annotated[Text, AfterValidator(_with_words)] | None = Field(
        default=None, description='Words of summary and arguments, as in a web search: `payment -test "299 TRY" inv*`.'
    )
    limit: Annotated[int, Field(ge=1, le=200, description="Rows on a page.")] = 50
    cursor: Annotated[str, Field(max_length=400)] | None = Field(default=None, description="`next` of the page before.")

    def filters(self, caller: Caller) -> Filters | None:
        """Return what to look for; None where the caller sees none of it. Raise Refused (400) for a contradiction."""
        if self.mine and self.state not in {None, "pending"}:
            raise invalid_request("what waits for you is pending", parameter="state")
        conversation_id = own_id(caller.tenant, self.conversation) if self.conversation else None
        if conversation_id is not None and not caller.sees(conversation_id):
            return None
        return Filters(
            state="pending" if self.mine else self.state,
            conversation_id=conversation_id or caller.conversation_id,
            older_than_seconds=self.older_than,
            search=self.q,
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
        )

"""What approvals look like over HTTP: what goes in and what comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    Field,
    Strict,
    ValidationInfo,
    field_validator,
)

from placet.contracts.canonical import canonical_text
from placet.contracts.messages import GrantWish
from placet.contracts.messages.approvals import REASON_MAX, RESPONSE_MAX, GrantScope, Seconds, Verb
from placet.contracts.messages.stage import ENTRIES_MAX
from placet.contracts.messages.tool_calls import AnswerKind
from placet.domain.deciders import panels, person_by_person
from placet.domain.directory import Directory
from placet.gateway.approvals.decisions import Ask
from placet.gateway.approvals.held import held_of, is_large
from placet.gateway.conversations.items import arguments_value
from placet.gateway.http.pages import Page
from placet.gateway.store.read import Row
from placet.gateway.texts import Body, Text, storable_value

#: Decisions that one request may carry.
BATCH_MAX = 200


class CallOut(BaseModel):
    """The call that an approval is about, exactly as it would run."""

    id: str
    tool: str
    arguments: Any = Field(description="The arguments as a JSON value.")
    arguments_text: str = Field(description="The very bytes that the digest covers and the executor runs.")
    digest: str
    schema_digest: str
    origins: dict[str, list[str]] | None = Field(
        default=None,
        description="Where texts among the arguments stood before the call, by JSON pointer: `user`, `agent`, "
        "`quoted`, `tool:NAME`; an empty list: nowhere. Null: nobody looked. Evidence, no proof.",
    )


class ApprovalOut(BaseModel):
    """One approval."""

    id: str
    state: str
    revision: int
    digest: str = Field(description="Send it back with the decision: it names what you saw.")
    summary: str = Field(description="What will happen, in the visitor's language.")
    tool: str
    category: str = Field(description="What the tool can do to the world: `safe_read` to `unsafe_exec`.")
    rule: str = Field(description="Name of the rule that held the call.")
    rulebook_digest: str
    reason: str = Field(description="Why the call is held.")
    approvers: list[str] = Field(description="Who may approve by now; whom an escalation asked too is among them.")
    requester: str
    agent: str
    language: str
    conversation_id: str
    turn_id: str
    call: CallOut
    created_at: datetime
    expires_at: datetime
    undecidable: str | None = Field(
        default=None, description="Why nobody can approve it as people and groups are now; null where somebody can."
    )
    untold: bool = Field(
        default=False,
        description="True: it waits, and nobody was told: every card of it was given up, is kept back, or waits for "
        "another try. Said where approvals are listed and where one is shown with its story.",
    )
    restored_at: datetime | None = Field(
        default=None,
        description="When Placet was restored from a backup since it was asked for: see first whether it ran.",
    )
    stopped: str | None = Field(
        default=None,
        description="Why an administrator has stopped such calls; until that is lifted nobody approves it.",
    )
    closed_at: datetime | None = None
    decided_by: str | None = None
    decision_reason: str | None = None
    answer_kind: AnswerKind | None = Field(
        default=None, description="Where somebody answered instead of running the call: what `answer` is for the model."
    )
    answer: str | None = Field(default=None, description="The words that the model got instead.")
    arguments_revision: int = Field(default=1, description="Number of the arguments; an edit makes the next one.")
    claimed_by: str | None = Field(default=None, description='Who said "I\'m on it"; holds until `claimed_until`.')
    claimed_until: datetime | None = None
    cancel_asked_by: str | None = Field(
        default=None, description="Who wanted it cancelled after it was approved: it may have run."
    )
    cancel_asked_at: datetime | None = None


class ApprovalPage(Page[ApprovalOut]):
    """Approvals, newest first."""


CallId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

#: Fields that only some verbs take -> these verbs.
VERBS_OF: Mapping[str, tuple[Verb, ...]] = {
    "arguments": ("edit",),
    "leave_out": ("edit",),
    "response": ("respond",),
    "response_kind": ("respond",),
    "to": ("delegate",),
    "seconds": ("claim",),
    "allow_from_now_on": ("approve",),
    "end_turn": ("deny",),
}


class SeenIn(Body):
    """What a person saw, and why they decide as they do."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="The digest of the card that was shown.")]
    reason: Annotated[Text, Field(max_length=REASON_MAX)] = ""
    revision: Annotated[int, Strict(), Field(ge=1, le=2**31 - 1)] | None = None
    restored_at: AwareDatetime | None = Field(
        default=None,
        description="The card's `restored_at`, where it has one: nothing is approved by who was not told of a restore.",
    )


class VoteIn(SeenIn):
    """A person's yes or no about what they saw."""

    decision: Literal["approve", "deny"]


class GrantIn(Body):
    """How far "allow this from now on" shall go; what is left out is as far as the rule lets anybody go."""

    scope: GrantScope = "conversation"
    bounds: Annotated[list[Annotated[Text, Field(max_length=128)]], Field(max_length=64)] | None = Field(
        default=None,
        description="Arguments that may vary as far as the rule lets them: smaller numbers, texts by `name=glob`.",
    )
    uses: Annotated[int, Strict(), Field(ge=1, le=10_000)] | None = None
    expires_after_seconds: Annotated[Seconds, Strict()] | None = None


class DecisionIn(SeenIn):
    """A person's decision about what they saw. Each verb takes its own fields; one of another verb is refused."""

    # Stands first: whether a field goes with the verb is asked where the field is read.
    decision: Verb
    arguments: Annotated[dict[str, Any] | None, AfterValidator(storable_value)] = Field(
        default=None, description="For `edit`: the new arguments, all of them."
    )
    leave_out: Annotated[list[CallId], Field(max_length=ENTRIES_MAX)] = Field(
        default_factory=list,
        description="For `edit` of `commit_changes`, in place of `arguments`: the entries to leave out. What shares a "
        "key with them goes too.",
    )
    response: Annotated[Text, Field(max_length=RESPONSE_MAX)] = Field(
        default="", description="For `respond`: what the model gets instead; nothing runs."
    )
    response_kind: AnswerKind = Field(
        default="instruction", description="What `response` is for the model: the call's result, or what to do instead."
    )
    to: Annotated[str, Field(pattern=r"^(person:[A-Za-z0-9._@+-]{1,100})?$")] = Field(
        default="", description="For `delegate`: who may decide in your place."
    )
    seconds: Annotated[Seconds, Strict()] | None = Field(default=None, description="For `claim`: how long.")
    allow_from_now_on: GrantIn | None = Field(
        default=None, description="For `approve`, where the rule has `grants`: allow such calls from now on."
    )

    end_turn: Annotated[bool, Strict()] = Field(
        default=False,
        description="For `deny`: the turn ends too. What else of it waits is withdrawn, and the model reads why with "
        "the next message.",
    )

    @field_validator(*VERBS_OF)
    @classmethod
    def goes_with_its_verb(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what another verb takes: who sends it means something that would not happen."""
        name, verb = info.field_name or "", info.data.get("decision")
        unset = cls.model_fields[name].get_default(call_default_factory=True)
        if verb is not None and value != unset and verb not in VERBS_OF[name]:
            raise ValueError(f"'{name}' goes with {' or '.join(map(repr, VERBS_OF[name]))}, not with '{verb}'")
        if name == "leave_out" and value and info.data.get("arguments") is not None:
            raise ValueError("'leave_out' stands in the place of 'arguments'")
        return value

    def ask(self) -> Ask:
        """Return it as it is signed."""
        return Ask(
            self.decision,
            self.digest,
            self.reason,
            self.revision,
            self.restored_at,
            arguments="" if self.arguments is None else canonical_text(self.arguments),
            response=self.response,
            response_kind=self.response_kind,
            to=self.to,
            seconds=self.seconds,
            grant=GrantWish(**self.allow_from_now_on.model_dump()) if self.allow_from_now_on else None,
            end_turn=self.end_turn,
        )


class BatchItemIn(DecisionIn):
    """One decision of a batch."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The approval.")]


class BatchIn(Body):
    """Decisions about several approvals, each with its own digest."""

    items: Annotated[list[BatchItemIn], Field(min_length=1, max_length=BATCH_MAX)]


class BatchItemOut(BaseModel):
    """What became of one decision of a batch."""

    id: str
    status: int = Field(description="The HTTP status that this decision alone would have got.")
    approval: ApprovalOut | None = Field(default=None, description="As it is now, for status 200.")
    problem: dict[str, Any] | None = Field(default=None, description="The problem document otherwise.")


class BatchOut(BaseModel):
    """What became of each decision, in the order of the request."""

    items: list[BatchItemOut]


class Accepted(BaseModel):
    """The decision is on its way; look at the approval for what becomes of it."""

    id: str
    state: Literal["sent"] = "sent"


async def approvals_out(rows: Iterable[Row], directory: Directory, untold: Collection[str] = ()) -> list[ApprovalOut]:
    """Return rows of `read.approvals` as the API shows them, with whether what waits can be decided.

    A condition is asked of everybody who is named, so others are served meanwhile.
    """
    found = []
    for row in rows:
        why, large = "", is_large(row)
        if row["state"] == "pending":
            for why in person_by_person(held_of(row), directory, row["opened_by"]):  # noqa: B007 - the last one counts
                if large:
                    await asyncio.sleep(0)
        found.append(approval_out(row, why, untold))
    return found


def approval_out(row: Row, undecidable: str = "", untold: Collection[str] = ()) -> ApprovalOut:
    """Return a row of `read.approvals` as the API shows it.

    `undecidable` says why what waits cannot be decided, and `untold` has the approvals that nobody was told of.
    """
    held = held_of(row)
    return ApprovalOut.model_validate(
        {
            **row,
            "id": row["approval_id"],
            "approvers": list(dict.fromkeys(each for panel in panels(held) for each in panel.approvers)),
            "undecidable": undecidable or None,
            "untold": row["approval_id"] in untold,
            "restored_at": row.get("restored_at"),
            "stopped": row.get("stopped"),
            "decided_by": row["decided_by"] or None,
            "decision_reason": row["decision_reason"] or None,
            "answer": row["decision_reason"] if row["answer_kind"] else None,
            "call": {
                "id": row["call_id"],
                "tool": row["tool"],
                "arguments": arguments_value(row["arguments"]),
                "arguments_text": row["arguments"],
                "digest": row["digest"],
                "schema_digest": row["schema_digest"],
                "origins": row["origins"],
            },
        }
    )

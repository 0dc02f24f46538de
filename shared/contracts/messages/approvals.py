"""Messages of one approval: requested, opened, progressed, closed, and the decisions of people."""

from __future__ import annotations

from collections.abc import Mapping
from operator import not_
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AwareDatetime, Field

from placet.contracts.messages.message import Digest, Identifier, Message, SignedMessage, Value
from placet.contracts.messages.stage import StagedCall
from placet.contracts.messages.tool_calls import AnswerKind, Category, Pool, ShownCall, ToolCall

#: Longest reason that a person may give, in characters.
REASON_MAX = 2_000
#: Longest answer that a person may give instead of running a call, in characters.
RESPONSE_MAX = 8_000

Approver = Annotated[str, Field(pattern=r"^(requester|operators|person:.{1,128}|group:[a-z0-9][a-z0-9-]{0,63})$")]
ClosedState = Literal["approved", "denied", "answered", "expired", "withdrawn"]
#: How surely a person was known, weakest first: a mailed link, the chat's own token, Slack's signature, a web login.
Strength = Literal["link", "chat", "slack", "web"]
#: How the gateway or a channel knew the person.
Proof = Literal["api_key", "conversation_token", "web_session", "slack", "link"]
#: How surely each proof knows a person. An API key is as good as a web login: both are the person's own.
STRENGTH: Mapping[Proof, Strength] = {
    "link": "link",
    "conversation_token": "chat",
    "slack": "slack",
    "web_session": "web",
    "api_key": "web",
}


def strengths_met(proof: Proof, *, said: bool = False) -> tuple[Strength, ...]:
    """Return what a rule may ask for at most, as `min_strength`, so that somebody known by `proof` may decide.

    Who only says it in the chat (`said`) is known no more surely than the chat knows people, whoever they are.
    """
    strengths: tuple[Strength, ...] = get_args(Strength)
    known = strengths.index(STRENGTH[proof])
    return strengths[: (min(known, strengths.index("chat")) if said else known) + 1]


#: What a person can do with an approval.
Verb = Literal["approve", "deny", "abstain", "edit", "respond", "delegate", "claim", "release", "cancel"]
#: What a decision comes to. All but `accepted` change nothing.
Outcome = Literal["accepted", "already_decided", "stale", "not_allowed", "too_weak", "invalid", "not_found"]
#: What moved a pending approval on.
ProgressKind = Literal[
    "voted",
    "edited",
    "delegated",
    "claimed",
    "released",
    "reminded",
    "escalated",
]
#: A time after the opening of an approval, in seconds.
Seconds = Annotated[int, Field(ge=1, le=2_592_000)]


class Panel(Value):
    """One way to say yes: so many approvals of these people."""

    approvers: Annotated[list[Approver], Field(min_length=1)]
    approvals: Annotated[int, Field(ge=1, le=100)] = 1


class Demand(Value):
    """Another yes that is needed too: any one of its panels is enough, judged among those who meet its condition."""

    panels: Annotated[list[Panel], Field(min_length=1)]
    condition: Annotated[str, Field(max_length=4000)] = Field(
        default="", description="CEL as in `ApprovalRule.condition`, for the places of this demand alone."
    )


class Escalation(Value):
    """Whom to ask too when nobody has decided for a while; from then on they may decide in every panel."""

    after_seconds: Seconds
    approvers: Annotated[list[Approver], Field(min_length=1)]
    channels: list[str] = Field(default_factory=list)


#: Whose calls a grant covers, from narrow to wide.
GrantScope = Literal["conversation", "agent", "tenant"]


class GrantTerms(Value):
    """How far a person may go who says "allow this from now on". The rule's author decides, never the approver."""

    scope: Annotated[GrantScope, Field(description="The widest scope that may be given.")] = "conversation"
    bounds: list[str] = Field(
        default_factory=list,
        description="Arguments that may vary: `amount` may be any number from 0 to the approved one, and "
        "`to=*@example.org` any text that fits. Arguments that are not named here must be equal.",
    )
    uses: Annotated[int, Field(ge=1, le=10_000)] = 10
    expires_after_seconds: Seconds = 86_400


class ApprovalRule(Value):
    """Who may decide, what decides, and for how long. An empty list of approvers never means anyone."""

    approvers: Annotated[list[Approver], Field(min_length=1)]
    approvals: Annotated[int, Field(ge=1, le=100, description="Approvals of `approvers` that decide.")] = 1
    alternatives: list[Panel] = Field(default_factory=list, description="Other ways to say yes: any one is enough.")
    also: list[Demand] = Field(
        default_factory=list,
        exclude_if=not_,
        description="Demands that must all be met too: of a workspace whose entries ask different people.",
    )
    denials: Annotated[int, Field(ge=1, le=100, description="Denials that decide.")] = 1
    veto: list[Approver] = Field(default_factory=list, description="Whose single denial decides.")
    veto_window_seconds: Annotated[
        int, Field(ge=0, le=2_592_000, description="How long a denied call that is asked again is held; 0: not at all.")
    ] = 0
    veto_on: Literal["arguments", "tool"] = Field(
        default="arguments", description="What makes it the same call: the same arguments too, or the tool alone."
    )
    veto_within: Literal["conversation", "requester", "tenant"] = Field(
        default="conversation",
        description="Where it is the same call: in the same conversation, of the same requester, or anywhere in the "
        "tenant.",
    )
    exclude: list[Literal["requester", "agent_owner"]] = Field(
        default_factory=list, description="Four eyes: who may not decide, whatever groups they are in."
    )
    condition: Annotated[str, Field(max_length=4000)] = Field(
        default="", description="CEL over `person` and the call; false means this person may not decide."
    )
    reason_required: Literal["never", "deny", "always"] = "never"
    min_strength: Strength = Field(default="link", description="How surely a person must be known to decide.")
    edits: bool = Field(default=False, description="True: an approver may change arguments within the rulebook.")
    grants: GrantTerms | None = Field(default=None, description="None: nobody can allow such calls from now on.")
    expires_after_seconds: Seconds = 3600
    reminders_after_seconds: list[Seconds] = Field(default_factory=list)
    escalations: list[Escalation] = Field(default_factory=list)
    channels: list[str] = Field(default_factory=list)
    on_message_while_pending: Literal["continue", "wait", "supersede"] | None = Field(
        default=None, description="What a message of the user does while this waits; None leaves it to the agent."
    )
    while_pending: Literal["hold", "continue"] | None = Field(
        default=None,
        description="Whether the model goes on at once with an interim result while this waits; None leaves it to the "
        "agent.",
    )
    independent: bool = Field(
        default=False,
        description="True: such a call runs as soon as it is approved. Else calls that the model proposed together run "
        "one after the other, in its order, where several of them are approved.",
    )
    by_message: bool = Field(
        default=False, description="True: an exact yes or no in the chat decides, written by who may decide."
    )
    judged_again: bool = Field(
        default=True,
        description="Whether an approved call is judged once more where the rulebook has changed since it was held; "
        "false: people's yes is enough, whatever a rule says by now.",
    )


class ApprovalRequested(SignedMessage):
    """Policy holds a call for people. Sent to approval."""

    type_name: ClassVar[str] = "placet.approval.requested.v1"

    call: ToolCall
    category: Category = Field(description="What the tool can do to the world, by policy's rulebook.")
    pool: Pool
    permit_expires_after_seconds: Annotated[int, Field(ge=1)]
    summary: str = Field(description="What will happen, in the visitor's language, rendered from the stored arguments.")
    rule: str = Field(description="Name of the rule that held the call.")
    rulebook_digest: Digest
    directory_digest: str = Field(
        default="",
        max_length=64,
        exclude_if=not_,
        description="Of the file that says who is who, where it is not the rulebook: policy judged by it too.",
    )
    reason: str = Field(description="Why it is held, for people.")
    approval: ApprovalRule
    staged: list[StagedCall] = Field(
        default_factory=list,
        exclude_if=not_,
        description="Of `commit_changes`: its staged calls, in order; each gets a permit of its own.",
    )


class ApprovalOpened(Message):
    """A call waits for people. Every surface shows a card."""

    type_name: ClassVar[str] = "placet.approval.opened.v1"
    tells: ClassVar[bool] = True

    approval_id: Identifier
    revision: int = Field(ge=1)
    call: ShownCall
    summary: str
    rule: str
    reason: str
    approval: ApprovalRule
    expires_at: AwareDatetime
    category: Category | None = Field(default=None, description="What the tool can do to the world.")


class ApprovalProgressed(Message):
    """A pending approval changed without being decided. Surfaces redraw their card; a lower revision is older."""

    type_name: ClassVar[str] = "placet.approval.progressed.v1"
    tells: ClassVar[bool] = True

    approval_id: Identifier
    revision: int = Field(ge=1)
    conversation_id: Identifier
    call_id: Identifier
    kind: ProgressKind = "voted"
    note: str = Field(description="One sentence for people.")
    person: str = Field(default="", description="Who did it; empty for the clock.")
    expires_at: AwareDatetime | None = Field(default=None, description="The deadline as it is now.")
    claimed_until: AwareDatetime | None = Field(
        default=None, description="Set where it was claimed: how long it holds."
    )
    call: ShownCall | None = Field(default=None, description="Set where it was edited: the call as it would run now.")
    summary: str = Field(default="", description="Set where it was edited: what will happen now.")
    approvers: list[Approver] = Field(
        default_factory=list, description="Whom to ask too: set where it escalated or was delegated."
    )
    channels: list[str] = Field(default_factory=list, description="Set where it escalated: where to ask them.")


class CastVote(Value):
    """What somebody last said about the arguments as they are; an edit counts as its maker's approval."""

    person: str
    verb: Literal["approve", "deny", "abstain"]


class ApprovalClosed(Message):
    """The approval is over; its state never changes again."""

    type_name: ClassVar[str] = "placet.approval.closed.v1"
    tells: ClassVar[bool] = True

    approval_id: Identifier
    revision: int = Field(ge=1)
    conversation_id: Identifier
    call_id: Identifier
    state: ClosedState
    decided_by: str = Field(default="", description="Person whose decision ended it; empty for expiry and withdrawal.")
    reason: str = ""
    answer_kind: AnswerKind | None = Field(
        default=None, description="Where a person answered instead: what their words, the `reason`, are for the model."
    )
    closed_at: AwareDatetime
    votes: list[CastVote] = Field(
        default_factory=list,
        description="How each person voted, who decided included; empty where nobody had voted before it was decided.",
    )
    edited: ApprovalProgressed | None = Field(
        default=None, exclude_if=not_, description="Where it was edited: that news again, with the last arguments."
    )
    unopened: bool = Field(
        default=False, exclude_if=not_, description="Whether it was withdrawn before it was held: nobody was asked."
    )


class WatchedCallClosed(SignedMessage):
    """The approval of a call whose rule has a veto window is over, or a held call was given up before it had one.

    Sent to policy, which remembers a denial. Policy passes over calls that it does not watch.
    """

    type_name: ClassVar[str] = "placet.approval.watched-call-closed.v1"

    call_id: Identifier
    state: ClosedState
    decided_by: str = Field(default="", description="Person whose decision ended it; empty where nobody's did.")
    reason: str = Field(default="", description="In that person's words.")
    closed_at: AwareDatetime


class DecideApproval(Message):
    """A person decides. `decision` is signed by the gateway for this purpose only; the other fields are for routing."""

    type_name: ClassVar[str] = "placet.approval.decide.v1"

    approval_id: Identifier
    decision_id: Identifier
    answer_to: Identifier = Field(description="The gateway instance that waits for DecisionAnswered.")
    decision: str = Field(description="Signed DecisionClaims, JWS compact form.")


class GrantWish(Value):
    """What a person asks for who says "allow this from now on"; None takes what the rule's terms give at most."""

    scope: GrantScope = "conversation"
    bounds: list[str] | None = Field(default=None, max_length=64)
    uses: Annotated[int, Field(ge=1, le=10_000)] | None = None
    expires_after_seconds: Seconds | None = None


class DecisionClaims(Value):
    """What the gateway signs for a person's decision."""

    tenant: str
    approval_id: str
    decision_id: str
    at: float = Field(default=0, description="When it was signed, Unix seconds; 0 counts as before any restore.")
    verb: Verb
    digest: Digest = Field(description="Digest of the card that the person saw.")
    revision: int | None = Field(
        default=None, description="Revision that the person saw; None where the client sent none."
    )
    reason: Annotated[str, Field(max_length=REASON_MAX)] = ""
    person: str = Field(description="Stable id of the person, for example `visitor:…` or `person:ada`.")
    roles: list[Literal["requester", "operators"]] = Field(description="What the gateway proved about the person here.")
    conversation_id: str | None = Field(default=None, description="Set where the proof is a conversation token.")
    proof: Proof
    key_id: str | None = Field(
        default=None,
        description="The API key that proved them, also behind a web session: once it is revoked, this counts no more.",
    )
    arguments: str = Field(
        default="",
        description="For `edit`: canonical JSON text of the new arguments; a redacted value's mask keeps the value.",
    )
    response: Annotated[str, Field(max_length=RESPONSE_MAX)] = Field(
        default="", description="For `respond`: what the model gets instead of a result of the tool."
    )
    response_kind: AnswerKind = "instruction"
    to: str = Field(default="", description="For `delegate`: the person who may decide too, `person:<id>`.")
    seconds: Seconds | None = Field(default=None, description="For `claim`: how long.")
    grant: GrantWish | None = Field(default=None, description='For `approve`: "allow this from now on".')
    end_turn: bool = Field(
        default=False, description="For `deny`: the turn ends too; the model is told why with the next message."
    )
    opened_by: str = Field(
        default="",
        description="Who may have asked for the call beside its requester, separated by spaces: who opened the "
        "conversation with a key that may decide too, who had a key that wrote for its visitor, and, with `~` before "
        "them, people who wrote there, who asked for what a commit is made of, and who made a key for the requester "
        "that this one had not taken over.",
    )
    key_made_by: str = Field(
        default="", description="Who made the API key behind the proof, where somebody else did: `person:<id>`."
    )
    said: Annotated[str, Field(max_length=200)] = Field(
        default="", description="The words of the chat message that was taken for this decision; empty for any other."
    )


class DecisionAnswered(Message):
    """What became of a decision. Sent to the asking gateway instance only."""

    type_name: ClassVar[str] = "placet.decision.answered.v1"

    approval_id: Identifier
    decision_id: Identifier
    answer_to: Identifier
    outcome: Outcome
    state: str = Field(default="", description="State of the approval now.")
    revision: int = 0
    digest: str = ""
    decided_by: str = ""
    decided_at: AwareDatetime | None = None
    detail: str = ""


class EditProposed(SignedMessage):
    """A person wants other arguments. Approval asks policy whether the rulebook lets such a call be approved."""

    type_name: ClassVar[str] = "placet.approval.edit-proposed.v1"

    edit_id: Identifier
    approval_id: Identifier
    rule: str = Field(description="Name of the rule that held the call; an edit may not leave it.")
    call: ToolCall = Field(description="The call as it would be.")


class EditJudged(SignedMessage):
    """Policy's answer to EditProposed. Sent to approval."""

    type_name: ClassVar[str] = "placet.approval.edit-judged.v1"

    edit_id: Identifier
    approval_id: Identifier
    digest: Digest = Field(description="Digest of the call that was judged.")
    accepted: bool
    detail: str = Field(default="", description="Why not, for the person; empty where accepted.")
    summary: str = Field(default="", description="What would happen now; empty where not accepted.")
    shown_arguments: str = Field(
        default="",
        description="The arguments as people may see them, redacted ones masked; empty where not accepted.",
    )
    rulebook_digest: Digest

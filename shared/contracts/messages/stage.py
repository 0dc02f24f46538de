"""Messages about a workspace: what was staged, what people let through of it, and what became of the whole.

A *workspace* holds the staged entries of one conversation in their order. An *entry* is a staged call: either its
changes wait (`change`: the tool's pack can stage), or the whole call does (`call`). `commit_changes` is the one gated
call that runs a workspace; its arguments are `CommitArguments`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from placet.contracts.messages.message import Digest, Identifier, Message, Value

#: Name of the call that runs a workspace. No rulebook may give a tool this name.
COMMIT_TOOL = "commit_changes"
#: Name of the call by which the model asks for the commit before its turn ends.
PROPOSE_TOOL = "propose_changes"
#: Entries of a workspace at most.
ENTRIES_MAX = 1_000

EntryKind = Literal["change", "call"]
#: What becomes of the calls behind one that did not succeed.
OnFailure = Literal["stop", "go_on"]
#: When people are asked about a workspace: at the end of each turn, when somebody asks, or after each entry.
Decide = Literal["turn", "on_request", "each"]


class StagePlan(Value):
    """How a rule wants its staged calls decided and run."""

    decide: Decide = "turn"
    expires_after_seconds: Annotated[int, Field(ge=60, le=2_592_000)] = 86_400
    on_failure: OnFailure = "stop"


class Staged(Value):
    """What the executor says of an entry that it has just put into a workspace."""

    workspace_id: Identifier
    position: int = Field(ge=1, description="Place of the entry in its workspace; gapless, in the order of staging.")
    kind: EntryKind
    digest: Digest = Field(description="Of the entry, see `placet.contracts.canonical.entry_digest`.")
    keys: list[str] = Field(
        default_factory=list,
        description="What a change touches, `pack:key`: entries that share one stand and fall together.",
    )
    summary: str = Field(description="One line for the model and for people.")
    decide: Decide = "turn"


class StagedCall(Value):
    """A staged call that runs after the commit under a permit of its own: what the permit must say."""

    call_id: Identifier
    tool: str
    pool: str
    digest: Digest
    requester: str
    message_id: Identifier
    on_failure: OnFailure = "stop"


class CommitArguments(Value):
    """Arguments of `commit_changes`: the tree that people saw, and of which entries it is made, in order."""

    workspace_id: Identifier
    tree_digest: Digest
    entries: Annotated[list[Identifier], Field(min_length=1, max_length=ENTRIES_MAX)]


class StagedCallPermitted(Message):
    """A staged call of a decided workspace may run once. Sent by approval to the call's pool, which has the call."""

    type_name: ClassVar[str] = "placet.staged-call.permitted.v1"

    pool: str
    call_id: Identifier
    conversation_id: Identifier
    workspace_id: Identifier
    permit: str = Field(description="Signed permit, JWS compact form; it names the digest of the staged call.")


class DiscardWorkspace(Message):
    """Nobody wants the entries of a workspace any more. Sent by the agent to executors; what was committed stands."""

    type_name: ClassVar[str] = "placet.workspace.discard.v1"

    workspace_id: Identifier
    conversation_id: Identifier
    by: str = Field(default="", description="Person who said so; empty for the clock and for the agent itself.")
    reason: str = ""


#: What became of staged calls that never took effect, and never will.
Dropped = Literal["discarded", "left_out", "conflicted", "refused"]


class StagedCallsDropped(Message):
    """Staged calls will never take effect. Sent by the agent to policy, which frees what they took of limits."""

    type_name: ClassVar[str] = "placet.workspace.calls-dropped.v1"

    conversation_id: Identifier
    call_ids: Annotated[list[Identifier], Field(min_length=1, max_length=ENTRIES_MAX)]
    outcome: Dropped


#: What became of a whole workspace.
CommitState = Literal["committed", "partly_committed", "conflicted", "discarded"]
#: What became of one entry. `committed` and `conflicted` are said of changes, the kinds of results of staged calls.
EntryOutcomeKind = Literal["committed", "conflicted", "left_out", "succeeded", "failed", "refused", "unknown"]


class EntryOutcome(Value):
    """What became of one entry of a workspace."""

    call_id: Identifier
    tool: str
    outcome: EntryOutcomeKind
    summary: str = Field(default="", description="The line that stood for the entry when it was staged.")
    data: Any = Field(default=None, description="What a staged call answered; a JSON value.")
    error: str = Field(default="", description="Why it did not take effect, for the model; empty where it did.")


class CommitResult(Value):
    """The `data` with which the executor finishes `commit_changes`: every entry of the workspace, in order."""

    state: CommitState
    entries: list[EntryOutcome]


class ProposeChanges(Message):
    """A person wants the workspace of a conversation decided now. Sent by the gateway to the agent."""

    type_name: ClassVar[str] = "placet.workspace.propose.v1"

    conversation_id: Identifier
    by: Annotated[str, Field(min_length=1, max_length=128)]


class DiscardChanges(Message):
    """A person wants what is staged in a conversation thrown away. Sent by the gateway to the agent."""

    type_name: ClassVar[str] = "placet.workspace.discard-changes.v1"

    conversation_id: Identifier
    by: Annotated[str, Field(min_length=1, max_length=128)]
    reason: str = ""

"""Messages about a workspace: what was staged, what people let through of it, and what became of the whole.

A *workspace* holds the staged entries of one conversation in their order. An *entry* is a staged call: either its
changes wait (`change`: the tool's pack can stage), or the whole call does (`call`). `commit_changes` is the one gated
call that runs a workspace; its arguments are `CommitArguments`.
"""

from __future__ import annotations

from operator import not_
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


class WorkspaceBase(Value):
    """What an attempt's workspace stands on: the workspace of its job, as it was when the task began."""

    conversation_id: Identifier = Field(description="Of the job; its workspace is committed there.")
    entries: int = Field(ge=0, description="So many of its entries are seen, the first ones.")


class StagedEffect(Value):
    """What an entry comes to, whoever staged it and by which way: what attempts at a job vote on."""

    key: str = Field(default="", description="What a change touches, `pack:key`; empty: the call itself waits.")
    base: str | None = Field(default=None, description="What stood there before: digest and mode; null: nothing.")
    after: str | None = Field(default=None, description="What will stand there; of a call: digest of tool, arguments.")


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
    effects: list[StagedEffect] = Field(
        default_factory=list,
        exclude_if=not_,
        description="Of attempts at a job: what it makes of each key, in order.",
    )


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
    """Nobody wants what waits in a workspace. Sent by agent and jobs to executors; what was committed stands."""

    type_name: ClassVar[str] = "placet.workspace.discard.v1"

    workspace_id: Identifier
    conversation_id: Identifier
    by: str = Field(default="", description="Person who said so; empty for the clock and for the agent itself.")
    reason: str = ""
    entries: Annotated[list[Identifier], Field(max_length=ENTRIES_MAX)] = Field(
        default_factory=list,
        description="Those that nobody wants, and with them what stands on them; empty: all that wait.",
    )


class EntriesDiscarded(Message):
    """Entries went with others that they stood on, and nobody had named them. Sent by the executor to the agent."""

    type_name: ClassVar[str] = "placet.workspace.entries-discarded.v1"

    workspace_id: Identifier
    conversation_id: Identifier
    call_ids: Annotated[list[Identifier], Field(min_length=1, max_length=ENTRIES_MAX)]


class WorkspaceExpired(Message):
    """Nobody decided in time about what waited in a workspace: it is gone. Sent by the executor to the agent."""

    type_name: ClassVar[str] = "placet.workspace.expired.v1"

    workspace_id: Identifier
    conversation_id: Identifier


class MergeWorkspace(Message):
    """An attempt at a job has won: move its entries into the workspace of its job. Sent by jobs to executors."""

    type_name: ClassVar[str] = "placet.workspace.merge.v1"

    conversation_id: Identifier = Field(description="Of the attempt.")
    into: Identifier = Field(description="Conversation of the job.")
    job_id: Identifier
    attempt_id: Identifier


class MergedEntry(Value):
    """An entry of a job's workspace, as its commit names it."""

    call_id: Identifier
    digest: Digest
    tool: str = ""
    summary: str = Field(default="", description="The line that stands for it.")


#: What became of moving; `refused`: nothing was moved, and trying again changes nothing.
MergeState = Literal["merged", "conflicted", "refused"]


class WorkspaceMerged(Message):
    """What became of moving an attempt's entries. Sent by the executor to jobs."""

    type_name: ClassVar[str] = "placet.workspace.merged.v1"

    conversation_id: Identifier
    job_id: Identifier
    attempt_id: Identifier
    state: MergeState
    workspace_id: Identifier | None = Field(default=None, description="Of the job; set where it was merged.")
    entries: list[MergedEntry] = Field(default_factory=list, description="Those that were moved, in order.")
    total: int = Field(default=0, ge=0, description="Entries of the job's workspace by now.")
    keys: list[str] = Field(default_factory=list, description="What conflicts, `pack:key`; cut.")
    reason: str = Field(default="", description="Why it was refused, one sentence.")


#: What became of staged calls that never took effect, and never will.
Dropped = Literal["discarded", "left_out", "conflicted", "refused"]


class StagedCallsDropped(Message):
    """Staged calls will never take effect. Sent by agent and jobs to policy, which frees what they took of limits."""

    type_name: ClassVar[str] = "placet.workspace.calls-dropped.v1"

    conversation_id: Identifier
    call_ids: Annotated[list[Identifier], Field(min_length=1, max_length=ENTRIES_MAX)]
    outcome: Dropped


#: What became of a whole workspace.
CommitState = Literal["committed", "partly_committed", "conflicted", "discarded"]
#: What became of one entry. `committed` and `conflicted` are said of changes, the kinds of results of staged calls.
EntryOutcomeKind = Literal["committed", "conflicted", "left_out", "succeeded", "failed", "refused", "unknown"]


#: Outcomes of entries that took effect.
TOOK_EFFECT: frozenset[str] = frozenset({"committed", "succeeded"})


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

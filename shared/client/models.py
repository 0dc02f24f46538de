"""What the API answers, as far as a program that drives it needs; models keep what they do not name."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from placet.client.items import Open

Verb = Literal[
    "approve",
    "deny",
    "abstain",
    "edit",
    "respond",
    "delegate",
    "claim",
    "release",
    "cancel",
]
State = Literal["pending", "approved", "denied", "answered", "expired", "withdrawn"]


class Posted(Open):
    """A message that is stored and will be answered."""

    message_id: str
    conversation_id: str


class ConversationView(Open):
    """A conversation as it stands."""

    id: str
    state: Literal["idle", "working", "waiting", "ended"]
    agent: str | None
    language: str
    last_event_id: int
    holder: str


class ApprovalCall(Open):
    """The call that an approval is about, exactly as it would run."""

    id: str
    tool: str
    arguments: Any
    digest: str


class Approval(Open):
    """One approval. `digest` names what was seen; a decision sends it back."""

    id: str
    state: str
    revision: int
    digest: str
    summary: str
    tool: str
    rule: str
    reason: str
    requester: str
    conversation_id: str
    call: ApprovalCall
    created_at: datetime
    expires_at: datetime
    decided_by: str | None = None
    decision_reason: str | None = None
    #: Why an administrator has stopped such calls; None where nobody has. Nobody approves it until that is lifted.
    stopped: str | None = None
    #: When Placet was restored from a backup since it was asked for: see first whether it ran. It goes back as it came.
    restored_at: datetime | None = None


class StagedChange(Open):
    """What a staged entry makes of one key, such as a file; sizes in bytes, None: nothing is there."""

    pack: str
    key: str
    kind: Literal["create", "change", "delete"]
    base_size: int | None
    after_size: int | None
    binary: bool
    added: int
    removed: int
    #: Unified diff; only where it was asked for.
    diff: str = ""
    cut: bool = False


class StagedEntry(Open):
    """One staged call: its changes wait (`change`), or it runs later itself (`call`)."""

    id: str
    position: int
    tool: str
    kind: Literal["change", "call"]
    summary: str
    #: Entries that share one stand and fall together.
    keys: list[str]
    state: str
    error: str | None
    arguments: Any
    changes: list[StagedChange]


class Workspace(Open):
    """What is staged in a conversation, or what became of it."""

    id: str
    conversation_id: str
    state: Literal[
        "open", "proposed", "committing", "committed", "partly_committed", "conflicted", "discarded", "merged"
    ]
    created: int
    changed: int
    deleted: int
    calls: int
    entries: list[StagedEntry]


class JobAttempt(Open):
    """One attempt at a task of a job."""

    id: str
    attempt: int
    state: str
    vote: str | None
    answer: dict[str, Any] | None
    flags: list[str]


class JobTask(Open):
    """One task of a job."""

    id: str
    task: str
    state: str
    k: int
    votes: dict[str, int]
    answer: dict[str, Any] | None
    attempts: list[JobAttempt]


class Job(Open):
    """One job with its tasks."""

    id: str
    state: Literal["dividing", "running", "waiting", "withdrawing", "done", "failed", "cancelled"]
    task: str
    tasks: list[JobTask]
    tokens: int
    cost: float | None
    reason: str
    result: dict[str, Any] | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in {"done", "failed", "cancelled"}


class JobLine(Open):
    """One line of a job's log; `data["line"]` says it in a sentence."""

    id: int
    type: str
    data: dict[str, Any]

    @property
    def is_end(self) -> bool:
        """Whether it is the job's last one."""
        return self.type == "job" and self.data.get("state") in {"done", "failed", "cancelled"}


class ToolCall(Open):
    """One tool call with everything that happened to it."""

    id: str
    conversation_id: str
    tool: str
    arguments: Any
    state: str
    status: Literal["proposed", "pending_confirmation", "decided", "executing", "success", "error"]
    kind: str | None = None
    result: Any = None
    approval: Approval | None = None

"""Messages about jobs: tasks that several agents try, each alone, and vote on."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from placet.contracts.messages.conversations import Author
from placet.contracts.messages.message import Digest, Identifier, Message, Value
from placet.contracts.messages.stage import MergedEntry, WorkspaceBase

#: Longest task or context of a job, in characters.
TASK_MAX = 32_000
#: Tasks of one job at most.
TASKS_MAX = 5_000
#: Longest statement of one task, in characters.
TASK_TEXT_MAX = 4_000
#: Longest text of one attempt, with the answers that its task needs, in characters.
ATTEMPT_TEXT_MAX = 1_000_000
#: Attempts at one task at most.
ATTEMPTS_MAX = 100

#: Names of labels that every attempt's conversation has, for rules.
JOB_LABEL, TASK_LABEL, ATTEMPT_LABEL, DEPTH_LABEL = "job", "task", "attempt", "job_depth"
#: Rules tell a job's conversations by them, so nobody else gives them.
JOB_LABELS = frozenset({JOB_LABEL, TASK_LABEL, ATTEMPT_LABEL, DEPTH_LABEL})

#: Name of the call by which an agent has a job done. No rulebook may give a tool this name.
ACCOMPLISH_TOOL = "accomplish"
#: Where its permits go, in place of an executor pool: the agent begins the job.
JOBS_POOL = "placet-jobs"
#: Who ends the turn of an attempt that its job needs no more.
JOBS = "jobs"

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class JobTask(Value):
    """One atomic task of a job."""

    id: Name
    task: Annotated[str, Field(min_length=1, max_length=TASK_TEXT_MAX)]
    needs: Annotated[list[Name], Field(max_length=64)] = Field(
        default_factory=list, description="Ids of tasks whose answers it is given."
    )
    produces: Annotated[list[Name], Field(max_length=64)] = Field(
        default_factory=list, description="Declared outputs of the job that its answer is."
    )


class JobCaller(Value):
    """The call of an agent that a job is the answer of."""

    conversation_id: Identifier
    call_id: Identifier


class JobBudget(Value):
    """What a job may use up. An attempt is begun only where its share is still there."""

    tokens: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Of all attempts; none: any number.")
    cost: Annotated[float, Field(gt=0)] | None = Field(default=None, description="Of all attempts, in US dollars.")
    tokens_per_attempt: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=20_000, description="Reserved for each attempt; one that uses more is thrown out."
    )


class JobPlan(Value):
    """How a job goes about its task."""

    k: Annotated[int, Field(ge=1, le=20)] | None = Field(
        default=None, description="Votes by which an answer must be ahead; none: computed from p."
    )
    p: Annotated[float, Field(gt=0.5, le=1)] | None = Field(
        default=None, description="Share of attempts that are right; none: measured on the job's own votes."
    )
    epsilon: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.01, description="Chance at most that any task of the job is decided wrongly."
    )
    attempts_max: Annotated[int, Field(ge=1, le=ATTEMPTS_MAX)] = 25
    parallel_max: Annotated[int, Field(ge=1, le=100)] = Field(default=4, description="Tasks that are tried at a time.")
    tasks_max: Annotated[int, Field(ge=1, le=TASKS_MAX)] = 100
    min_complexity: Annotated[int, Field(ge=0, le=10)] = Field(
        default=0, description="0 to 10: a task that the agent finds easier than this stays one task."
    )
    answer_tokens_max: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Tokens that the model may write in one step; a longer answer is thrown out."
    )
    attempt_seconds: Annotated[int, Field(ge=1, le=2_592_000)] = Field(
        default=3_600, description="After this an attempt counts as lost, and another one takes its place."
    )


class RunJob(Message):
    """Do a job. Sent by the gateway, and by the agent for `accomplish`; the same id again is the same job."""

    type_name: ClassVar[str] = "placet.job.run.v1"

    job_id: Identifier
    agent: Identifier
    author: Author
    task: Annotated[str, Field(min_length=1, max_length=TASK_MAX)]
    context: Annotated[str, Field(max_length=TASK_MAX)] = ""
    root: Annotated[str, Field(max_length=1_024)] = Field(
        default="", description="Folder that the job is about, told to its agents; where files may be, their pack says."
    )
    outputs: Annotated[list[Name], Field(max_length=64)] = Field(
        default_factory=list, description="What the job must produce; none: the answers of the last tasks."
    )
    tasks: Annotated[list[JobTask], Field(max_length=TASKS_MAX)] = Field(
        default_factory=list, description="A division made before; none: the agent divides the task."
    )
    answer_schema: dict[str, Any] | None = Field(
        default=None, description="JSON Schema of each task's answer, an object; none: {answer: string}."
    )
    plan: JobPlan = Field(default_factory=JobPlan)
    budget: JobBudget = Field(default_factory=JobBudget)
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"
    labels: dict[str, str] = Field(default_factory=dict)
    caller: JobCaller | None = Field(default=None, description="The call that it answers; none: a person asked for it.")
    asked: Digest | None = Field(
        default=None, description="Of what a person asked for by this id: the same id with another one is refused."
    )
    depth: int = Field(default=1, ge=1, description="1, and one more for each job that it is part of.")


class CancelJob(Message):
    """Nobody wants a job any more. Sent by the gateway or the agent; one that is over stays as it ended."""

    type_name: ClassVar[str] = "placet.job.cancel.v1"

    job_id: Identifier
    by: Annotated[str, Field(min_length=1, max_length=128)]


class AttemptRequested(Message):
    """Try a task in a conversation of its own, without a word of other attempts. Sent by jobs to the agent."""

    type_name: ClassVar[str] = "placet.attempt.requested.v1"

    conversation_id: Identifier
    message_id: Identifier
    job_id: Identifier
    attempt_id: Identifier
    agent: Identifier
    author: Author
    text: Annotated[str, Field(min_length=1, max_length=ATTEMPT_TEXT_MAX)]
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"
    labels: dict[str, str] = Field(default_factory=dict)
    variant: int = Field(default=0, ge=0, description="Number of the attempt; the agent's profile says what differs.")
    answer_schema: dict[str, Any] = Field(description="JSON Schema of the arguments of `final_answer`, an object.")
    tokens_max: int = Field(ge=1, description="Of the whole attempt.")
    cost_max: float | None = Field(default=None, ge=0, description="Of jobs that it has done, in US dollars.")
    answer_tokens_max: int | None = Field(default=None, description="Written in one step.")
    caller: JobCaller | None = Field(default=None, description="The call that hears of what people are asked here.")
    base: WorkspaceBase = Field(description="What it reads beneath its own changes: the same for all of its task.")


class CallSurfaced(Message):
    """People are asked in a job that a call waits for, or were. Sent by the agent to itself."""

    type_name: ClassVar[str] = "placet.attempt.surfaced.v1"

    conversation_id: Identifier
    call_id: Identifier = Field(description="The call `accomplish` of this conversation.")
    kind: Literal["tool_call", "approval"]
    data: dict[str, Any] = Field(description="The item as the attempt's log has it.")


class AttemptWithdrawn(Message):
    """Nobody waits for an attempt, or for the decision about a job, any more. Sent by jobs to the agent.

    No model is asked there again, what people are asked there is withdrawn, and what is staged there is thrown away.
    """

    type_name: ClassVar[str] = "placet.attempt.withdrawn.v1"

    conversation_id: Identifier
    by: Annotated[str, Field(min_length=1, max_length=128)]
    merged: bool = Field(default=False, description="What it left staged waits in the workspace of its job now.")


#: Why an attempt has no vote.
Flag = Literal[
    "malformed_call",
    "no_final_answer",
    "step_limit",
    "token_limit",
    "answer_too_long",
    "no_model",
    "stopped",
]


class AttemptEnded(Message):
    """An attempt is over. Sent by the agent to jobs."""

    type_name: ClassVar[str] = "placet.attempt.ended.v1"

    conversation_id: Identifier
    job_id: Identifier
    attempt_id: Identifier
    answer: dict[str, Any] | None = Field(default=None, description="None where a flag says why there is none.")
    tree_digest: Digest | None = Field(
        default=None,
        description="Of the contents that it left staged, by key, and of its staged calls, in order; none: nothing.",
    )
    staged: int = Field(default=0, description="Entries that wait in its workspace.")
    flags: list[Flag] = Field(default_factory=list)
    reason: str = Field(default="", description="One sentence for people where it has no answer.")
    steps: int = 0
    calls: int = 0
    refused: int = Field(default=0, description="Of its calls: by a rule, or by an emergency stop.")
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = Field(default=None, description="In US dollars; none: nobody knows the price.")
    asked_again: int = Field(
        default=0, description="Times that a worker died while a model was asked: what it said then is paid and lost."
    )


class ProposeJob(Message):
    """A job is done but for what it changes: ask people about its workspace, once. Sent by jobs to the agent."""

    type_name: ClassVar[str] = "placet.job.propose.v1"

    conversation_id: Identifier = Field(description="Of the job: it has this one question and nothing else.")
    message_id: Identifier
    job_id: Identifier
    agent: Identifier
    author: Author
    text: Annotated[str, Field(min_length=1, max_length=TASK_MAX)]
    said: str = Field(default="", description="What the job answers, beside the question; cut.")
    language: Annotated[str, Field(pattern=r"^[a-z]{2}$")] = "en"
    labels: dict[str, str] = Field(default_factory=dict)
    workspace_id: Identifier
    entries: Annotated[list[MergedEntry], Field(min_length=1)] = Field(description="All of it, in order.")
    caller: JobCaller | None = None


#: What became of a job's workspace; `not_committed`: nothing of it happened.
CommitEnd = Literal["committed", "partly_committed", "conflicted", "not_committed", "unknown"]


class JobCommitted(Message):
    """What became of the workspace of a job. Sent by the agent to jobs."""

    type_name: ClassVar[str] = "placet.job.committed.v1"

    conversation_id: Identifier
    job_id: Identifier
    state: CommitEnd
    done: int = Field(default=0, ge=0, description="Entries that took effect.")
    left_out: int = Field(default=0, ge=0, description="Entries that people left out.")
    reason: str = ""


class JobEvents(Message):
    """New lines of a job's log. Transient: what is lost is found in the log."""

    type_name: ClassVar[str] = "placet.job.events.v1"

    job_id: Identifier
    events: list[dict[str, Any]] = Field(description="{id, type, at, data}; ids are gapless per job.")

"""Where messages travel, as one table: message -> exchange and key -> consuming queues -> dead letters.

Both footings read this table: RabbitMQ is declared from it (and `deploy/rabbitmq/definitions.json` is made from it),
and the in-process bus of the embedded footing routes by it. The AsyncAPI document is drawn from it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from placet.contracts import messages as m
from placet.contracts.messages import ENVELOPE_EVENTS_MAX, Message

SERVICES = ("gateway", "agent", "policy", "approval", "notifier", "executor", "jobs", "dead_letters")
DEAD_LETTERS = "dead-letters"
#: Delays of the retry queues, in seconds. The n-th retry waits in the n-th, later ones in the last.
RETRY_DELAYS_SECONDS = (1, 5, 30, 120)
#: Retries of a Transient event before it becomes a dead letter.
RETRIES_MAX = 8
#: Redeliveries by the broker (a consumer died while holding the message) before the dead letter. High on purpose: a
#: crashing consumer takes its prefetched neighbours with it, so this only bounds a message that kills its consumer.
DELIVERY_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Destination:
    """An exchange and a routing key: events for the same destination may share an envelope."""

    exchange: str
    key: str


@dataclass(frozen=True, slots=True)
class Route:
    """How one type of message is sent."""

    exchange: str
    key: Callable[[Any], str]
    #: Events per envelope at most. `executions` keeps 1 where its pool says nothing else, so that a worker does not
    #: hoard slow work.
    batch: int = ENVELOPE_EVENTS_MAX
    #: True: a message that reaches no queue is an error of the publisher.
    mandatory: bool = True
    #: True: never stored, sent at most once, lost without harm.
    transient: bool = False


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One durable quorum queue, its consumer and its bindings."""

    name: str
    service: str
    bindings: tuple[Destination, ...]
    #: Envelopes that the broker hands to one consumer ahead of their acknowledgement.
    prefetch: int = 64


EXCHANGES = (
    "messages",
    "tool-calls",
    "approvals",
    "decisions",
    "executions",
    "tool-results",
    "conversations",
    "jobs",
    DEAD_LETTERS,
)

ROUTES: dict[type[Message], Route] = {
    m.MessagePosted: Route("messages", lambda x: x.tenant),
    m.OperatorSpoke: Route("messages", lambda x: x.tenant),
    m.HolderChanged: Route("messages", lambda x: x.tenant),
    m.ConversationEnded: Route("messages", lambda x: x.tenant),
    m.StopTurn: Route("messages", lambda x: x.tenant),
    m.ConsentAnswered: Route("messages", lambda x: x.tenant),
    m.HandoverRequested: Route("conversations", lambda x: f"handover.{x.tenant}"),
    m.ConversationItems: Route("conversations", lambda x: f"items.{x.tenant}", mandatory=False, transient=True),
    m.ConversationDelta: Route("conversations", lambda x: f"delta.{x.tenant}", mandatory=False, transient=True),
    m.ToolCallProposed: Route("tool-calls", lambda _: "tool-call.proposed"),
    m.CallApproved: Route("approvals", lambda _: "call.approved"),
    m.ToolCallPermitted: Route("executions", lambda x: x.pool, batch=1),
    m.ToolCallRefused: Route("tool-results", lambda _: "tool-call.refused"),
    m.ToolCallFinished: Route("tool-results", lambda _: "tool-call.finished"),
    m.ToolCallProgressed: Route("conversations", lambda x: f"progress.{x.tenant}"),
    m.ResolveCall: Route("decisions", lambda x: resolve_key(x.pool)),
    m.CallResolved: Route("tool-results", lambda _: "tool-call.resolved"),
    m.CallsWithdrawn: Route("tool-calls", lambda _: "tool-call.withdrawn"),
    m.ApprovalRequested: Route("approvals", lambda _: "approval.requested"),
    m.ApprovalOpened: Route("approvals", lambda _: "approval.opened"),
    m.ApprovalProgressed: Route("approvals", lambda _: "approval.progressed"),
    m.ApprovalClosed: Route("approvals", lambda _: "approval.closed"),
    m.WatchedCallClosed: Route("approvals", lambda _: "watched-call.closed"),
    m.DecideApproval: Route("decisions", lambda _: "decide"),
    m.DecisionAnswered: Route("decisions", lambda x: f"answered.{x.answer_to}", mandatory=False),
    m.EditProposed: Route("approvals", lambda _: "edit.proposed"),
    m.EditJudged: Route("approvals", lambda _: "edit.judged"),
    m.GrantAsked: Route("decisions", lambda _: "grant-asked"),
    m.RevokeGrant: Route("decisions", lambda _: "grant-revoke"),
    m.ResolveDeadLetter: Route("decisions", lambda _: "dead-letter"),
    m.AbandonCall: Route("decisions", lambda x: abandon_key(x.queue)),
    m.KeyOffered: Route("decisions", lambda _: "key-offered"),
    m.ApprovalCommented: Route("decisions", lambda _: "approval-commented"),
    m.RetryDelivery: Route("decisions", lambda _: "delivery-retry"),
    m.RetryWebhookEvent: Route("decisions", lambda _: "webhook-retry"),
    m.TryRulebook: Route("decisions", lambda _: "try-rulebook"),
    m.RulebookTried: Route("decisions", lambda x: f"tried.{x.answer_to}", mandatory=False),
    m.MailBounced: Route("decisions", lambda _: "mail-bounced"),
    m.StagedCallPermitted: Route("executions", lambda x: x.pool, batch=1),
    m.StagedCallsDropped: Route("tool-calls", lambda _: "workspace.calls-dropped"),
    m.DiscardWorkspace: Route("tool-calls", lambda _: "workspace.discard"),
    m.ProposeChanges: Route("messages", lambda x: x.tenant),
    m.RunJob: Route("jobs", lambda _: "job.run"),
    m.CancelJob: Route("jobs", lambda _: "job.cancel"),
    m.AttemptRequested: Route("jobs", lambda _: "attempt.requested"),
    m.AttemptWithdrawn: Route("jobs", lambda _: "attempt.withdrawn"),
    m.AttemptEnded: Route("jobs", lambda _: "attempt.ended"),
    m.CallSurfaced: Route("jobs", lambda _: "attempt.surfaced"),
    m.MergeWorkspace: Route("tool-calls", lambda _: "workspace.merge"),
    m.WorkspaceExpired: Route("tool-results", lambda _: "workspace.expired"),
    m.EntriesDiscarded: Route("tool-results", lambda _: "workspace.entries-discarded"),
    m.WorkspaceMerged: Route("jobs", lambda _: "workspace.merged"),
    m.ProposeJob: Route("jobs", lambda _: "job.propose"),
    m.JobCommitted: Route("jobs", lambda _: "job.committed"),
    m.JobEvents: Route("conversations", lambda x: f"job.{x.tenant}", mandatory=False, transient=True),
    m.DiscardChanges: Route("messages", lambda x: x.tenant),
}
#: Every message by its type on the wire.
MESSAGES: dict[str, type[Message]] = {cls.type_name: cls for cls in ROUTES}


def abandon_key(queue_name: str) -> str:
    """Return the routing key of AbandonCall for the queue that a dead letter came from."""
    return f"abandon.{queue_name}"


def _abandonments(queue_name: str) -> Destination:
    return Destination("decisions", abandon_key(queue_name))


def resolve_key(pool: str) -> str:
    """Return the routing key of ResolveCall for an executor pool."""
    return f"resolve.{pool}"


def destination_of(message: Message) -> Destination:
    """Return where `message` goes."""
    route = ROUTES[type(message)]
    return Destination(route.exchange, route.key(message))


def reader_of(destination: Destination) -> str:
    """Return the queue of who acts on what goes there, the first of several; empty where that is told nowhere."""
    exchange, key = destination.exchange, destination.key
    if not exchange:
        return key
    for spec in QUEUES:
        if any(each.exchange == exchange and key_matches(each.key, key) for each in spec.bindings):
            return spec.name
    return executor_queue(key).name if destination == permits_of(key) else ""


def executor_queue(pool: str) -> QueueSpec:
    """Return the queue of one executor pool. Prefetch 1: what waits, waits where every worker can take it."""
    name = f"executor.{pool}"
    words = Destination("decisions", resolve_key(pool))
    return QueueSpec(name, "executor", (permits_of(pool), _abandonments(name), words), prefetch=1)


def permits_of(pool: str) -> Destination:
    """Return where the permits of an executor pool go."""
    return Destination(ROUTES[m.ToolCallPermitted].exchange, pool)


def answers_key(instance: str) -> str:
    """Return the routing key of DecisionAnswered for one gateway instance."""
    return f"answered.{instance}"


def trials_key(instance: str) -> str:
    """Return the routing key of RulebookTried for one gateway instance."""
    return f"tried.{instance}"


def _from(exchange: str, *keys: str) -> tuple[Destination, ...]:
    return tuple(Destination(exchange, key) for key in keys)


QUEUES = (
    QueueSpec("agent.messages", "agent", _from("messages", "#")),
    QueueSpec("agent.tool-results", "agent", (*_from("tool-results", "#"), _abandonments("agent.tool-results"))),
    QueueSpec(
        "agent.approvals", "agent", _from("approvals", "approval.opened", "approval.progressed", "approval.closed")
    ),
    QueueSpec(
        "agent.attempts",
        "agent",
        _from("jobs", "attempt.requested", "attempt.withdrawn", "job.propose", "attempt.surfaced"),
    ),
    # Of calls that begin a job: the agent has what the job is to be, and asks the jobs service.
    QueueSpec("agent.permits", "agent", (permits_of(m.JOBS_POOL), _abandonments("agent.permits"))),
    QueueSpec("jobs.commands", "jobs", _from("jobs", "job.run", "job.cancel")),
    QueueSpec("jobs.attempts", "jobs", _from("jobs", "attempt.ended", "workspace.merged", "job.committed")),
    QueueSpec("agent.progress", "agent", _from("conversations", "progress.#")),
    QueueSpec(
        "policy.tool-calls", "policy", (*_from("tool-calls", "tool-call.proposed"), _abandonments("policy.tool-calls"))
    ),
    QueueSpec("policy.edits", "policy", _from("approvals", "edit.proposed")),
    QueueSpec(
        "policy.approved-calls",
        "policy",
        (*_from("approvals", "call.approved"), _abandonments("policy.approved-calls")),
    ),
    QueueSpec("approval.edits", "approval", _from("approvals", "edit.judged")),
    QueueSpec("policy.grants", "policy", _from("decisions", "grant-asked", "grant-revoke")),
    # Only what says that a call did not run: what ran stays counted, so its end is no news here.
    QueueSpec(
        "policy.tool-results",
        "policy",
        (
            *_from("tool-results", "tool-call.refused", "tool-call.resolved"),
            *_from("tool-calls", "workspace.calls-dropped"),
        ),
    ),
    QueueSpec("policy.watched-calls", "policy", _from("approvals", "watched-call.closed")),
    QueueSpec("policy.trials", "policy", _from("decisions", "try-rulebook")),
    QueueSpec("approval.withdrawals", "approval", _from("tool-calls", "tool-call.withdrawn")),
    QueueSpec(
        "approval.requests",
        "approval",
        (*_from("approvals", "approval.requested"), _abandonments("approval.requests")),
    ),
    QueueSpec("approval.decisions", "approval", _from("decisions", "decide")),
    QueueSpec(
        "notifier.approvals",
        "notifier",
        (
            *_from("approvals", "approval.opened", "approval.progressed", "approval.closed"),
            # How an approved call ended stands on its card too. Behind the approval's own news in one queue.
            *_from("tool-results", "tool-call.finished"),
            *_from("conversations", "progress.#"),
            # Webhooks hear of it.
            *_from("tool-results", "tool-call.refused"),
        ),
    ),
    QueueSpec("notifier.bounces", "notifier", _from("decisions", "mail-bounced")),
    QueueSpec(
        "notifier.commands",
        "notifier",
        _from("decisions", "delivery-retry", "webhook-retry", "key-offered", "approval-commented"),
    ),
    # Whatever pool an executor serves: all of them keep workspaces.
    QueueSpec("workspaces.commands", "executor", _from("tool-calls", "workspace.discard", "workspace.merge")),
    QueueSpec("gateway.handovers", "gateway", _from("conversations", "handover.#")),
    QueueSpec("dead-letters.commands", "dead_letters", _from("decisions", "dead-letter")),
    QueueSpec(DEAD_LETTERS, "dead_letters", _from(DEAD_LETTERS, "#")),
)


def queue(name: str) -> QueueSpec:
    """Return the queue called `name`; executor queues are made from their pool's name."""
    if name.startswith("executor."):
        return executor_queue(name.removeprefix("executor."))
    return next(spec for spec in QUEUES if spec.name == name)


def key_matches(pattern: str, key: str) -> bool:
    """Tell whether a topic pattern matches a routing key, as AMQP 0-9-1 says: `*` one word, `#` any number."""
    return _words_match(pattern.split("."), key.split("."))


def _words_match(pattern: list[str], words: list[str]) -> bool:
    match pattern:
        case []:
            return not words
        case ["#", *rest]:
            return any(_words_match(rest, words[i:]) for i in range(len(words) + 1))
        case [first, *rest]:
            return bool(words) and first in {"*", words[0]} and _words_match(rest, words[1:])
    return False


def retry_delay(attempt: int) -> int:
    """Return how long the given retry (1 for the first) waits, in seconds."""
    return RETRY_DELAYS_SECONDS[min(attempt, len(RETRY_DELAYS_SECONDS)) - 1]


def retry_name(delay: int) -> str:
    """Return the name of the retry exchange and queue that hold an event for `delay` seconds."""
    return f"retry.{delay}s"


def queue_arguments(spec: QueueSpec) -> dict[str, Any]:
    """Return the declaration arguments of a queue beside its type: every limit explicit, the same on 3.10 and 4.3."""
    if spec.name == DEAD_LETTERS:
        return {"x-delivery-limit": DELIVERY_LIMIT}
    return {
        "x-delivery-limit": DELIVERY_LIMIT,
        "x-dead-letter-exchange": DEAD_LETTERS,
        "x-dead-letter-routing-key": spec.name,
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }


def retry_arguments(delay: int) -> dict[str, Any]:
    """Return the declaration arguments of a retry queue.

    Expired events dead-letter to the default exchange with the routing key they were published with, which is the
    name of the queue they came from.
    """
    return {
        "x-message-ttl": delay * 1000,
        "x-dead-letter-exchange": "",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
    }

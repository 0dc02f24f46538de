"""Who may do what on the broker: the second fence behind signatures.

Owns the table of senders; everything else follows from the topology. A stolen service user can then lie only about
what its service says anyway: an agent cannot permit, an executor cannot decide. Topic permissions hold for an exchange
only where a user has one, so every exchange that a user may write to or bind from gets one.

The broker asks for a key where somebody publishes, and does not tell exchanges from queues by name. So a gateway, which
declares queues, could declare an exchange too and send with any key to what it may write to: there signatures hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from placet.contracts import messages as m
from placet.contracts.messages import Message
from placet.contracts.topology import (
    DEAD_LETTERS,
    QUEUES,
    RETRY_DELAYS_SECONDS,
    ROUTES,
    SERVICES,
    executor_queue,
    retry_name,
)

#: Message -> the services that send it.
SENDERS: Mapping[type[Message], tuple[str, ...]] = {
    m.MessagePosted: ("gateway",),
    m.ConversationEnded: ("gateway",),
    m.StopTurn: ("gateway",),
    m.OperatorSpoke: ("gateway",),
    m.HolderChanged: ("gateway",),
    m.ConsentAnswered: ("gateway",),
    m.ToolCallProposed: ("agent",),
    m.CallsWithdrawn: ("agent",),
    m.ApprovalRequested: ("policy",),
    m.ApprovalOpened: ("approval",),
    m.ApprovalProgressed: ("approval",),
    m.ApprovalClosed: ("approval",),
    m.WatchedCallClosed: ("approval",),
    m.CallApproved: ("approval",),
    m.EditProposed: ("approval",),
    m.EditJudged: ("policy",),
    m.DecideApproval: ("gateway",),
    m.DecisionAnswered: ("approval",),
    m.GrantAsked: ("approval",),
    m.RevokeGrant: ("gateway",),
    m.ResolveDeadLetter: ("gateway",),
    m.AbandonCall: ("dead_letters",),
    m.RetryDelivery: ("gateway",),
    m.RetryWebhookEvent: ("gateway",),
    m.KeyOffered: ("gateway",),
    m.ApprovalCommented: ("gateway",),
    m.TryRulebook: ("gateway",),
    m.RulebookTried: ("policy",),
    m.ResolveCall: ("gateway",),
    m.MailBounced: ("gateway",),
    m.ToolCallPermitted: ("policy", "approval"),
    m.ToolCallProgressed: ("executor",),
    m.ToolCallFinished: ("executor", "jobs"),
    m.ToolCallRefused: ("policy", "approval", "executor", "jobs"),
    m.CallResolved: ("executor",),
    m.HandoverRequested: ("agent",),
    m.ConversationItems: ("agent",),
    m.ConversationDelta: ("agent",),
    m.RunJob: ("agent", "gateway"),
    m.CancelJob: ("agent", "gateway"),
    m.AttemptRequested: ("jobs",),
    m.AttemptWithdrawn: ("jobs",),
    m.MergeWorkspace: ("jobs",),
    m.WorkspaceExpired: ("executor",),
    m.EntriesDiscarded: ("executor",),
    m.WorkspaceMerged: ("executor",),
    m.ProposeJob: ("jobs",),
    m.CallSurfaced: ("agent",),
    m.JobCommitted: ("agent",),
    m.AttemptEnded: ("agent",),
    m.JobEvents: ("jobs",),
    m.StagedCallPermitted: ("policy", "approval", "executor"),
    m.StagedCallsDropped: ("agent", "jobs"),
    m.DiscardWorkspace: ("agent", "jobs"),
    m.ProposeChanges: ("gateway",),
    m.DiscardChanges: ("gateway",),
}

#: The private queues of each gateway instance, `gateway.live.<instance>` and `gateway.answers.<instance>`.
PRIVATE_QUEUES: Mapping[str, str] = {"gateway": r"gateway\.(live|answers)\.[A-Za-z0-9_-]+"}
#: What such a queue may be bound to: exchange -> pattern of the binding's key.
BOUND_BY: Mapping[str, Mapping[str, str]] = {
    "gateway": {"decisions": r"^((answered|tried)\.|approval-commented$)", "conversations": r"^(delta|items|job)\."}
}
#: Who may write to the default exchange, whose key is any queue's name: dead_letters, to send a dead letter back.
REPLAYERS = ("dead_letters",)
#: How the broker calls the default exchange in permissions.
DEFAULT_EXCHANGE = "amq.default"
#: RabbitMQ reads an empty pattern as "nothing".
NOTHING = ""

RETRIES = tuple(retry_name(delay) for delay in RETRY_DELAYS_SECONDS)


@dataclass(frozen=True)
class TopicRight:
    """Patterns of the routing keys that a user may publish with, and bind with, on one exchange."""

    write: str = NOTHING
    read: str = NOTHING


@dataclass(frozen=True)
class Rights:
    """What one user may do. Patterns of names; an exchange and a queue of one name are not told apart."""

    configure: str
    write: str
    read: str
    topics: Mapping[str, TopicRight] = field(default_factory=dict)


class _Unknown:
    """Stands for a message in a route's key function: what differs between messages becomes a pattern."""

    def __init__(self, pools: Iterable[str]) -> None:
        self.tenant = self.answer_to = self.queue = ".+"
        self.pool = _one_of(pools)


def rights_of(service: str, pools: Iterable[str]) -> Rights:
    """Return what the broker user of `service` may do where the executor pools are `pools`."""
    pools = tuple(pools)
    queues, private = _queues_of(service, pools), PRIVATE_QUEUES.get(service)
    topics = _topic_rights(service, queues, pools)
    own = [private] if private else []
    default = [_literal(DEFAULT_EXCHANGE)] if service in REPLAYERS else []
    return Rights(
        configure=_anchored(own),
        write=_anchored([*own, *default, *map(_literal, topics)]),
        read=_anchored([*own, *map(_literal, [*queues, *BOUND_BY.get(service, ())])]),
        topics=topics,
    )


def _topic_rights(service: str, queues: tuple[str, ...], pools: tuple[str, ...]) -> dict[str, TopicRight]:
    keys = _sent_keys(service, pools)
    bound = BOUND_BY.get(service, {})
    rights = {
        exchange: TopicRight(_anchored(keys.get(exchange, ())), bound.get(exchange, NOTHING))
        for exchange in sorted({*keys, *bound})
    }
    # A retry and a burial say in their key which queue they come from: nobody may name another's.
    returning = TopicRight(_anchored(map(_literal, queues)))
    return rights | dict.fromkeys((*RETRIES, DEAD_LETTERS), returning)


def _sent_keys(service: str, pools: tuple[str, ...]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for message, senders in SENDERS.items():
        if service in senders:
            route = ROUTES[message]
            keys.setdefault(route.exchange, []).append(_key_pattern(route.key(_Unknown(pools))))
            keys[route.exchange] += [m.JOBS_POOL] if message is m.ToolCallPermitted else []
    return keys


def _queues_of(service: str, pools: tuple[str, ...]) -> tuple[str, ...]:
    specs = (*QUEUES, *(executor_queue(pool) for pool in pools))
    return tuple(spec.name for spec in specs if spec.service == service)


def _key_pattern(key: str) -> str:
    """Escape the dots between a key's words, and leave the patterns among them alone."""
    return r"\.".join(".+" if word == "\0" else word for word in key.replace(".+", "\0").split("."))


def _literal(name: str) -> str:
    return name.replace(".", r"\.")


def _one_of(patterns: Iterable[str]) -> str:
    return f"({'|'.join(patterns)})"


def _anchored(patterns: Iterable[str]) -> str:
    patterns = tuple(dict.fromkeys(patterns))
    return f"^{_one_of(patterns)}$" if patterns else NOTHING


def all_rights(pools: Iterable[str]) -> dict[str, Rights]:
    """Return the rights of every service's user."""
    pools = tuple(pools)
    return {service: rights_of(service, pools) for service in SERVICES}

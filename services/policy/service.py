"""Wires policy."""

from __future__ import annotations

from functools import partial

from services.policy import handlers
from services.policy.rulebook import load_rulebook
from services.policy.settings import PolicySettings
from shared.consumer import Handler
from shared.messages import AbandonCall, Message, ToolCallProposed
from shared.service import Runtime, Service, Subscription
from shared.signing import load_signer
from shared.topology import queue


def build(settings: PolicySettings, runtime: Runtime) -> Service:
    """Return policy, ready to run; raise RulebookInvalid for a bad rulebook and OSError where its key is missing."""
    deps = handlers.Deps(load_rulebook(settings.rulebook), load_signer(settings.keys, "policy"))
    of_calls: dict[type[Message], Handler] = {
        ToolCallProposed: partial(handlers.judge_call, deps=deps),
        AbandonCall: partial(handlers.abandon_call, deps=deps),
    }
    return Service(
        name="policy",
        runtime=runtime,
        subscriptions=(Subscription(queue("policy.tool-calls"), of_calls),),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )

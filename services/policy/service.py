"""Wires policy."""

from __future__ import annotations

from functools import partial

from services.policy import handlers
from services.policy.rulebook import load_rulebook
from services.policy.settings import PolicySettings
from shared.messages import GrantAsked, RevokeGrant, ToolCallProposed, ToolCallRefused
from shared.service import Runtime, Service, Subscription
from shared.signing import load_signer, load_verifier
from shared.topology import queue


def build(settings: PolicySettings, runtime: Runtime) -> Service:
    """Return policy, ready to run; raise RulebookInvalid for a bad rulebook and OSError where its key is missing."""
    deps = handlers.Deps(
        load_rulebook(settings.rulebook), load_signer(settings.keys, "policy"), load_verifier(settings.keys)
    )
    judge_call = partial(handlers.judge_call, deps=deps)
    give_grant = partial(handlers.give_grant, deps=deps)
    return Service(
        name="policy",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("policy.tool-calls"), {ToolCallProposed: judge_call}),
            Subscription(queue("policy.grants"), {GrantAsked: give_grant, RevokeGrant: handlers.revoke_grant}),
            Subscription(queue("policy.tool-results"), {ToolCallRefused: handlers.give_back}),
        ),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )

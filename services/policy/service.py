"""Wires policy."""

from __future__ import annotations

from functools import partial
from typing import Any

from services.policy import handlers
from services.policy.active import LOOK_EVERY_SECONDS, ActiveRulebook
from services.policy.purging import Purging
from services.policy.settings import PolicySettings
from services.policy.trials import try_rulebook
from shared.consumer import Handler, Together
from shared.messages import (
    AbandonCall,
    CallResolved,
    EditProposed,
    GrantAsked,
    Message,
    RevokeGrant,
    ToolCallProposed,
    ToolCallRefused,
    TryRulebook,
    WatchedCallClosed,
)
from shared.service import Duty, Runtime, Service, Subscription
from shared.signing import load_signer, load_verifier
from shared.topology import queue


def build(settings: PolicySettings, runtime: Runtime) -> Service:
    """Return policy, ready to run; raise RulebookInvalid for a bad rulebook and OSError where its key is missing."""
    active = ActiveRulebook(settings.rulebook, runtime.units)
    deps = handlers.Deps(active, load_signer(settings.keys, "policy"), load_verifier(settings.keys))
    purging = Purging(runtime.units.database, active, keep_days=settings.policy_keep_days)
    of_calls: dict[type[Message], Handler | Together[Any]] = {
        ToolCallProposed: Together(partial(handlers.judge_calls, deps=deps)),
        AbandonCall: partial(handlers.abandon_call, deps=deps),
    }
    of_results: dict[type[Message], Handler | Together[Any]] = {
        ToolCallRefused: handlers.give_back,
        CallResolved: handlers.take_resolved,
    }
    remember_denial = partial(handlers.remember_denial, deps=deps)
    judge_edit = partial(handlers.judge_edit, deps=deps)
    give_grant = partial(handlers.give_grant, deps=deps)
    return Service(
        name="policy",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("policy.tool-calls"), of_calls),
            Subscription(queue("policy.edits"), {EditProposed: judge_edit}),
            Subscription(queue("policy.grants"), {GrantAsked: give_grant, RevokeGrant: handlers.revoke_grant}),
            Subscription(queue("policy.tool-results"), of_results),
            Subscription(queue("policy.watched-calls"), {WatchedCallClosed: remember_denial}),
            # A queue of its own: a simulation takes its time, and verdicts do not wait for it.
            Subscription(queue("policy.trials"), {TryRulebook: partial(try_rulebook, active=active)}),
        ),
        duties=(
            Duty("rulebook", LOOK_EVERY_SECONDS, active.look),
            Duty("purge", settings.policy_purge_seconds, purging.purge_old),
        ),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )

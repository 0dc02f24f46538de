"""Wires policy."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from placet.contracts.messages import (
    AbandonCall,
    CallApproved,
    CallResolved,
    EditProposed,
    GrantAsked,
    Message,
    RevokeGrant,
    StagedCallsDropped,
    ToolCallProposed,
    ToolCallRefused,
    TryRulebook,
    WatchedCallClosed,
)
from placet.contracts.signing import load_signer, load_verifier
from placet.contracts.topology import queue
from placet.policy import handlers, records
from placet.policy.active import LOOK_EVERY_SECONDS, ActiveRulebook
from placet.policy.purging import purge_old
from placet.policy.settings import PolicySettings
from placet.policy.trials import Trials
from placet.runtime.aside import Aside, AsideConsumer
from placet.runtime.consumer import Handler, Once, one_by_one
from placet.runtime.service import Duty, Runtime, Service, Subscription

#: Pause between two looks for what no window can count any more, in seconds.
PURGE_EVERY_SECONDS = 3_600.0


def build(settings: PolicySettings, runtime: Runtime) -> Service:
    """Return policy, ready to run; raise RulebookInvalid for a bad rulebook and OSError where its key is missing."""
    active = ActiveRulebook(settings.rulebook, runtime.units)
    deps = handlers.Deps(active, load_signer(settings.keys, "policy"), load_verifier(settings.keys), runtime.units)
    purge = partial(purge_old, runtime.units.database, active, timedelta(days=settings.policy_keep_days))
    runtime.units.counts.append(records.count)
    of_calls: dict[type[Message], Handler | Once] = {
        ToolCallProposed: Once(partial(handlers.judge_calls, deps=deps), keyed=True),
        AbandonCall: one_by_one(partial(handlers.abandon_call, deps=deps)),
    }
    of_results: dict[type[Message], Handler] = {
        ToolCallRefused: one_by_one(handlers.give_back),
        CallResolved: one_by_one(handlers.take_resolved),
        StagedCallsDropped: one_by_one(handlers.free_dropped),
    }
    remember_denial = one_by_one(partial(handlers.remember_denial, deps=deps))
    judge_edit = one_by_one(partial(handlers.judge_edit, deps=deps))
    give_grant = one_by_one(partial(handlers.give_grant, deps=deps))
    revoke_grant = one_by_one(handlers.revoke_grant)
    of_approved: dict[type[Message], Handler] = {
        CallApproved: one_by_one(partial(handlers.judge_again, deps=deps)),
        AbandonCall: one_by_one(handlers.abandon_approved),
    }
    tried: dict[type[Message], Aside] = {TryRulebook: Trials(runtime.units, active).try_rulebook}
    trials = AsideConsumer("policy.trials", tried, units=runtime.units, bus=runtime.bus)
    return Service(
        name="policy",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("policy.tool-calls"), of_calls),
            Subscription(queue("policy.edits"), {EditProposed: judge_edit}),
            Subscription(queue("policy.approved-calls"), of_approved),
            Subscription(queue("policy.grants"), {GrantAsked: give_grant, RevokeGrant: revoke_grant}),
            Subscription(queue("policy.tool-results"), of_results),
            Subscription(queue("policy.watched-calls"), {WatchedCallClosed: remember_denial}),
        ),
        # A queue of its own: a trial takes its time, and neither verdicts nor trials of others wait for it.
        raw_subscriptions=((queue("policy.trials"), trials),),
        duties=(
            Duty("rulebook", LOOK_EVERY_SECONDS, active.look),
            Duty("purge", PURGE_EVERY_SECONDS, purge),
        ),
        drain_seconds=settings.drain_seconds,
    )

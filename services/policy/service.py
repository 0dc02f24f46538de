"""Wires policy."""

from __future__ import annotations

from functools import partial

from services.policy import handlers
from services.policy.rulebook import load_rulebook
from services.policy.settings import PolicySettings
from shared.messages import EditProposed, ToolCallProposed
from shared.service import Runtime, Service, Subscription
from shared.signing import load_signer
from shared.topology import queue


def build(settings: PolicySettings, runtime: Runtime) -> Service:
    """Return policy, ready to run; raise RulebookInvalid for a bad rulebook and OSError where its key is missing."""
    deps = handlers.Deps(load_rulebook(settings.rulebook), load_signer(settings.keys, "policy"))
    judge_call = partial(handlers.judge_call, deps=deps)
    judge_edit = partial(handlers.judge_edit, deps=deps)
    return Service(
        name="policy",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("policy.tool-calls"), {ToolCallProposed: judge_call}),
            Subscription(queue("policy.edits"), {EditProposed: judge_edit}),
        ),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )

"""Wires approval."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from services.approval import handlers, worker
from services.approval.settings import ApprovalSettings
from services.approval.watching import Watch
from shared.consumer import Handler, Together
from shared.directory import Directory
from shared.directory_file import DirectoryFile
from shared.messages import AbandonCall, ApprovalRequested, CallsWithdrawn, DecideApproval, EditJudged, Message
from shared.service import Duty, Runtime, Service, Subscription
from shared.signing import load_signer, load_verifier
from shared.topology import queue


def build(settings: ApprovalSettings, runtime: Runtime, directory: Callable[[], Directory] | None = None) -> Service:
    """Return approval, ready to run; raise OSError where its keys or its rulebook are missing.

    `directory` says who is who now; without one, the people and groups of the rulebook count.
    """
    directory = directory or DirectoryFile(settings.rulebook).current
    deps = handlers.Deps(load_signer(settings.keys, "approval"), load_verifier(settings.keys), directory)
    decide = Together(partial(handlers.decide_approvals, deps=deps))
    settle = partial(handlers.settle_edit, deps=deps)
    expire = partial(worker.expire_overdue, runtime.units, settings.approval_expire_batch, deps.signer)
    take_steps = partial(worker.take_steps, runtime.units, settings.approval_step_batch)
    index = partial(worker.index_words, runtime.units, settings.approval_index_batch)
    requests: dict[type[Message], Handler | Together[Any]] = {
        ApprovalRequested: Together(partial(handlers.open_approvals, deps=deps)),
        AbandonCall: partial(handlers.abandon_call, deps=deps),
    }
    return Service(
        name="approval",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("approval.requests"), requests),
            Subscription(queue("approval.decisions"), {DecideApproval: decide}),
            Subscription(queue("approval.edits"), {EditJudged: settle}),
            Subscription(queue("approval.withdrawals"), {CallsWithdrawn: partial(handlers.withdraw_calls, deps=deps)}),
        ),
        duties=(
            Duty("expire-overdue", settings.approval_expire_every_seconds, expire),
            Duty("take-steps", settings.approval_step_every_seconds, take_steps),
            Duty("index-words", settings.approval_index_every_seconds, index),
            Duty("watch-deciders", settings.approval_watch_every_seconds, Watch(runtime.units, directory).run_once),
        ),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )

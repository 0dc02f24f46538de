"""Wires approval."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from placet.approval import handlers, metrics, worker
from placet.approval.quota import Quota
from placet.approval.settings import ApprovalSettings
from placet.approval.watching import Watch
from placet.contracts.messages import (
    AbandonCall,
    ApprovalRequested,
    CallsWithdrawn,
    DecideApproval,
    EditJudged,
    Message,
)
from placet.contracts.signing import load_signer, load_verifier
from placet.contracts.topology import queue
from placet.domain.directory import Directory
from placet.domain.directory_file import DirectoryFile
from placet.runtime.consumer import Handler, Once, one_by_one
from placet.runtime.service import MEASURE_SECONDS, Duty, Runtime, Service, Subscription

#: Pause between two looks at the clock: for what is overdue, for reminders and escalations, for words to index.
CLOCK_SECONDS = 1.0
#: Pause between two counts of what waits of each tenant.
QUOTA_SECONDS = 5.0
#: Pause between two looks for approvals that nobody can approve any more.
WATCH_SECONDS = 10.0
#: Approvals that one round of a duty closes or reminds of, and changes of cards that one indexes; the next round
#: follows at once after a full one.
ROUND_MAX, WORDS_MAX = 200, 1_000
#: How long a change of a card waits until its words are written: what is decided within it is written once.
WORDS_BEHIND = timedelta(seconds=5)


def build(settings: ApprovalSettings, runtime: Runtime, directory: Callable[[], Directory] | None = None) -> Service:
    """Return approval, ready to run; raise OSError where its keys or its rulebook are missing.

    `directory` says who is who now; without one, the people and groups of the rulebook count.
    """
    directory = directory or DirectoryFile(settings.rulebook).current
    quota = Quota(settings.approval_tenant_pending)
    keys = load_signer(settings.keys, "approval"), load_verifier(settings.keys)
    deps = handlers.Deps(*keys, directory, runtime.units, quota)
    runtime.units.counts.append(metrics.count)
    decide = Once(partial(handlers.decide_approvals, deps=deps))
    settle = one_by_one(partial(handlers.settle_edit, deps=deps))
    withdraw = one_by_one(partial(handlers.withdraw_calls, deps=deps))
    expire = partial(worker.expire_overdue, runtime.units, ROUND_MAX, deps.signer)
    take_steps = partial(worker.take_steps, runtime.units, ROUND_MAX)
    index = partial(worker.index_words, runtime.units, WORDS_MAX, WORDS_BEHIND)
    requests: dict[type[Message], Handler | Once] = {
        ApprovalRequested: Once(partial(handlers.open_approvals, deps=deps), keyed=True),
        AbandonCall: one_by_one(partial(handlers.abandon_call, deps=deps)),
    }
    return Service(
        name="approval",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("approval.requests"), requests),
            Subscription(queue("approval.decisions"), {DecideApproval: decide}),
            Subscription(queue("approval.edits"), {EditJudged: settle}),
            Subscription(queue("approval.withdrawals"), {CallsWithdrawn: withdraw}),
        ),
        duties=(
            Duty("expire-overdue", CLOCK_SECONDS, expire, ROUND_MAX),
            Duty("take-steps", CLOCK_SECONDS, take_steps, ROUND_MAX),
            Duty("count-by-tenant", QUOTA_SECONDS, partial(quota.count, runtime.database)),
            Duty("index-words", CLOCK_SECONDS, index, WORDS_MAX),
            Duty("measure", MEASURE_SECONDS, partial(metrics.measure, runtime.database), gauges=metrics.MEASURED),
            Duty("watch-deciders", WATCH_SECONDS, Watch(runtime.units, directory).run_once),
        ),
        drain_seconds=settings.drain_seconds,
    )

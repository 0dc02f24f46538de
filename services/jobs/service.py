"""Wires the jobs service."""

from __future__ import annotations

from functools import partial

from placet.contracts.messages import AttemptEnded, CancelJob, JobCommitted, Message, RunJob, WorkspaceMerged
from placet.contracts.topology import queue
from placet.jobs import handlers
from placet.jobs.settings import JobsSettings
from placet.runtime.consumer import Handler, one_by_one
from placet.runtime.service import Duty, Runtime, Service, Subscription


def build(settings: JobsSettings, runtime: Runtime) -> Service:
    """Return the jobs service, ready to run."""
    announce = runtime.outbox.announce
    commands: dict[type[Message], Handler] = {
        RunJob: one_by_one(partial(handlers.run, announce=announce)),
        CancelJob: one_by_one(partial(handlers.cancel, announce=announce)),
    }
    attempts: dict[type[Message], Handler] = {
        AttemptEnded: one_by_one(partial(handlers.take_attempt, announce=announce)),
        WorkspaceMerged: one_by_one(partial(handlers.take_merged, announce=announce)),
        JobCommitted: one_by_one(partial(handlers.take_committed, announce=announce)),
    }
    return Service(
        name="jobs",
        runtime=runtime,
        subscriptions=(
            Subscription(queue("jobs.commands"), commands),
            Subscription(queue("jobs.attempts"), attempts),
        ),
        duties=(Duty("lost-attempts", settings.jobs_sweep_seconds, partial(handlers.sweep, runtime.units, announce)),),
        drain_seconds=settings.drain_seconds,
    )

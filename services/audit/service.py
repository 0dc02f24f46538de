"""Wires the audit service."""

from __future__ import annotations

from functools import partial

from services.audit import handlers
from services.audit.settings import AuditSettings
from shared.messages import ResolveDeadLetter
from shared.service import Runtime, Service, Subscription
from shared.topology import DEAD_LETTERS, queue


def build(settings: AuditSettings, runtime: Runtime) -> Service:
    """Return the audit service, ready to run."""
    return Service(
        name="audit",
        runtime=runtime,
        subscriptions=(Subscription(queue("audit.commands"), {ResolveDeadLetter: handlers.resolve}),),
        raw_subscriptions=((queue(DEAD_LETTERS), partial(handlers.bury, units=runtime.units)),),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )

"""Wires the notifier."""

from __future__ import annotations

from typing import Any

from services.notifier import handlers
from services.notifier.channels.log import LogChannel
from services.notifier.settings import NotifierSettings
from services.notifier.worker import Worker
from shared.consumer import Together
from shared.messages import ApprovalClosed, ApprovalOpened, ApprovalProgressed, Message
from shared.service import Duty, Runtime, Service, Subscription
from shared.topology import queue


def build(settings: NotifierSettings, runtime: Runtime) -> Service:
    """Return the notifier, ready to run."""
    worker = Worker(runtime.units, {"log": LogChannel()})
    messages: dict[type[Message], Together[Any]] = {
        ApprovalOpened: Together(handlers.announce),
        ApprovalProgressed: Together(handlers.redraw),
        ApprovalClosed: Together(handlers.close),
    }
    return Service(
        name="notifier",
        runtime=runtime,
        subscriptions=(Subscription(queue("notifier.approvals"), messages),),
        duties=(Duty("send-cards", settings.notifier_every_seconds, worker.run_once),),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )

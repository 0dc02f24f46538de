"""Wires the dead-letter service."""

from __future__ import annotations

from functools import partial

from placet.contracts.messages import ResolveDeadLetter
from placet.contracts.topology import DEAD_LETTERS, queue
from placet.dead_letters import handlers
from placet.dead_letters.settings import DeadLettersSettings
from placet.runtime.consumer import one_by_one
from placet.runtime.service import MEASURE_SECONDS, Duty, Runtime, Service, Subscription


def build(settings: DeadLettersSettings, runtime: Runtime) -> Service:
    """Return the dead-letter service, ready to run."""
    commands = Subscription(queue("dead-letters.commands"), {ResolveDeadLetter: one_by_one(handlers.resolve)})
    return Service(
        name="dead_letters",
        runtime=runtime,
        subscriptions=(commands,),
        raw_subscriptions=((queue(DEAD_LETTERS), partial(handlers.bury, units=runtime.units)),),
        duties=(
            Duty("measure", MEASURE_SECONDS, partial(handlers.measure, runtime.database), gauges=(handlers.WAITING,)),
        ),
        drain_seconds=settings.drain_seconds,
    )

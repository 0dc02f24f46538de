"""Puts an executor together: one queue per pool, one door, one set of slots, three sweeping duties.

An executor loads only the tools of its own pools, so that a pool with secrets shares neither code nor credentials
with another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from services.executor.handlers import abandon_call, claim_calls, resolve_call
from services.executor.intake import Intake
from services.executor.metrics import SLOTS, SLOTS_BUSY
from services.executor.settings import EVERY_POOL, ExecutorSettings
from services.executor.settling import Settling
from services.executor.store import Holder, Sweep
from services.executor.sweeper import Sweeper
from services.executor.tools.registry import LoadedTool, ToolLoadError, load_tools
from services.executor.tools.resources import PackSettings, open_tool_resources
from services.executor.worker import Worker
from shared.catalog import Catalog, ToolSpec, load_catalog
from shared.consumer import Consumer, Handler, Together
from shared.errors import PlacetError
from shared.messages import AbandonCall, Message, ResolveCall, ToolCallPermitted
from shared.service import Duty, Runtime, Service
from shared.signing import load_verifier
from shared.slots import Slots
from shared.topology import executor_queue


def build(settings: ExecutorSettings, runtime: Runtime) -> Service:
    """Return an executor for the pools of `settings`.

    Raises RulebookInvalid, or PlacetError with one line, rather than start with a tool or a key missing.
    """
    catalog = load_catalog(settings.rulebook)
    pools = served_pools(settings, catalog)
    specs = {spec.name: spec for spec in catalog.values() if spec.function and spec.pool in pools}
    tools = _loaded(specs)
    worker = Worker(
        holder=Holder(settings.executor_worker, settings.executor_lease_seconds),
        verifier=load_verifier(settings.keys),
        specs=specs,
        tools=tools,
        units=runtime.units,
        slots=Slots(settings.executor_slots),
        attempts_max=settings.executor_attempts_max,
        settling=Settling(runtime.units, worker=settings.executor_worker),
    )
    return assemble(settings, runtime, worker, tools=tools, pools=pools)


def served_pools(settings: ExecutorSettings, catalog: Catalog) -> tuple[str, ...]:
    """Return the pools to serve; PlacetError for one that no tool with a function belongs to."""
    known = sorted({spec.pool for spec in catalog.values() if spec.function})
    pools = tuple(known) if settings.executor_pools == (EVERY_POOL,) else settings.executor_pools
    if unknown := sorted(set(pools) - set(known)):
        raise PlacetError(f"no tool of the rulebook belongs to pool {unknown[0]!r}; its pools are {', '.join(known)}")
    return pools


def _loaded(specs: Mapping[str, ToolSpec]) -> dict[str, LoadedTool]:
    try:
        return load_tools(specs.values())
    except ToolLoadError as error:
        raise PlacetError(str(error)) from error


def assemble(
    settings: ExecutorSettings,
    runtime: Runtime,
    worker: Worker,
    *,
    tools: Mapping[str, LoadedTool],
    pools: tuple[str, ...],
) -> Service:
    """Return the service around a worker."""
    intake = Intake(worker.slots, patience_seconds=settings.executor_patience_seconds)
    repeatable = frozenset(spec.schema_digest for spec in worker.specs.values() if spec.idempotent)
    probed = {
        worker.specs[name].schema_digest: worker.specs[name].timeout_seconds
        for name, tool in tools.items()
        if tool.probe is not None
    }
    sweeper = Sweeper(worker, intake, Sweep(pools, repeatable, worker.attempts_max, probed))
    database_url = settings.database_url.get_secret_value()
    packs = PackSettings(database_url=database_url, overrides=settings.executor_packs)
    SLOTS.set(worker.slots.size)
    SLOTS_BUSY.set_function(lambda: worker.slots.busy)
    every = settings.executor_sweep_seconds
    return Service(
        name="executor",
        runtime=runtime,
        raw_subscriptions=tuple(
            (
                replace(executor_queue(pool), prefetch=settings.executor_prefetch),
                intake.guard(_consumer(pool, worker, runtime), runtime.bus),
            )
            for pool in pools
        ),
        duties=(
            Duty("give-up-lost", every, sweeper.give_up_lost),
            Duty("repeat-lost", every, sweeper.repeat_lost),
            Duty("verify-lost", every, sweeper.verify_lost),
        ),
        slots=worker.slots,
        resources=(worker.with_resources(open_tool_resources(tools.values(), packs)),),
        drain_seconds=settings.drain_seconds,
        relay_every_seconds=settings.relay_every_seconds,
    )


def _consumer(pool: str, worker: Worker, runtime: Runtime) -> Consumer:
    handlers: dict[type[Message], Handler | Together[Any]] = {
        ToolCallPermitted: Together(partial(claim_calls, pool=pool, worker=worker)),
        AbandonCall: partial(abandon_call, pool=pool),
        ResolveCall: partial(resolve_call, verifier=worker.verifier),
    }
    return Consumer(executor_queue(pool).name, handlers, units=runtime.units, bus=runtime.bus)

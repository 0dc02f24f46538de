"""Puts an executor together: one queue per pool, one gate, one set of slots, three sweeping duties.

An executor loads only the tools of its own pools, so that a pool with secrets shares neither code nor credentials
with another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from placet.contracts.errors import PlacetError
from placet.contracts.messages import AbandonCall, Message, ResolveCall, ToolCallPermitted
from placet.contracts.signing import load_verifier
from placet.contracts.topology import executor_queue
from placet.domain.catalog import Catalog, load_catalog
from placet.executor import store
from placet.executor.handlers import abandon_call, claim_calls, resolve_call
from placet.executor.metrics import SLOTS, SLOTS_BUSY, measure
from placet.executor.settings import EVERY_POOL, ExecutorSettings
from placet.executor.settling import Settling
from placet.executor.slot_gate import SlotGate
from placet.executor.store import Holder, Sweep
from placet.executor.sweeper import Sweeper
from placet.executor.worker import Worker
from placet.runtime.consumer import Consumer, Handler, Once, one_by_one
from placet.runtime.service import MEASURE_SECONDS, Duty, Runtime, Service
from placet.runtime.slots import Slots
from placet.tools.registry import LoadedTool, load_tools, modules_of
from placet.tools.resources import PackSettings, open_tool_resources


def build(settings: ExecutorSettings, runtime: Runtime) -> Service:
    """Return an executor for the pools of `settings`.

    Raises RulebookInvalid, or PlacetError with one line, rather than start with a tool or a key missing.
    """
    settings.add_own_code()
    catalog = load_catalog(settings.rulebook)
    pools = served_pools(settings, catalog)
    specs = {spec.name: spec for spec in catalog.values() if spec.function and spec.pool in pools}
    tools = load_tools(specs.values())
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


def assemble(
    settings: ExecutorSettings,
    runtime: Runtime,
    worker: Worker,
    *,
    tools: Mapping[str, LoadedTool],
    pools: tuple[str, ...],
) -> Service:
    """Return the service around a worker."""
    gate = SlotGate(worker.slots, patience_seconds=settings.executor_patience_seconds)
    repeatable = frozenset(spec.schema_digest for spec in worker.specs.values() if spec.idempotent)
    probed = {
        worker.specs[name].schema_digest: worker.specs[name].timeout_seconds
        for name, tool in tools.items()
        if tool.probe is not None
    }
    sweeper = Sweeper(worker, gate, Sweep(pools, repeatable, worker.attempts_max, probed))
    packs = PackSettings(database_url=settings.database_url.get_secret_value())

    async def unfinished(call_ids: Sequence[str]) -> list[str]:
        async with runtime.database.single() as connection:
            return await store.unfinished(connection, call_ids)

    SLOTS.set(worker.slots.size)
    SLOTS_BUSY.set_function(lambda: worker.slots.busy)
    every = settings.executor_sweep_seconds
    return Service(
        name="executor",
        runtime=runtime,
        raw_subscriptions=tuple(
            (
                replace(executor_queue(pool), prefetch=settings.executor_prefetch),
                gate.guard(_consumer(pool, worker, runtime), runtime.bus, unfinished),
            )
            for pool in pools
        ),
        duties=(
            Duty("give-up-lost", every, sweeper.give_up_lost),
            Duty("repeat-lost", every, sweeper.repeat_lost),
            Duty("verify-lost", every, sweeper.verify_lost),
            Duty("measure", MEASURE_SECONDS, partial(measure, pools, runtime)),
        ),
        slots=worker.slots,
        resources=(worker.with_resources(open_tool_resources(modules_of(tools.values()), packs)),),
        drain_seconds=settings.drain_seconds,
    )


def _consumer(pool: str, worker: Worker, runtime: Runtime) -> Consumer:
    handlers: dict[type[Message], Handler | Once] = {
        ToolCallPermitted: Once(partial(claim_calls, pool=pool, worker=worker)),
        AbandonCall: one_by_one(partial(abandon_call, pool=pool)),
        ResolveCall: one_by_one(partial(resolve_call, verifier=worker.verifier)),
    }
    return Consumer(executor_queue(pool).name, handlers, units=runtime.units, bus=runtime.bus)

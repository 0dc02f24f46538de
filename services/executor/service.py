"""Puts an executor together: one queue per pool, one gate, one set of slots, three sweeping duties.

An executor loads only the tools of its own pools, so that a pool with secrets shares neither code nor credentials
with another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from placet.contracts.errors import PlacetError
from placet.contracts.messages import (
    COMMIT_TOOL,
    AbandonCall,
    DiscardWorkspace,
    MergeWorkspace,
    Message,
    ResolveCall,
    StagedCallPermitted,
    ToolCallPermitted,
)
from placet.contracts.signing import load_verifier
from placet.contracts.topology import executor_queue, queue
from placet.domain.catalog import Catalog, load_catalog
from placet.domain.directory_file import DirectoryFile
from placet.domain.house_tools import COMMIT_SPEC
from placet.executor import store
from placet.executor.committing import Committing
from placet.executor.discarding import discard_workspace
from placet.executor.handlers import abandon_call, claim_calls, release_call, resolve_call
from placet.executor.merging import merge_workspace
from placet.executor.metrics import SLOTS, SLOTS_BUSY, measure, measured
from placet.executor.parking import Parking
from placet.executor.settings import EVERY_POOL, ExecutorSettings
from placet.executor.settling import Settling
from placet.executor.slot_gate import SlotGate
from placet.executor.staging import Stager
from placet.executor.standing import Standing
from placet.executor.store import Holder, Sweep
from placet.executor.sweeper import Sweeper
from placet.executor.worker import Worker
from placet.executor.workspace_store import Bounds
from placet.runtime.consumer import Consumer, Handler, Keep, Once, one_by_one
from placet.runtime.service import MEASURE_SECONDS, Duty, Runtime, Service, Subscription
from placet.runtime.slots import Slots
from placet.tools.registry import LoadedTool, load_tools, modules_of, staging_packs
from placet.tools.resources import PackSettings, open_tool_resources

#: Queue of what concerns workspaces, whatever the pools.
COMMANDS = "workspaces.commands"
#: Pauses between two looks for workspaces whose time is over, and for those to be deleted, in seconds.
EXPIRE_SECONDS, PURGE_SECONDS = 30.0, 3_600.0
#: Pause between two looks for parked calls while there are none, in seconds: each of them waits for one to come.
UNPARK_SECONDS = 0.05
#: What a commit waits for one that is half made, beyond the time in which that one's worker is known to be lost.
PATIENCE_SECONDS = 60


def build(settings: ExecutorSettings, runtime: Runtime, *, monotonic: Callable[[], float] = time.monotonic) -> Service:
    """Return an executor for the pools of `settings`.

    Raises RulebookInvalid, or PlacetError with one line, rather than start with a tool or a key missing.
    """
    settings.add_own_code()
    catalog = load_catalog(settings.rulebook)
    pools = served_pools(settings, catalog)
    specs = {spec.name: spec for spec in catalog.values() if spec.function and spec.pool in pools}
    tools = load_tools(specs.values())
    units = runtime.units
    bounds = Bounds(
        entries_max=settings.executor_workspace_entries_max,
        bytes_max=settings.executor_workspace_bytes_max,
        age_max=timedelta(days=settings.executor_workspace_days_max),
    )
    packs, attempts_max = staging_packs(tools.values()), settings.executor_attempts_max
    patience = int(2 * settings.executor_lease_seconds + PATIENCE_SECONDS)
    holder = Holder(settings.executor_worker, settings.executor_lease_seconds)
    standing = Standing(load_verifier(settings.keys), DirectoryFile(settings.rulebook).current, holder, monotonic)
    committing = Committing(
        units,
        packs,
        standing,
        worker=settings.executor_worker,
        attempts_max=attempts_max,
        patience=patience,
    )
    worker = Worker(
        holder=holder,
        specs={**specs, COMMIT_TOOL: COMMIT_SPEC},
        tools=tools,
        units=units,
        slots=Slots(settings.executor_slots),
        attempts_max=attempts_max,
        settling=Settling(units, worker=settings.executor_worker),
        stager=Stager(units, tools, specs, bounds),
        committing=committing,
        standing=standing,
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
    gate = SlotGate(worker.slots, patience_seconds=settings.executor_patience_seconds, share=settings.tenant_share)
    parking = Parking(runtime.database, gate, worker.slots)
    repeatable = frozenset(spec.schema_digest for spec in worker.specs.values() if spec.idempotent)
    probed = {
        worker.specs[name].schema_digest: worker.specs[name].timeout_seconds
        for name, tool in tools.items()
        if tool.probe is not None
    }
    sweeper = Sweeper(worker, gate, Sweep(pools, repeatable, worker.attempts_max, probed))
    packs = PackSettings(database_url=settings.database_url.get_secret_value())

    consumers = {
        pool: gate.guard(
            _consumer(pool, worker, runtime, parking.keep), runtime.bus, partial(_unstaged, runtime), parking.park
        )
        for pool in pools
    }
    SLOTS.set(worker.slots.size)
    SLOTS_BUSY.set_function(lambda: worker.slots.busy)
    every, keep = settings.executor_sweep_seconds, timedelta(days=settings.executor_workspace_keep_days)
    commands: dict[type[Message], Handler] = {
        DiscardWorkspace: one_by_one(discard_workspace),
        MergeWorkspace: one_by_one(
            partial(merge_workspace, bounds=worker.stager.bounds, packs=worker.committing.packs)
        ),
    }
    return Service(
        name="executor",
        runtime=runtime,
        raw_subscriptions=tuple(
            (replace(executor_queue(pool), prefetch=settings.executor_prefetch), consumer)
            for pool, consumer in consumers.items()
        ),
        subscriptions=(Subscription(queue(COMMANDS), commands),),
        duties=(
            Duty("look-for-tenants", MEASURE_SECONDS, parking.look_for_tenants),
            Duty("unpark", UNPARK_SECONDS, partial(parking.unpark, consumers)),
            Duty("give-up-lost", every, sweeper.give_up_lost),
            Duty("repeat-lost", every, sweeper.repeat_lost),
            Duty("verify-lost", every, sweeper.verify_lost),
            Duty("recover-commits", every, sweeper.recover_commits),
            Duty("expire-workspaces", EXPIRE_SECONDS, sweeper.expire_workspaces),
            Duty("end-stuck-plans", EXPIRE_SECONDS, sweeper.end_stuck_plans),
            Duty("purge-workspaces", PURGE_SECONDS, partial(sweeper.purge_workspaces, keep)),
            Duty("measure", MEASURE_SECONDS, partial(measure, pools, runtime), gauges=measured(pools)),
        ),
        slots=worker.slots,
        resources=(worker.with_resources(open_tool_resources(modules_of(tools.values()), packs)),),
        drain_seconds=settings.drain_seconds,
    )


async def _unstaged(runtime: Runtime, call_ids: Sequence[str]) -> list[str]:
    async with runtime.database.single() as connection:
        return await store.unstaged(connection, call_ids)


def _consumer(pool: str, worker: Worker, runtime: Runtime, keep: Keep) -> Consumer:
    handlers: dict[type[Message], Handler | Once] = {
        ToolCallPermitted: Once(partial(claim_calls, pool=pool, worker=worker), keyed=True),
        StagedCallPermitted: one_by_one(partial(release_call, pool=pool, worker=worker)),
        AbandonCall: one_by_one(partial(abandon_call, pool=pool)),
        ResolveCall: one_by_one(partial(resolve_call, verifier=worker.standing.verifier)),
    }
    return Consumer(executor_queue(pool).name, handlers, units=runtime.units, bus=runtime.bus, keep=keep)

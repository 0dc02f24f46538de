"""What operators see of an executor. Labels are names out of the catalogue, never anything that a call carried."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from prometheus_client import Counter, Gauge, Histogram

from placet.contracts.messages import ToolCallFinished, ToolCallRefused
from placet.contracts.topology import executor_queue
from placet.executor import parked_store, store
from placet.runtime.service import Runtime

EXECUTIONS = Counter("placet_executor_executions_total", "Calls answered, by tool and result kind.", ["tool", "kind"])
TOOL_SECONDS = Histogram(
    "placet_executor_tool_seconds",
    "How long a tool took to answer or to be given up.",
    ["tool"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800),
)
FINDINGS = Counter(
    "placet_executor_findings_total",
    "What probes found of calls in doubt, by tool: succeeded (it ran), failed (it did not) or unknown.",
    ["tool", "finding"],
)
UNKNOWN = Gauge(
    "placet_executor_unknown",
    "Calls of which nobody knows whether they ran, until a person says so, by pool.",
    ["pool"],
)
DEPTH = Gauge("placet_executor_queue_depth", "Messages that wait for an executor, by pool.", ["pool"])
PARKED = Gauge("placet_executor_parked_depth", "Calls parked until their turn, of an answer one, by pool.", ["pool"])
PARKED_TOTAL = Counter("placet_executor_parked_total", "Calls that were parked, by pool.", ["pool"])
SLOTS = Gauge("placet_executor_slots", "Calls that this executor runs at the same time at most.")
SLOTS_BUSY = Gauge("placet_executor_slots_busy", "Calls that run now, tools that outlived their time included.")

#: Label of a call whose tool this executor does not know.
UNKNOWN_TOOL = "(not here)"


def measured(pools: Sequence[str]) -> tuple[Gauge, ...]:
    """Return what `measure` looks at."""
    return tuple(gauge.labels(pool) for gauge in (PARKED, UNKNOWN, DEPTH) for pool in pools)


async def measure(pools: Sequence[str], runtime: Runtime) -> None:
    """Look at what waits for executors and for people."""
    async with runtime.database.single() as connection:
        unknown = await store.count_unknown(connection, pools)
        parked = await parked_store.count_parked(connection, pools)
    for pool in pools:
        PARKED.labels(pool).set(parked.get(pool, 0))
        UNKNOWN.labels(pool).set(unknown.get(pool, 0))
        depth = await runtime.bus.depth(executor_queue(pool).name)
        DEPTH.labels(pool).set(nan if depth is None else depth)


async def count_answer(answer: ToolCallFinished | ToolCallRefused, *, known: bool = True) -> None:
    """Count a call's one answer; to be handed to `Work.act`, so that only what was committed counts."""
    EXECUTIONS.labels(answer.tool if known else UNKNOWN_TOOL, answer.kind).inc()

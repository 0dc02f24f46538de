"""One tenant floods, another sends one call at a time: what the quiet one waits beside what it waits alone.

Model and tool are slow, so slots are what is scarce: the flood has all that one tenant may have, and thousands of calls
wait behind. Each call is a conversation of its own, from the message until its turn has ended: two questions to the
model and one run of the tool.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from time import perf_counter

from bench.load import until
from bench.measurement import percentile, verify
from bench.placet_system import Variant, a_placet
from bench.report import say
from placet.client import AsyncClient, TurnItem

#: How long the model thinks each time and how long the tool takes, in milliseconds.
MODEL_MILLISECONDS, TOOL_MILLISECONDS = 500, 500
#: Messages of the flood that are posted at a time.
POSTING = 32
SETTINGS = {
    "PLACET_EXECUTOR_SLOTS": "16",
    "PLACET_EXECUTOR_PREFETCH": "1",
    "PLACET_POOL_BATCHES": "{}",
    "PLACET_BENCH_TOOL": "sleep",
    "PLACET_BENCH_MILLISECONDS": str(TOOL_MILLISECONDS),
    "PLACET_BENCH_MODEL_MILLISECONDS": str(MODEL_MILLISECONDS),
}
VARIANT = Variant("tenants", calls=1, calls_per_turn=1, gated=False, settings=SETTINGS)


async def measure(flood: int, quiet: int) -> dict[str, list[float]]:
    """Return the seconds of each call of the quiet tenant, alone and beside a flood of so many calls."""
    async with (
        a_placet(VARIANT) as system,
        AsyncClient(system.url, system.key("chat", tenant="quiet")) as still,
        AsyncClient(system.url, system.key("chat", tenant="loud")) as loud,
    ):
        # Both have been seen before, as tenants have been.
        await asyncio.gather(_call(still), _call(loud))
        alone = [await _call(still) for _ in range(quiet)]
        posted = asyncio.create_task(_flood(loud, flood))
        ledger = system.folder / "ledger"
        before = quiet + 2
        await until(lambda: len(ledger.read_text().splitlines()) > before + 100)
        beside = [await _call(still) for _ in range(quiet)]
        say(f"{len(ledger.read_text().splitlines()) - 2 * quiet - 2} of {flood} calls of the flood had ended by then")
        await posted
        await until(lambda: len(ledger.read_text().splitlines()) >= before + quiet + flood)
        runs = Counter(line.split()[0] for line in ledger.read_text().splitlines())
    verify(before + quiet + flood, len(runs), runs)
    return {"alone": alone, "beside": beside}


async def _call(client: AsyncClient) -> float:
    """Have one call, and return how many seconds it took."""
    conversation = await client.open_conversation()
    began = perf_counter()
    await conversation.post(f"sleep in {conversation.id}")
    async for item in conversation.follow():
        if isinstance(item, TurnItem) and item.data.idle:
            break
    return perf_counter() - began


async def _flood(client: AsyncClient, number: int) -> None:
    left = iter(range(number))

    async def post() -> None:
        for _ in left:
            conversation = await client.open_conversation()
            await conversation.post(f"sleep in {conversation.id}")

    await asyncio.gather(*(post() for _ in range(POSTING)))


def ratios(seen: Mapping[str, list[float]]) -> dict[str, float]:
    """Return how many times as long the quiet tenant waits beside the flood."""
    return {
        f"tenants_{name}": round(percentile(seen["beside"], share) / percentile(seen["alone"], share), 2)
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }


def figures(seen: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """Return the milliseconds of half of the calls, and of 99 of 100."""
    shares = {"p50_ms": 0.5, "p99_ms": 0.99}
    return {
        name: {each: round(percentile(waits, share) * 1000, 1) for each, share in shares.items()}
        for name, waits in seen.items()
    }


def table(seen: Mapping[str, list[float]]) -> str:
    """Lay the figures out for a terminal."""
    lines = [f"{'quiet tenant':<14}{'p50 ms':>10}{'p99 ms':>10}"]
    lines += [f"{name:<14}{each['p50_ms']:>10.1f}{each['p99_ms']:>10.1f}" for name, each in figures(seen).items()]
    found = ratios(seen)
    return "\n".join([*lines, f"{'ratio':<14}{found['tenants_p50']:>10.2f}{found['tenants_p99']:>10.2f}"])

"""What people wait for while very many approvals wait for them: ratios against few.

One approval service and the gateway's own queries on one migrated database, in this process; no broker and no HTTP, so
that what grows with the rows is not hidden behind what does not.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg

from bench.floor import POSTGRES_URL
from bench.measurement import percentile
from bench.report import say
from deploy.migrations import migrate
from services.approval import worker
from services.approval.service import build
from services.approval.settings import ApprovalSettings
from services.gateway.store.inbox import Filters, Seat, list_approvals, list_mine
from shared.messages import ApprovalOpened
from shared.signing import Signer, create_keys, load_signer
from tests.support.approval_builders import a_decision, a_request, some_claims
from tests.support.house import Replica, a_replica
from tests.support.postgres import Databases

#: What everything is compared with.
FEW = 1_000
#: Times that each act is measured, after a tenth as many that are not.
ACTS = 100
PAGE = 51
#: Of the rows that fill the inbox: tools and agents, and one of a thousand is for the group.
_FILL = """
    INSERT INTO approval.approvals SELECT (jsonb_populate_record(a, jsonb_build_object(
        'approval_id', 'row-' || n, 'call_id', 'row-' || n, 'conversation_id', 'conversation-' || n / 8,
        'tool', 'tool-' || n %% 50, 'agent', 'agent-' || n %% 20, 'requester', 'person:' || n %% 5000,
        'category', (ARRAY['unsafe_write', 'unsafe_api', 'unsafe_exec'])[1 + n %% 3],
        'summary', 'Pay invoice ' || n || ' of customer ' || n %% 997,
        'deciders', CASE n %% 1000 WHEN 0 THEN '["group:finance"]' ELSE to_jsonb(a.deciders) END,
        'deciders_digest', CASE n %% 1000 WHEN 0 THEN 'group' ELSE a.deciders_digest END,
        'created_at', a.created_at - n * interval '1 ms', 'expires_at', a.expires_at + n * interval '1 s'))).*
    FROM approval.approvals a, generate_series(1, %s::int) n WHERE a.approval_id = %s
"""
_ALL = ("link", "chat", "slack", "web")
OPERATOR = Seat("person:bob", frozenset({"person:bob", "operators"}), _ALL, frozenset())
MEMBER = Seat("person:ada", frozenset({"person:ada", "group:finance"}), _ALL, frozenset())

Act = Callable[[], Awaitable[object]]


async def measure(rows: int) -> dict[str, dict[int, float]]:
    """Return the median milliseconds of each act among few approvals and among `rows`, taken in turns."""
    acts: dict[int, dict[str, Act]] = {}
    async with AsyncExitStack() as stack:
        for size in (FEW, rows):
            say(f"{size} approvals")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-bench-")))
            replica, signer = await stack.enter_async_context(_approval(folder))
            await replica.send(a_request())
            _fill(replica.units.database.url, size, replica.all_sent(ApprovalOpened)[0].approval_id)
            acts[size] = _acts(replica, signer)
        return {name: await _medians_ms({size: acts[size][name] for size in acts}) for name in acts[FEW]}


def ratios(found: Mapping[str, Mapping[int, float]]) -> dict[str, float]:
    """Return how many times as long each act takes among many as among few."""
    return {f"{name}_vs_{FEW}": round(by[max(by)] / by[min(by)], 2) for name, by in found.items()}


def as_json(found: Mapping[str, Mapping[int, float]], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ratios, what is known about the run, and the figures behind them."""
    figures = {f"{name}_ms": {str(size): ms for size, ms in by.items()} for name, by in found.items()}
    return {**ratios(found), "about": dict(about), **figures}


def table(found: Mapping[str, Mapping[int, float]]) -> str:
    """Lay the figures out for a terminal."""
    sizes = sorted(next(iter(found.values())))
    lines = [f"{'p50 ms among':<22}" + "".join(f"{size:>12}" for size in sizes) + f"{'ratio':>8}"]
    for name, by in found.items():
        ratio = by[sizes[-1]] / by[sizes[0]]
        lines.append(f"{name:<22}" + "".join(f"{by[size]:>12.2f}" for size in sizes) + f"{ratio:>8.2f}")
    return "\n".join(lines)


@asynccontextmanager
async def _approval(folder: Path) -> AsyncIterator[tuple[Replica, Signer]]:
    create_keys(folder)
    databases = Databases(POSTGRES_URL)
    try:
        with databases.fresh(_migrate) as url:
            async with a_replica("approval", url, partial(build, ApprovalSettings(keys=folder))) as replica:
                yield replica, load_signer(folder, "gateway")
    finally:
        databases.close()


def _migrate(url: str) -> None:
    migrate(url)


def _fill(url: str, rows: int, template: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_FILL, (rows, template))
        connection.execute("VACUUM ANALYZE approval.approvals")


def _acts(replica: Replica, signer: Signer) -> dict[str, Act]:
    """Return what is measured, by name."""

    async def page(filters: Filters) -> object:
        async with replica.units.database.single() as connection:
            return await list_approvals(connection, "acme", filters, limit=PAGE)

    async def mine(seat: Seat) -> object:
        async with replica.units.database.single() as connection:
            return await list_mine(connection, "acme", seat, Filters(state="pending"), limit=PAGE)

    return {
        "decision": _Decisions(replica, signer),
        "first_page": partial(page, Filters(state="pending")),
        "mine_of_operator": partial(mine, OPERATOR),
        "mine_of_group": partial(mine, MEMBER),
        "tool": partial(page, Filters(tool="tool-7", state="pending")),
        "agent": partial(page, Filters(agent="agent-7", state="pending")),
        "category": partial(page, Filters(category="unsafe_exec", state="pending")),
        "age": partial(page, Filters(older_than_seconds=1, state="pending")),
        "rare_word": partial(page, Filters(search="invoice 777", state="pending")),
        "common_word": partial(page, Filters(search="invoice", state="pending")),
        "expiry_of_nothing": partial(worker.expire_overdue, replica.units, 200),
    }


class _Decisions:
    """Opens approvals beforehand and approves one each time."""

    def __init__(self, replica: Replica, signer: Signer) -> None:
        self._replica, self._signer = replica, signer
        self._opened: list[ApprovalOpened] = []

    async def prepare(self, number: int) -> None:
        """Open so many approvals."""
        for _ in range(number):
            sent = await self._replica.send(a_request())
            self._opened += [message for message in sent if isinstance(message, ApprovalOpened)]

    async def __call__(self) -> object:
        """Decide the next one."""
        claims = some_claims(self._opened.pop())
        return await self._replica.send(a_decision(self._signer, claims))


async def _medians_ms(acts: Mapping[int, Act]) -> dict[int, float]:
    """Return the median of each, done in turns: a machine that gets slower meanwhile slows all alike."""
    warm_up = ACTS // 10
    for act in acts.values():
        if isinstance(act, _Decisions):
            await act.prepare(ACTS + warm_up)
    waits: dict[int, list[float]] = {size: [] for size in acts}
    for _ in range(ACTS + warm_up):
        for size, act in acts.items():
            began = perf_counter()
            await act()
            waits[size].append(perf_counter() - began)
    return {size: round(percentile(seen[warm_up:], 0.5) * 1000, 3) for size, seen in waits.items()}

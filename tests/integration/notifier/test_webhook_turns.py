"""Webhooks take turns: who is silent or has much to hear keeps nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from placet.notifier.channels.webhook import Poster
from placet.notifier.service import build
from placet.notifier.settings import NotifierSettings
from placet.notifier.states import State
from placet.notifier.store.events import Ended, add_events, claim_events, settle_events
from placet.notifier.webhook_endpoints import Endpoint
from placet.notifier.webhook_events import Event
from placet.notifier.webhook_worker import AT_ONCE, LEASE, SHARE, EventWorker
from tests.support.house import Replica, a_replica

#: Rows that this connection read so far, and how often it asked an index.
SEEN = sa.text(
    "SELECT seq_tup_read + idx_tup_fetch + idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'webhook_events'"
)


@pytest.fixture
async def house(notifier_url: str) -> AsyncIterator[Replica]:
    """A notifier without events."""
    async with a_replica("notifier", notifier_url, partial(build, NotifierSettings())) as replica:
        await replica.empty_tables()
        yield replica


class Waiting(Poster):
    """Hears of events and answers those of `silent` webhooks only when it is told to."""

    def __init__(self, *silent: str) -> None:
        super().__init__()
        self.silent = silent
        self.begun: list[str] = []
        self.heard: list[str] = []
        self.is_begun, self.quiet_is_heard, self.answer = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def post(self, endpoint: Endpoint, event_id: str, body: str) -> None:
        """Take an event, or be silent."""
        del endpoint, body
        self.begun.append(event_id)
        self.is_begun.set()
        if event_id.partition(".")[0] in self.silent:
            await self.answer.wait()
        self.heard.append(event_id)
        if event_id.startswith("quiet"):
            self.quiet_is_heard.set()


def the_endpoints(*names: str) -> dict[str, Endpoint]:
    """Return webhooks of these names."""
    return {
        name: Endpoint.model_validate({"url": "http://here.example", "secrets": ["whsec_" + "a" * 32]})
        for name in names
    }


async def add(house: Replica, webhook: str, tenant: str, number: int) -> None:
    """Let so many events of a tenant be due at a webhook, later than all before."""
    async with house.units.begin() as work:
        ids = [f"{webhook}.{tenant}.{each:04}" for each in range(number)]
        await add_events(work, [Event(each, tenant, webhook, "approval.opened", "{}", work.now) for each in ids])


@asynccontextmanager
async def posting(house: Replica, poster: Waiting, *webhooks: str) -> AsyncIterator[None]:
    """Post what is due while the block runs, which must not take long."""
    task = asyncio.create_task(EventWorker(house.units, the_endpoints(*webhooks), poster).run_once())
    try:
        async with asyncio.timeout(20):
            yield
            await task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_silent_webhook_keeps_nobody_else(house: Replica) -> None:
    """The events of another tenant's webhook are heard while the silent one is awaited, also what comes later."""
    poster = Waiting("silent")
    await add(house, "silent", "loud", 5 * SHARE)
    await add(house, "quiet", "acme", 1)
    async with posting(house, poster, "silent", "quiet"):
        await poster.quiet_is_heard.wait()
        poster.quiet_is_heard.clear()
        await add(house, "quiet", "rival", 1)
        await poster.quiet_is_heard.wait()
        assert (SHARE, []) == (
            sum(each.startswith("silent") for each in poster.begun),
            [each for each in poster.heard if each.startswith("silent")],
        )
        poster.answer.set()
    assert 5 * SHARE + 2 == len(set(poster.heard)) == len(poster.begun)


async def test_two_notifiers_that_look_at_once_share_what_is_due(house: Replica) -> None:
    """The second waits until the first has chosen, and takes the next."""
    for webhook in "ab":
        await add(house, webhook, "acme", 3 * SHARE)

    async def look() -> int:
        async with house.units.begin() as work:
            return len(await claim_events(work, AT_ONCE, LEASE, share=SHARE, but=()))

    async with house.units.begin() as work:
        first = len(await claim_events(work, AT_ONCE, LEASE, share=SHARE, but=()))
        second = asyncio.create_task(look())
        await house.until_waiting(1)
    assert (2 * SHARE, 2 * SHARE) == (first, await second)


async def test_tenants_of_one_webhook_take_turns(house: Replica) -> None:
    """Many events of one tenant that are due first leave others a place in the first round."""
    await add(house, "shared", "loud", 5 * SHARE)
    await add(house, "shared", "acme", 1)
    async with house.units.begin() as work:
        claimed = await claim_events(work, AT_ONCE, LEASE, share=SHARE, but=())
    tenants = [each.event.tenant for each in claimed]
    assert (SHARE - 1, 1) == (tenants.count("loud"), tenants.count("acme"))


async def test_the_first_of_each_webhook_goes_before_the_second_of_any(house: Replica) -> None:
    """Where there is room for few, every webhook has its turn; what is busy has none."""
    for webhook in ("first", "second", "third"):
        await add(house, webhook, "acme", SHARE)
    async with house.units.begin() as work:
        claimed = await claim_events(work, 2, LEASE, share=SHARE, but=["second"])
    assert {"first.acme.0000", "third.acme.0000"} == {each.event.event_id for each in claimed}


async def test_an_end_waits_for_no_webhook(house: Replica) -> None:
    """Told to stop, it awaits no answer; what was claimed is due again when its lease has ended."""
    poster = Waiting("silent")
    await add(house, "silent", "loud", 1)
    task = asyncio.create_task(EventWorker(house.units, the_endpoints("silent"), poster).run_once())
    async with asyncio.timeout(20):
        await poster.is_begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [{"state": "due", "attempt": 1}] == [
        dict(row) for row in await house.rows("SELECT state, attempt FROM notifier.webhook_events")
    ]


async def test_who_has_nothing_due_now_makes_no_look_dear(house: Replica) -> None:
    """However many tenants wait for their next try at a webhook that is down, a look reads and asks as much as ever."""
    seen = []
    for tenants in (30, 300):
        await house.empty_tables()
        async with house.units.begin() as work:
            ids = [f"down.{each:04}" for each in range(tenants)]
            await add_events(work, [Event(each, each, "down", "approval.opened", "{}", work.now) for each in ids])
        async with house.units.begin() as work:
            down = await claim_events(work, tenants, LEASE, share=tenants, but=())
            later = work.now + timedelta(hours=2)
            await settle_events(work, [Ended(each, State.DUE, later, "down") for each in down])
        await add(house, "quiet", "acme", 1)
        async with house.units.begin() as work:
            before = (await work.connection.execute(SEEN)).scalar_one()
            claimed = await claim_events(work, AT_ONCE, LEASE, share=SHARE, but=())
            seen.append((await work.connection.execute(SEEN)).scalar_one() - before)
        assert (tenants, ["quiet"]) == (len(down), [each.event.webhook for each in claimed])
    assert seen[0] == seen[1]


async def test_a_try_is_made_again_once_it_is_due(house: Replica) -> None:
    """What failed is claimed when its time has come, and what a worker left behind when its lease has ended."""
    for webhook in ("failed", "left"):
        await add(house, webhook, "acme", 1)
    async with house.units.begin() as work:
        failed, left = sorted(
            await claim_events(work, AT_ONCE, timedelta(), share=SHARE, but=()), key=lambda each: each.event.webhook
        )
        await settle_events(work, [Ended(failed, State.DUE, work.now, "down")])
    async with house.units.begin() as work:
        again = await claim_events(work, AT_ONCE, LEASE, share=SHARE, but=())
    assert {failed.event.event_id: 2, left.event.event_id: 2} == {each.event.event_id: each.attempt for each in again}


async def test_an_older_turn_settles_nothing(house: Replica) -> None:
    """A worker whose lease was over, and whose event another one has by now, writes nothing over it."""
    now = datetime.now(UTC)
    async with house.units.begin() as work:
        await add_events(work, [Event("one.1", "acme", "one", "approval.opened", "{}", now)])
    claims = []
    for lease in (timedelta(seconds=-1), LEASE):
        async with house.units.begin() as work:
            claims += await claim_events(work, 1, lease, share=SHARE, but=())
    settled = []
    for claim, state in zip(claims, (State.GIVEN_UP, State.SENT), strict=True):
        async with house.units.begin() as work:
            settled.append(await settle_events(work, [Ended(claim, state, now)]))
    (row,) = await house.rows("SELECT state FROM notifier.webhook_events")
    assert ([set(), {"one.1"}], "sent") == ([set(each) for each in settled], row["state"])

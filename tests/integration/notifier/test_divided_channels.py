"""Channels that are not one for all tenants: what one of them learns is nothing to those who have another."""

from __future__ import annotations

import asyncio

import structlog.testing

from placet.notifier.channels import ChannelFailed
from placet.notifier.worker import Worker
from tests.support.cards import Board, opened
from tests.support.house import Replica

HURRY = "UPDATE notifier.deliveries SET due_at = now() - interval '1 second'"


class Halls(Board):
    """A board that acme and its sister have in one building, and everybody else in one of their own."""

    def sharing(self, tenant: str) -> list[str]:
        """Return who is in the tenant's building."""
        return ["acme", "sister"] if tenant in {"acme", "sister"} else [tenant]

    @property
    def tenants(self) -> list[str]:
        """Whose cards were shown, in their order."""
        return [each.card.tenant for each in self.shown]


async def test_a_rest_holds_for_those_who_share_the_channel(replica: Replica) -> None:
    """The other card of its workspace waits too, and that of another workspace comes."""
    halls = Halls(ChannelFailed("too many", retry_after=900))
    worker = Worker(replica.units, {"hall": halls})
    await replica.send(opened("hall"))
    await worker.run_once()
    await replica.send(opened("hall", tenant="sister"), opened("hall", tenant="other"))
    await replica.execute(HURRY)
    await worker.run_once()
    assert ["other"] == halls.tenants


async def test_who_waits_for_a_silent_place_is_who_shares_it(replica: Replica) -> None:
    """A card at the place of that name in another workspace goes out while the first has no answer."""
    halls = Halls()
    halls.gate.clear()
    await replica.send(opened("hall"))
    worker = Worker(replica.units, {"hall": halls})
    sending = asyncio.create_task(worker.run_once())
    async with asyncio.timeout(20):
        await halls.begun.wait()
        halls.begun.clear()
        await replica.send(opened("hall", tenant="other"))
        await halls.begun.wait()
        halls.gate.set()
        await sending
    assert ["acme", "other"] == halls.tenants


async def test_a_channel_that_fails_is_named_with_whom_it_fails_for(replica: Replica) -> None:
    """One failed try in each of two workspaces is no failing channel; two in one are, for those who share it."""
    halls = Halls(*(ChannelFailed("it rains") for _ in range(3)))
    worker = Worker(replica.units, {"hall": halls})
    with structlog.testing.capture_logs() as lines:
        for tenant in ("acme", "other", "sister"):
            await replica.send(opened("hall", tenant=tenant))
            await worker.run_once()
    told = [(line["event"], line["tenants"]) for line in lines if line["event"].startswith("channel.")]
    assert [("channel.failing", ("acme", "sister"))] == told

"""Sends due events to webhooks: claim, act outside any transaction, settle. Forgets those that are done with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from placet.notifier import webhook_events
from placet.notifier.channels import ChannelFailed
from placet.notifier.channels.webhook_posting import TIMEOUT_SECONDS, Poster
from placet.notifier.send_round import failed_by_bug, side_by_side
from placet.notifier.states import MACHINE, State
from placet.notifier.states import Event as Move
from placet.notifier.store.events import Claimed, Ended, claim_events, forget_events, settle_events
from placet.notifier.webhook_endpoints import Endpoint
from placet.runtime import points
from placet.runtime.work import Change, UnitOfWork

log = structlog.get_logger(__name__)

#: Events that one round claims.
BATCH = 32
#: How long a claimed event belongs to its worker: looking up a name and posting fit well within.
LEASE = timedelta(seconds=4 * TIMEOUT_SECONDS)


class EventWorker:
    """Sends the events of every tenant."""

    def __init__(self, units: UnitOfWork, endpoints: Mapping[str, Endpoint], poster: Poster) -> None:
        self._units = units
        self._endpoints = endpoints
        self._poster = poster

    async def run_once(self) -> int:
        """Send what is due; return how many events were tried if more may be due, else 0."""
        async with self._units.begin() as work:
            claimed = await claim_events(work, BATCH, LEASE)
        if claimed:
            await side_by_side(map(self._deliver, claimed))
        return len(claimed) if len(claimed) == BATCH else 0

    async def forget(self) -> int:
        """Forget events that were sent or given up long ago."""
        async with self._units.begin() as work:
            await forget_events(work, 2 * webhook_events.longest_wait())
        return 0

    async def _deliver(self, claimed: Claimed) -> None:
        error = await self._post(claimed)
        async with self._units.begin() as work:
            ended = _ended(claimed, error, work.now)
            if ended.state is not State.DUE and await settle_events(work, [ended]):
                work.record(_change(ended))
            elif ended.state is State.DUE:
                await settle_events(work, [ended])
        if ended.state is State.GIVEN_UP:
            log.error("webhook.given_up", webhook=claimed.event.webhook, type=claimed.event.type, reason=ended.error)

    async def _post(self, claimed: Claimed) -> ChannelFailed | None:
        """Return why the event was not taken, or nothing."""
        endpoint = self._endpoints.get(claimed.event.webhook)
        if endpoint is None:
            return ChannelFailed("this webhook is not there any more", permanent=True)
        try:
            async with asyncio.timeout(2 * TIMEOUT_SECONDS):
                points.reached("notifier.posting")
                await self._poster.post(endpoint, claimed.event.event_id, claimed.event.body)
                points.reached("notifier.posted")
        except ChannelFailed as error:
            return error
        except TimeoutError:
            return ChannelFailed("no answer in time")
        except Exception as error:  # noqa: BLE001 - whatever an event does to its poster, its tries must end
            return failed_by_bug(error, channel=f"webhook:{claimed.event.webhook}", event_id=claimed.event.event_id)
        return None


def _ended(claimed: Claimed, error: ChannelFailed | None, at: datetime) -> Ended:
    """Return what an event is after a try."""
    if error is None:
        return Ended(claimed, MACHINE.next_state(State.DUE, Move.SUCCEEDED), at)
    wait = None if error.permanent else webhook_events.wait_before(claimed.event.event_id, claimed.attempt)
    if wait is None:
        return Ended(claimed, MACHINE.next_state(State.DUE, Move.FAILED_FOR_GOOD), at, str(error))
    state = MACHINE.next_state(State.DUE, Move.FAILED)
    return Ended(claimed, state, at + timedelta(seconds=max(wait, error.retry_after or 0)), str(error))


def _change(ended: Ended) -> Change:
    event = ended.claimed.event
    return Change(
        tenant=event.tenant,
        machine=MACHINE.name,
        subject_id=event.event_id,
        event=Move.SUCCEEDED if ended.state is State.SENT else Move.FAILED_FOR_GOOD,
        from_state=State.DUE,
        to_state=ended.state,
        actor="notifier",
        detail={"channel": f"webhook:{event.webhook}", "type": event.type},
    )

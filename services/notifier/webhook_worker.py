"""Sends due events to webhooks: claim, act outside any transaction, settle. Forgets those that are done with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

import structlog

from placet.notifier import webhook_events
from placet.notifier.channels import ChannelFailed
from placet.notifier.channels.webhook import TIMEOUT_SECONDS, Poster
from placet.notifier.send_round import failed_by_bug, in_turns
from placet.notifier.states import MACHINE, State
from placet.notifier.states import Event as Move
from placet.notifier.store.events import Claimed, Ended, claim_events, forget_events, settle_events
from placet.notifier.webhook_endpoints import Endpoint
from placet.runtime import points
from placet.runtime.work import Change, UnitOfWork

log = structlog.get_logger(__name__)

#: Events that are sent at once, and how many of them may be of one webhook, which may be silent until its time is over.
AT_ONCE = 256
SHARE = 8
#: How long a claimed event belongs to its worker: looking up a name and posting fit well within.
LEASE = timedelta(seconds=4 * TIMEOUT_SECONDS)


class EventWorker:
    """Sends the events of every tenant."""

    def __init__(self, units: UnitOfWork, endpoints: Mapping[str, Endpoint], poster: Poster) -> None:
        self._units = units
        self._endpoints = endpoints
        self._poster = poster

    async def run_once(self) -> int:
        """Send until nothing is due and every try has ended; return 0."""
        await in_turns(self._begin)
        return 0

    async def _begin(self, busy: Collection[str]) -> Mapping[str, Iterable[Awaitable[None]]]:
        """Claim due events of webhooks that are not busy; return the tries of each of these."""
        by_webhook: dict[str, list[Claimed]] = {}
        room = AT_ONCE - SHARE * len(busy)
        if room > 0:
            async with self._units.begin() as work:
                for each in await claim_events(work, room, LEASE, share=SHARE, but=busy):
                    by_webhook.setdefault(each.event.webhook, []).append(each)
        return {webhook: map(self._deliver, claimed) for webhook, claimed in by_webhook.items()}

    async def forget(self) -> int:
        """Forget events that were sent or given up long ago."""
        async with self._units.begin() as work:
            await forget_events(work, 2 * webhook_events.longest_wait())
        return 0

    async def _deliver(self, claimed: Claimed) -> None:
        error = await self._post(claimed)
        async with self._units.begin() as work:
            ended = _ended(claimed, error, work.now)
            if await settle_events(work, [ended]) and ended.state is not State.DUE:
                work.record(_change(ended))
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

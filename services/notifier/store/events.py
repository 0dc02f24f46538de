"""SQL of the events that webhooks hear."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from placet.notifier.states import State
from placet.notifier.webhook_events import Event
from placet.runtime.queries import load_queries
from placet.runtime.work import Work

QUERIES = load_queries(__file__, "events.sql")


@dataclass(frozen=True, slots=True)
class Claimed:
    """An event that this worker sends."""

    event: Event
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A claimed event after one try."""

    claimed: Claimed
    state: State
    due_at: datetime
    error: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A locked event, as far as an operator's wish needs it."""

    webhook: str
    type: str
    state: State


async def add_events(work: Work, events: Iterable[Event]) -> None:
    """Store events to send; one that is there already stays as it is."""
    if rows := list(events):
        await work.run(QUERIES.add, events=rows)


async def claim_events(work: Work, limit: int, lease: timedelta, *, share: int, but: Iterable[str]) -> list[Claimed]:
    """Claim due events for this worker until the lease runs out: at most `share` of one webhook, none of `but`."""
    await work.run(QUERIES.turn)
    await work.run(QUERIES.free)
    found = await work.run(QUERIES.claim, most=limit, lease=lease, share=share, but=list(but))
    columns = ("event_id", "tenant", "webhook", "type", "body", "created_at")
    return [Claimed(Event(*(row[name] for name in columns)), row["attempt"], row["fence"]) for row in found]


async def settle_events(work: Work, ended: Sequence[Ended]) -> set[str]:
    """Write what became of claimed events; return those that nobody has claimed since."""
    rows = [
        {
            "event_id": each.claimed.event.event_id,
            "fence": each.claimed.fence,
            "state": each.state,
            "error": each.error,
            "due_at": each.due_at,
        }
        for each in ended
    ]
    return {row["event_id"] for row in await work.run(QUERIES.settle, ended=rows)}


async def lock_event(work: Work, event_id: str, tenant: str) -> Stored | None:
    """Lock and return an event of a tenant; None where that tenant has none."""
    found = await work.run(QUERIES.lock, event_id=event_id, tenant=tenant)
    return Stored(found[0]["webhook"], found[0]["type"], State(found[0]["state"])) if found else None


async def restart_event(work: Work, event_id: str, state: State) -> None:
    """Let a locked event begin its tries anew, now, in the state that this leads to."""
    await work.run(QUERIES.restart, event_id=event_id, state=state, at=work.now)


async def forget_events(work: Work, age: timedelta) -> None:
    """Delete events that are done with and older than `age`."""
    await work.run(QUERIES.forget, age=age)

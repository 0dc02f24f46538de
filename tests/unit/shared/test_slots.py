"""Rooms: how many are inside at a time, and whose turn it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from placet.runtime.slots import QUIET_SECONDS, Room, share_of, under_lease


@dataclass
class Visits:
    """Acts in a room that leave when they are told, and a clock that stands still."""

    room: Room = field(init=False)
    size: int = 4
    now: float = 0.0
    inside: list[str] = field(default_factory=list)
    leaving: dict[str, asyncio.Event] = field(default_factory=dict)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.room = Room(self.size, 0.75, monotonic=lambda: self.now)

    async def come(self, *names: str) -> None:
        """Begin acts; the first letter of a name is its tenant, what stands behind a colon its part."""
        for name in names:
            self.leaving[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._visit(name))
        await settled()

    async def leave(self, *names: str) -> None:
        """End acts."""
        for name in names:
            self.leaving[name].set()
        await asyncio.gather(*(self.tasks[name] for name in names))
        await settled()

    async def _visit(self, name: str) -> None:
        async with self.room.enter(name[0], name.partition(":")[2]):
            self.inside.append(name)
            await self.leaving[name].wait()


async def settled() -> None:
    """Return when every task has gone as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_tenant_alone_has_the_whole_room() -> None:
    """Four enter, and the fifth when one has left."""
    visits = Visits()
    await visits.come("a1", "a2", "a3", "a4", "a5")
    assert (4, 1) == (visits.room.busy, visits.room.waiting)
    await visits.leave("a2")
    assert "a5" == visits.inside[-1]


async def test_who_comes_later_finds_room_though_many_wait() -> None:
    """A tenant that floods has three of four places where another one was here lately."""
    visits = Visits()
    await visits.come("b1")
    await visits.leave("b1")
    await visits.come("a1", "a2", "a3", "a4", "a5")
    assert (3, 2) == (visits.room.busy, visits.room.waiting)
    await visits.come("b2")
    assert ["b2"] == visits.inside[4:]


async def test_a_place_goes_to_whom_has_fewest() -> None:
    """Of tenants that wait, one with nobody inside goes before older ones of a tenant that has some."""
    visits = Visits()
    await visits.come("a1", "a2", "a3", "a4", "a5", "b1", "c1")
    await visits.leave("a1", "a2")
    assert ["b1", "c1"] == visits.inside[4:]


async def test_whom_nobody_saw_for_long_keeps_no_place() -> None:
    """After ten quiet minutes of the other tenant the whole room is used."""
    visits = Visits()
    await visits.come("b1")
    await visits.leave("b1")
    await visits.come("a1", "a2", "a3", "a4")
    visits.now += QUIET_SECONDS + 1
    await visits.leave("a1")
    await visits.come("a5", "a6")
    assert (4, 1) == (visits.room.busy, visits.room.waiting)


async def test_a_part_of_a_tenant_leaves_room_for_its_others() -> None:
    """An agent whose provider is silent has three of four places where another one of its tenant was here lately."""
    visits = Visits()
    await visits.come("a1:quick")
    await visits.leave("a1:quick")
    await visits.come("a2:silent", "a3:silent", "a4:silent", "a5:silent")
    assert (3, 1) == (visits.room.busy, visits.room.waiting)
    await visits.come("a6:quick")
    assert ["a6:quick"] == visits.inside[4:]


async def test_a_place_goes_to_the_part_that_has_fewest() -> None:
    """Of a tenant's agents that wait, one with nobody inside goes before older turns of one that has some."""
    visits = Visits()
    await visits.come("a1:x", "a2:x", "a3:x", "a4:x", "a5:x", "a6:y")
    await visits.leave("a1:x")
    assert ["a6:y"] == visits.inside[4:]


async def test_many_parts_give_their_tenant_no_more() -> None:
    """A tenant of two agents has three of four places beside another tenant, and one of its agents two of these."""
    visits = Visits()
    await visits.come("b1", "a0:y")
    await visits.leave("b1", "a0:y")
    await visits.come("a1:x", "a2:x", "a3:x", "a4:y", "a5:y")
    assert ["a1:x", "a2:x", "a4:y"] == visits.inside[2:]


async def test_who_gives_up_waiting_takes_no_place() -> None:
    """A cancelled wait leaves its turn to the next, whether it was its turn already or not."""
    visits = Visits(size=1)
    await visits.come("a1", "a2", "a3")
    visits.tasks["a2"].cancel()
    await visits.leave("a1")
    assert (["a1", "a3"], 1, 0) == (visits.inside, visits.room.busy, visits.room.waiting)
    visits.tasks["a3"].cancel()
    await settled()
    assert 0 == visits.room.busy


@pytest.mark.parametrize(("size", "share", "most"), [(16, 0.75, 12), (1, 0.75, 1), (2, 0.1, 1), (8, 1.0, 8)])
def test_a_share_is_at_least_one_slot(size: int, share: float, most: int) -> None:
    """However few slots there are."""
    assert most == share_of(size, share)


async def test_a_lost_lease_is_told_with_the_ids_of_whose_it_was() -> None:
    """Not with a task of the event loop, which nobody can look for."""

    async def renew() -> bool:
        return False

    with capture_logs() as lines, pytest.raises(asyncio.CancelledError):
        await under_lease(asyncio.Event().wait(), renew, every_seconds=0, ids={"turn_id": "t-1"})  # type: ignore[arg-type]
    assert [{"event": "lease.lost", "log_level": "warning", "turn_id": "t-1"}] == lines

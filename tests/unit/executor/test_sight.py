"""When a lease that ran out says that its worker is lost."""

from __future__ import annotations

from placet.executor.sweeper import Sight


def looks(*times: float, lease_seconds: float = 30) -> list[bool]:
    """Look at these times; return when leases counted."""
    sight = Sight(lease_seconds)
    return [sight.clear(at) for at in times]


def test_leases_count_from_the_first_look() -> None:
    """An executor that has just started sweeps at once, whatever its clock says."""
    assert [True] == looks(123_456.0)


def test_leases_count_while_looks_follow_each_other() -> None:
    """A third of a lease is no gap: one failed renewal in it leaves time for the next."""
    assert [True] * 4 == looks(0, 10, 20, 30)


def test_after_a_gap_workers_get_one_lease_to_come_back() -> None:
    """While the database was away nobody could renew; one lease's time later the silent ones are lost."""
    assert [True, False, False, False, False, True] == looks(0, 100, 110, 120, 129.9, 130)


def test_another_gap_begins_the_wait_anew() -> None:
    """Looks go on during the wait, so a database that goes away again is noticed."""
    assert [True, False, False, False, False, False, True] == looks(0, 100, 120, 130, 140, 149, 150)

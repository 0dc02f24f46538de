"""Who is let in: bounds in all and by address, as far as there are descriptors."""

from __future__ import annotations

import pytest

from placet.runtime.connections import Bounds, Door, that_fit


@pytest.mark.parametrize(
    ("descriptors", "in_all", "by_address"),
    [(1_000_000, 30_000, 12_000), (20_000, 18_976, 9_488), (1_024, 768, 384), (4, 3, 1)],
)
def test_some_descriptors_stay_for_the_database(descriptors: int, in_all: int, by_address: int) -> None:
    """A quarter is no stranger's, and half of the rest no single address's."""
    bounds = Bounds(in_all=30_000, by_address=12_000, seconds=7.0)
    assert Bounds(in_all=in_all, by_address=by_address, seconds=7.0) == that_fit(bounds, descriptors=descriptors)


@pytest.mark.parametrize(
    ("first", "second", "let_in"),
    [
        ("192.0.2.1", "192.0.2.1", False),
        ("192.0.2.1", "192.0.2.2", True),
        ("192.0.2.1", "::ffff:192.0.2.1", False),
        ("2001:db8::1", "2001:db8::ffff:1", False),
        ("2001:db8::1", "2001:db8:0:1::1", True),
        ("10.0.0.1", "10.0.0.1", True),
    ],
)
def test_an_address_is_whoever_has_it(first: str, second: str, *, let_in: bool) -> None:
    """Of IPv6 somebody has a whole /64; a trusted proxy is nobody."""
    door = Door(Bounds(in_all=5, by_address=1, seconds=7.0), ["10.0.0.0/8"])
    door.let_in(first)
    assert let_in == (door.let_in(second) is not None)


def test_who_has_gone_makes_room() -> None:
    """The place is free again, for the address and for all."""
    door = Door(Bounds(in_all=1, by_address=1, seconds=7.0))
    first = door.let_in("192.0.2.1")
    assert ("192.0.2.1", None) == (first, door.let_in("192.0.2.2"))
    door.let_out("192.0.2.1")
    assert "192.0.2.1" == door.let_in("192.0.2.1")

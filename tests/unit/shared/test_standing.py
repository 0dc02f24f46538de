"""What was changed later stands on what was changed before."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from placet.domain.standing import standing_on


@dataclass(frozen=True)
class Entry:
    """A staged entry."""

    call_id: str
    position: int
    keys: list[str] = field(default_factory=list)


ENTRIES = [
    Entry("writes-a", 1, ["a"]),
    Entry("writes-b", 2, ["b"]),
    Entry("calls", 3),
    Entry("moves-a-to-c", 4, ["a", "c"]),
    Entry("edits-c", 5, ["c"]),
]


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (["writes-a"], ["moves-a-to-c", "edits-c"]),
        (["moves-a-to-c"], ["edits-c"]),
        (["writes-b", "calls"], []),
        (["writes-a", "moves-a-to-c"], ["edits-c"]),
        ([], []),
    ],
)
def test_a_later_change_of_the_same_cannot_stand_alone(gone: list[str], expected: list[str]) -> None:
    """Whatever their order is given in; what came before, or touches something else, stands."""
    assert expected == [each.call_id for each in standing_on(reversed(ENTRIES), gone)]

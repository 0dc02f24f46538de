"""Where a grant is, and what becomes of it."""

from __future__ import annotations

import pytest

from placet.policy.states import GRANT_MACHINE, GrantEvent, GrantState, grant_state


@pytest.mark.parametrize(
    ("uses_left", "expired", "revoked", "state"),
    [
        (2, False, False, GrantState.ACTIVE),
        (0, False, False, GrantState.USED_UP),
        (0, True, False, GrantState.EXPIRED),
        (2, True, False, GrantState.EXPIRED),
        (2, True, True, GrantState.REVOKED),
        (0, False, True, GrantState.REVOKED),
    ],
)
def test_row_and_clock_say_where_a_grant_is(uses_left: int, *, expired: bool, revoked: bool, state: GrantState) -> None:
    """A person's word goes before the clock, and the clock before what is left."""
    assert state == grant_state(uses_left, expired=expired, revoked=revoked, void=False)


@pytest.mark.parametrize("expired", [False, True])
def test_a_void_grant_is_void_also_when_its_time_is_over(*, expired: bool) -> None:
    """What its tool was is gone for good, whatever the clock says after that."""
    assert GrantState.VOID == grant_state(1, expired=expired, revoked=False, void=True)


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (GrantState.ACTIVE, GrantEvent.USE_LAST, GrantState.USED_UP),
        (GrantState.USED_UP, GrantEvent.RETURN, GrantState.ACTIVE),
        (GrantState.REVOKED, GrantEvent.RETURN, GrantState.REVOKED),
        (GrantState.USED_UP, GrantEvent.VOID, GrantState.VOID),
        (GrantState.VOID, GrantEvent.RETURN, GrantState.VOID),
        (GrantState.VOID, GrantEvent.USE, GrantState.VOID),
        (GrantState.VOID, GrantEvent.REVOKE, GrantState.REVOKED),
        (GrantState.EXPIRED, GrantEvent.RETURN, GrantState.EXPIRED),
        (GrantState.EXPIRED, GrantEvent.REVOKE, GrantState.REVOKED),
    ],
)
def test_what_comes_too_late_leaves_a_grant_where_it_is(
    before: GrantState, event: GrantEvent, after: GrantState
) -> None:
    """A use that comes back to a grant that is over opens it no more."""
    assert after == GRANT_MACHINE.after(before, event)

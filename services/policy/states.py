"""States of one grant. Every change of state is a row of the table below.

Nothing of it is a column: how many uses are left, whether somebody revoked it and what time it is say where it is; the
clock fires `time_out` when a row is read. Each statement that changes a grant names in its WHERE what the table asks
for, and its history row has both states. A grant whose rule has changed covers nothing, and is in no other state for
that: the old rule may come back. One whose tool has changed is void: what people allowed was that tool, and the old one
comes back without them.
"""

from __future__ import annotations

from enum import StrEnum
from functools import reduce

from placet.contracts.transitions import Machine


class GrantState(StrEnum):
    """Where a grant can be."""

    ASKED = "asked"  # never stored: somebody wants it, the handler moves it on
    ACTIVE = "active"  # it lets calls through
    USED_UP = "used_up"  # no use is left, until a call that took one did not run
    EXPIRED = "expired"  # its time is over, by the database's clock; it can still be revoked
    VOID = "void"  # a rulebook took over in which its tool is another one or gone; it can still be revoked
    REVOKED = "revoked"  # final: its owner or an administrator took it back
    REFUSED = "refused"  # final: it never began, the rulebook of the day did not let it; only the history knows of it


class GrantEvent(StrEnum):
    """What can happen to a grant."""

    GIVE = "give"  # the rulebook lets somebody have it
    REFUSE = "refuse"  # the rulebook does not
    USE = "use"  # a call takes a use, and others are left
    USE_LAST = "use_last"  # a call takes the last use
    RETURN = "return"  # a call that took a use did not run
    TIME_OUT = "time_out"  # its time has passed when its row is read
    VOID = "void"  # a rulebook takes over in which its tool is another one or gone
    REVOKE = "revoke"  # somebody takes it back


_OVER = (GrantState.EXPIRED, GrantState.VOID, GrantState.REVOKED)
_USES = (GrantEvent.USE, GrantEvent.USE_LAST)
_LATE = (*_USES, GrantEvent.RETURN, GrantEvent.TIME_OUT, GrantEvent.VOID)

GRANT_MACHINE = Machine(
    name="grant",
    initial=GrantState.ASKED,
    transitions={
        (GrantState.ASKED, GrantEvent.GIVE): GrantState.ACTIVE,
        (GrantState.ASKED, GrantEvent.REFUSE): GrantState.REFUSED,
        (GrantState.ACTIVE, GrantEvent.USE): GrantState.ACTIVE,
        (GrantState.ACTIVE, GrantEvent.USE_LAST): GrantState.USED_UP,
        (GrantState.ACTIVE, GrantEvent.RETURN): GrantState.ACTIVE,
        (GrantState.USED_UP, GrantEvent.RETURN): GrantState.ACTIVE,
        (GrantState.ACTIVE, GrantEvent.TIME_OUT): GrantState.EXPIRED,
        (GrantState.USED_UP, GrantEvent.TIME_OUT): GrantState.EXPIRED,
        (GrantState.ACTIVE, GrantEvent.VOID): GrantState.VOID,
        (GrantState.USED_UP, GrantEvent.VOID): GrantState.VOID,
        (GrantState.VOID, GrantEvent.REVOKE): GrantState.REVOKED,
        (GrantState.ACTIVE, GrantEvent.REVOKE): GrantState.REVOKED,
        (GrantState.USED_UP, GrantEvent.REVOKE): GrantState.REVOKED,
        (GrantState.EXPIRED, GrantEvent.REVOKE): GrantState.REVOKED,
    },
    final=frozenset({GrantState.REVOKED, GrantState.REFUSED}),
    # Calls meet at the last use, the end crosses a use or its return, two people revoke at once.
    races=frozenset(
        {(GrantState.USED_UP, event) for event in _USES}
        | {(state, event) for state in _OVER for event in _LATE}
        | {(GrantState.REVOKED, GrantEvent.REVOKE)}
    ),
)


def grant_state(uses_left: int, *, expired: bool = False, revoked: bool = False, void: bool = False) -> GrantState:
    """Return where a grant is by what its row and the clock say."""
    state = GrantState.ACTIVE if uses_left else GrantState.USED_UP
    happened = {GrantEvent.VOID: void, GrantEvent.TIME_OUT: expired, GrantEvent.REVOKE: revoked}
    return reduce(GRANT_MACHINE.after, (event for event, done in happened.items() if done), state)

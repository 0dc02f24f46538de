"""States of one approval. Every change of state is a row of the table below.

Whatever comes after the end has no effect and still stands in the history: a second click, a withdrawal that crossed a
decision, a timer that was late. So an approval that is over can never be decided again.
"""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.transitions import Machine


class State(StrEnum):
    """Where an approval can be, and who moves it on."""

    PENDING = "pending"  # people decide, the expiry duty ends it when it is overdue, the agent or a person withdraws it
    APPROVED = "approved"  # final: a permit was emitted in the same transaction
    DENIED = "denied"  # final: people said no
    ANSWERED = "answered"  # final: a person answered the model instead; nothing ran
    EXPIRED = "expired"  # final: nobody decided in time
    WITHDRAWN = "withdrawn"  # final: the conversation did not want the call any more


class Event(StrEnum):
    """What can happen to an approval."""

    APPROVE = "approve"  # votes are enough, or one that decides alone
    DENY = "deny"  # denials are enough, or a veto
    RESPOND = "respond"  # somebody who could deny alone answers the model
    TIME_OUT = "time_out"  # the deadline has passed, by the database's clock
    WITHDRAW = "withdraw"  # the conversation, its requester or an operator does not want the call any more


class EditState(StrEnum):
    """Where an edit can be: a person's wish to change the arguments."""

    ASKED = "asked"  # policy judges the changed call
    ACCEPTED = "accepted"  # final: the arguments were changed, and it counts as its maker's approval
    REFUSED = "refused"  # final: policy or the approval as it was by then did not let anybody change them so


class EditEvent(StrEnum):
    """What can happen to an edit."""

    ACCEPT = "accept"  # policy let it pass, and everything about its maker still held
    REFUSE = "refuse"  # one of the two did not


FINAL = frozenset({State.APPROVED, State.DENIED, State.ANSWERED, State.EXPIRED, State.WITHDRAWN})

MACHINE = Machine(
    name="approval",
    initial=State.PENDING,
    transitions={
        (State.PENDING, Event.APPROVE): State.APPROVED,
        (State.PENDING, Event.DENY): State.DENIED,
        (State.PENDING, Event.RESPOND): State.ANSWERED,
        (State.PENDING, Event.TIME_OUT): State.EXPIRED,
        (State.PENDING, Event.WITHDRAW): State.WITHDRAWN,
    },
    final=FINAL,
    # Two people click at once, the timer and a person meet, a withdrawal crosses a decision: the first one counts.
    races=frozenset((state, event) for state in FINAL for event in Event),
)

_EDITED = frozenset({EditState.ACCEPTED, EditState.REFUSED})
EDIT_MACHINE = Machine(
    name="edit",
    initial=EditState.ASKED,
    transitions={
        (EditState.ASKED, EditEvent.ACCEPT): EditState.ACCEPTED,
        (EditState.ASKED, EditEvent.REFUSE): EditState.REFUSED,
    },
    final=_EDITED,
    # Policy's answer comes twice: the first one counts.
    races=frozenset((state, event) for state in _EDITED for event in EditEvent),
)

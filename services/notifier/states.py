"""States of one delivery. Every change of state is a row of the table below."""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.transitions import Machine


class State(StrEnum):
    """Where a delivery can be, and who moves it on."""

    ASLEEP = "asleep"  # told only if an escalation names the place, or if nobody else could be told; that makes it due
    DUE = "due"  # the card lags behind the approval; a worker claims it and sends
    KEPT = "kept"  # enough cards wait at this address: comes when one of them is over, or shows up there in its count
    SENT = "sent"  # the card shows all that is worth showing there; the next revision makes it due again
    GIVEN_UP = "given_up"  # the channel failed too often or for good; an operator may try again, and so does the end
    SPARED = "spared"  # final: the approval was over before its card was ever shown here


class Event(StrEnum):
    """What can happen to a delivery."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FAILED_FOR_GOOD = "failed_for_good"
    #: Its channel says that nobody was told, and that nobody has to be any more.
    UNNEEDED = "unneeded"
    OUTDATED = "outdated"
    REVISED = "revised"
    ENDED = "ended"
    ESCALATED = "escalated"
    FELL_BACK = "fell_back"
    HURRIED = "hurried"
    KEPT_BACK = "kept_back"
    LET_THROUGH = "let_through"
    RETRIED = "retried"
    BOUNCED = "bounced"


MACHINE = Machine(
    name="delivery",
    initial=State.DUE,
    transitions={
        (State.ASLEEP, Event.REVISED): State.ASLEEP,
        (State.ASLEEP, Event.ENDED): State.SPARED,
        (State.ASLEEP, Event.ESCALATED): State.DUE,
        (State.ASLEEP, Event.FELL_BACK): State.DUE,
        (State.DUE, Event.SUCCEEDED): State.SENT,
        (State.DUE, Event.FAILED_FOR_GOOD): State.GIVEN_UP,
        (State.DUE, Event.UNNEEDED): State.SPARED,
        (State.DUE, Event.FAILED): State.DUE,
        # A try of an older card came back, whatever it brought: the newer one is still to be shown.
        (State.DUE, Event.OUTDATED): State.DUE,
        (State.DUE, Event.REVISED): State.DUE,
        (State.DUE, Event.ENDED): State.DUE,
        (State.DUE, Event.KEPT_BACK): State.KEPT,
        # Nobody was told, and there is little time left.
        (State.DUE, Event.HURRIED): State.DUE,
        (State.KEPT, Event.HURRIED): State.DUE,
        # The channel had taken the card, and says later that it did not arrive.
        (State.DUE, Event.BOUNCED): State.GIVEN_UP,
        (State.SENT, Event.BOUNCED): State.GIVEN_UP,
        (State.KEPT, Event.REVISED): State.KEPT,
        (State.KEPT, Event.ENDED): State.SPARED,
        (State.KEPT, Event.ESCALATED): State.DUE,
        (State.KEPT, Event.LET_THROUGH): State.DUE,
        (State.SENT, Event.REVISED): State.DUE,
        (State.SENT, Event.ENDED): State.DUE,
        # A place that showed the card gets another round of tries for its end, so that none shows it as pending.
        (State.GIVEN_UP, Event.ENDED): State.DUE,
        (State.GIVEN_UP, Event.RETRIED): State.DUE,
    },
    final=frozenset({State.SPARED}),
    races=frozenset(
        {
            (State.SENT, Event.SUCCEEDED),  # a worker whose lease ran out comes late
            (State.SENT, Event.FAILED),
            (State.SENT, Event.FAILED_FOR_GOOD),
            (State.SENT, Event.UNNEEDED),
            (State.SENT, Event.OUTDATED),
            (State.GIVEN_UP, Event.SUCCEEDED),
            (State.GIVEN_UP, Event.FAILED),
            (State.GIVEN_UP, Event.FAILED_FOR_GOOD),
            (State.GIVEN_UP, Event.UNNEEDED),
            (State.GIVEN_UP, Event.OUTDATED),
            (State.DUE, Event.ESCALATED),  # the place that an escalation names is told already
            (State.SENT, Event.ESCALATED),
            (State.GIVEN_UP, Event.ESCALATED),
            (State.ASLEEP, Event.RETRIED),  # an operator wants another try of what was not given up, or no more
            (State.DUE, Event.RETRIED),
            (State.KEPT, Event.RETRIED),
            (State.SENT, Event.RETRIED),
            (State.SPARED, Event.RETRIED),
            (State.GIVEN_UP, Event.REVISED),  # the approval goes on; this card does not
            (State.GIVEN_UP, Event.BOUNCED),  # of several mails each comes back
            (State.SPARED, Event.BOUNCED),
            (State.SPARED, Event.REVISED),  # how the call ended, behind the approval's end
            (State.SPARED, Event.ENDED),
            (State.SPARED, Event.ESCALATED),  # the escalation comes behind the end
        }
    ),
)

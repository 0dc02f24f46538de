"""Counting a vote, and closing the approval where that decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from services.approval.rules.answers import Answer, Asked
from services.approval.rules.approval import Approval, RefusedKind
from services.approval.states import MACHINE, Event
from shared import votes
from shared.votes import Vote

_KINDS: Mapping[Event, RefusedKind] = {Event.DENY: "denied", Event.RESPOND: "answered"}


def cast(asked: Asked, vote: Vote, approval: Approval) -> Answer:
    """Count a vote on `approval`, and close it where that decides."""
    way = votes.decided_alone(approval, vote, asked.directory)
    if way is None:
        tally = votes.tally(approval, asked.votes, asked.directory, vote)
        # What was counted before there were seats may be enough the other way: nobody denies by approving.
        way = tally.way if tally.way == vote.verb else None
        if way is None:
            counted = replace(approval, revision=asked.approval.revision + 1, seats=tally.seats)
            return asked.accepted(f"Your vote counts. So far: {tally.words}.", counted, "voted")
    event = Event(way)
    detail = f"You {'approved' if event is Event.APPROVE else 'denied'} it."
    return Answer("accepted", detail, closed(asked, approval, event), event=event)


def closed(asked: Asked, approval: Approval, event: Event) -> Approval:
    """Return the approval as a person's decision leaves it; raise ExpectedRace where it is closed already."""
    kind = _KINDS.get(event)
    return replace(
        approval,
        state=MACHINE.next_state(approval.state, event),
        closed_at=asked.now,
        result_kind=kind,
        answer_kind=asked.claims.response_kind if event is Event.RESPOND else None,
        decided_by=asked.claims.person,
        decision_reason=asked.claims.response if event is Event.RESPOND else asked.claims.reason,
    )

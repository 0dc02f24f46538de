"""Counting a vote, and closing the approval where that decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from placet.approval.rules.answers import Answer, Asked
from placet.approval.rules.approval import Approval, RefusedKind, excluded
from placet.approval.states import MACHINE, Event
from placet.domain import deciders, votes
from placet.domain.directory import Directory
from placet.domain.votes import Vote

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
            counted = with_voters(counted, (*asked.votes, vote), asked.directory)
            return asked.accepted(f"Your vote counts. So far: {tally.words}.", counted, "voted")
    event = Event(way)
    detail = f"You {'approved' if event is Event.APPROVE else 'denied'} it."
    return Answer("accepted", detail, closed(asked, approval, event), event=event)


def with_voters(approval: Approval, cast: Iterable[Vote], directory: Directory) -> Approval:
    """Return the approval with who voted and who has nothing to decide for now, as far as these votes say.

    Whoever could not decide any more when votes were counted, or was given a place since, may vote once more.
    """
    last = {vote.voter.counts_as: vote.voter for vote in cast}
    closed_to = excluded(approval.call.requester, approval.approval_rule)
    for who, voter in last.items():
        seats = None if approval.seats is None else approval.seats.get(who, frozenset())
        others = last.keys() - {who}
        if seats is None or (seats and deciders.all_panels(approval, voter, directory, others) <= seats):
            closed_to[who] = voter.key_id
    return replace(approval, voters={who: voter.key_id for who, voter in last.items()}, closed_to=closed_to)


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
        ends_turn=event is Event.DENY and asked.claims.end_turn,
        decision_reason=asked.claims.response if event is Event.RESPOND else asked.claims.reason,
    )

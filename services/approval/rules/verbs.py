"""What people can do with an approval: one row for each verb, with everything that tells it from the others.

A verb that is added is added here and among the messages' verbs, and nowhere else in this service.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from placet.approval.rules import edits, grants
from placet.approval.rules.answers import Answer, Asked, says_something
from placet.approval.rules.approval import Approval, RefusedKind, Withdrawal, ending, excluded, withdrawn
from placet.approval.states import MACHINE, Event, State
from placet.contracts.messages.approvals import Verb
from placet.domain import deciders, votes
from placet.domain.deciders import Delegation, Voter
from placet.domain.directory import Directory
from placet.domain.votes import Vote

_KINDS: Mapping[Event, RefusedKind] = {Event.DENY: "denied", Event.RESPOND: "answered"}


def cast(asked: Asked, vote: Vote, approval: Approval) -> Answer:
    """Count a vote on `approval`, and close it where that decides."""
    way = votes.decided_alone(approval, vote, asked.directory)
    if way is None:
        if vote.voter.identity not in votes.last_votes((*asked.votes, vote)):
            return asked.invalid("Somebody who holds this conversation's token has voted in person: it adds nothing.")
        tally = votes.tally(approval, asked.votes, asked.directory, vote)
        if not tally.seats[vote.voter.identity]:
            return asked.invalid("Whoever let you decide in their place has voted: your vote adds nothing.")
        # What was counted before there were seats may be enough the other way: nobody denies by approving.
        way = tally.way if tally.way == vote.verb else None
        if way is None:
            counted = replace(approval, revision=asked.approval.revision + 1, seats=tally.seats)
            counted = with_voters(counted, (*asked.votes, vote), asked.directory)
            return asked.accepted(f"Your vote counts. So far: {tally.words}.", counted, "voted")
        approval = replace(approval, seats=tally.seats)
    elif way == "approve" and approval.seats is not None:
        # It counts for all that it may by now, whatever one before it counted for.
        alone = deciders.own_panels(approval, vote.voter, asked.directory)
        approval = replace(approval, seats={**approval.seats, vote.voter.identity: alone})
    event = Event(way)
    detail = f"You {'approved' if event is Event.APPROVE else 'denied'} it."
    return Answer("accepted", detail, closed(asked, approval, event), event=event)


def with_voters(approval: Approval, cast: Iterable[Vote], directory: Directory) -> Approval:
    """Return the approval with who voted and who has nothing to decide for now, as far as these votes say.

    Whoever could not decide any more when votes were counted, or was given a place since, may vote once more.
    """
    last = votes.last_votes(cast)
    closed_to = excluded(approval.call.requester, approval.approval_rule)
    for who, vote in last.items():
        seats = None if approval.seats is None else approval.seats.get(who, frozenset())
        others = votes.behind_others(last, who)
        if seats is None or (seats and deciders.all_panels(approval, vote.voter, directory, others) <= seats):
            closed_to[who] = vote.voter.key_id
    return replace(approval, voters={who: vote.voter.key_id for who, vote in last.items()}, closed_to=closed_to)


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


#: How long "I'm on it" holds where nobody says, and at most.
CLAIM_SECONDS, CLAIM_SECONDS_MAX = 900, 86_400


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a verb means."""

    #: Who may. Asked before anything else, so that a stranger learns nothing by trying.
    right: Callable[[Approval, Voter, Directory], bool]
    #: What it comes to once it may be done.
    act: Callable[[Asked], Answer]
    #: True: it is about exactly what was shown. A stale card makes none, and who makes it must be known surely enough.
    is_binding: bool = False
    #: The vote that it counts as; None where it is none. An edit counts as its maker's approval.
    vote: Literal["approve", "deny", "abstain"] | None = None
    #: Values of a rule's `reason_required` that ask for a reason.
    reason_where: frozenset[str] = frozenset()
    #: What is said where it comes after the end.
    too_late: Callable[[Approval], str] = ending


def vote_of(asked: Asked) -> Vote:
    """Return the vote that a decision is; raise ValueError for one that is none."""
    way = VERBS[asked.claims.verb].vote
    if way is None:
        raise ValueError(f"{asked.claims.verb} is no vote")
    return Vote(asked.voter, way)


def _approve(asked: Asked) -> Answer:
    if problem := grants.problem(asked.approval, asked.claims, asked.directory):
        return asked.invalid(problem)
    return _vote(asked)


def _vote(asked: Asked) -> Answer:
    return cast(asked, vote_of(asked), asked.approval)


def _edit(asked: Asked) -> Answer:
    call, problem = edits.revised(asked.approval, asked.claims)
    if call is None:
        return asked.invalid(problem)
    return Answer("accepted", "The changed arguments are being checked.", asked.approval, proposal=call)


def _respond(asked: Asked) -> Answer:
    if not says_something(asked.claims.response):
        return asked.invalid("An answer must say something.")
    denial = Vote(asked.voter, "deny")
    alone = votes.decided_alone(asked.approval, denial, asked.directory) is not None
    if not alone and asked.approval.approval_rule.denials == 1:
        # In somebody's place: whether that is filled, the votes say.
        alone = cast(asked, denial, asked.approval).event is Event.DENY
    if not alone:
        return asked.invalid("Only somebody whose denial decides alone can answer instead of the tool.")
    after = closed(asked, asked.approval, Event.RESPOND)
    return Answer("accepted", "The model gets your answer; nothing ran.", after, event=Event.RESPOND)


def _delegate(asked: Asked) -> Answer:
    approval, to, opened_by = asked.approval, asked.claims.to, asked.claims.opened_by
    if to == asked.claims.person or not deciders.may_be_delegate(approval, to, asked.directory, opened_by):
        return asked.invalid("This person cannot decide in your place.")
    kept = tuple(each for each in approval.delegations if each.by.identity != asked.voter.identity)
    after = replace(approval, delegations=(*kept, Delegation(asked.voter, to)), revision=approval.revision + 1)
    after = with_voters(after, asked.votes, asked.directory)
    return asked.accepted(f"{to} may decide in your place.", after, "delegated")


def _claim(asked: Asked) -> Answer:
    approval, person = asked.approval, asked.claims.person
    held = approval.claimed_by is not None and (approval.claimed_until or asked.now) > asked.now
    if held and approval.claimed_by != person:
        return asked.invalid(f"{approval.claimed_by} is on it until {_at(approval.claimed_until)}.")
    until = asked.now + timedelta(seconds=min(asked.claims.seconds or CLAIM_SECONDS, CLAIM_SECONDS_MAX))
    after = replace(approval, claimed_by=person, claimed_until=until, revision=approval.revision + 1)
    return asked.accepted(f"You are on it until {_at(until)}.", after, "claimed")


def _release(asked: Asked) -> Answer:
    if asked.approval.claimed_by != asked.claims.person:
        return asked.invalid("You did not say that you are on it.")
    after = replace(asked.approval, claimed_by=None, claimed_until=None, revision=asked.approval.revision + 1)
    return asked.accepted("You are not on it any more.", after, "released")


def _cancel(asked: Asked) -> Answer:
    because = f": {asked.claims.reason}" if asked.claims.reason else ""
    reason = f"The call did not run: {asked.claims.person} cancelled it{because}."
    after = withdrawn(asked.approval, Withdrawal("cancelled", reason), asked.now)
    return Answer("accepted", "It is cancelled; the call will not run.", after, event=Event.WITHDRAW)


def _cancelled_too_late(approval: Approval) -> str:
    if approval.state is State.APPROVED:
        return f"{ending(approval)} It may be running or done: it cannot be cancelled any more. Your wish is recorded."
    return ending(approval)


def _at(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "nobody knows when"


_ALWAYS, _OF_DENIALS = frozenset({"always"}), frozenset({"always", "deny"})

VERBS: Mapping[Verb, Meaning] = {
    "approve": Meaning(deciders.may_approve, _approve, is_binding=True, vote="approve", reason_where=_ALWAYS),
    "deny": Meaning(deciders.may_deny, _vote, is_binding=True, vote="deny", reason_where=_OF_DENIALS),
    "abstain": Meaning(deciders.may_approve, _vote, is_binding=True, vote="abstain"),
    "edit": Meaning(deciders.may_approve, _edit, is_binding=True, vote="approve", reason_where=_ALWAYS),
    "respond": Meaning(deciders.may_deny, _respond, is_binding=True),
    "delegate": Meaning(deciders.may_delegate, _delegate, is_binding=True),
    "claim": Meaning(deciders.may_deny, _claim),
    "release": Meaning(deciders.may_deny, _release),
    "cancel": Meaning(deciders.may_cancel, _cancel, too_late=_cancelled_too_late),
}
#: Those that are votes, in the order of the table.
VOTING: tuple[Verb, ...] = tuple(verb for verb, meaning in VERBS.items() if meaning.vote is not None)

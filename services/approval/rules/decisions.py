"""What a decision comes to. Rights are judged before the state, so that a stranger learns nothing by trying.

Each verb is one function; what holds for several stands before it: who may, whether it is in time, whether the person
is known surely enough, whether they saw what would run, whether they said why.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from services.approval.rules import edits, grants, timers
from services.approval.rules.approval import (
    Approval,
    RefusedKind,
    Withdrawal,
    ending,
    expired,
    withdrawn,
)
from services.approval.states import MACHINE, Event, State
from shared import deciders, votes
from shared.card_text import is_hidden
from shared.deciders import Delegation, Voter
from shared.directory import Directory
from shared.messages import DecisionAnswered, DecisionClaims, ToolCall
from shared.messages.approvals import Outcome, ProgressKind, Verb
from shared.votes import Vote

#: Decisions about exactly what was shown: a stale card makes none, and who makes them must be known surely enough.
BINDING: frozenset[Verb] = frozenset({"approve", "deny", "abstain", "edit", "respond", "delegate"})
#: How long "I'm on it" holds where nobody says, and at most.
CLAIM_SECONDS, CLAIM_SECONDS_MAX = 900, 86_400


@dataclass(frozen=True, slots=True)
class Answer:
    """What a decision comes to."""

    outcome: Outcome
    #: One sentence for the person.
    detail: str
    #: The approval as it is then; None where there is none.
    after: Approval | None
    #: What closes it; None where it stays pending or was closed before.
    event: Event | None = None
    #: What surfaces are told where it changed and stays pending, or was edited.
    progress: ProgressKind | None = None
    #: The call that policy has to judge before there is an answer.
    proposal: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision and what became of it; kept whether it counted or not."""

    claims: DecisionClaims
    #: The claims as the gateway signed them, JWS compact form.
    signed: str
    answered: DecisionAnswered
    at: datetime
    #: The arguments that the vote is about, and the card's revision that it made; None where it did not count.
    arguments_revision: int | None = None
    counted_revision: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A decision that may be made, and everything that it is judged by."""

    approval: Approval
    claims: DecisionClaims
    voter: Voter
    now: datetime
    directory: Directory
    #: What others, and this person before, said about the same arguments.
    votes: Sequence[Vote]

    def accepted(self, detail: str, after: Approval, progress: ProgressKind) -> Answer:
        """Return the answer to what changed the approval without closing it."""
        return Answer("accepted", detail, after, progress=progress)

    def invalid(self, detail: str) -> Answer:
        """Return the answer to what cannot be done."""
        return Answer("invalid", detail, self.approval)


def decide(
    approval: Approval | None, claims: DecisionClaims, now: datetime, directory: Directory, others: Sequence[Vote] = ()
) -> Answer:
    """Return what a person's decision comes to at `now`, which must have been read after the row was locked."""
    voter = Voter.of(claims)
    if approval is None:
        return Answer("not_found", "There is no such approval.", None)
    if refusal := refused(approval, claims, voter, now, directory):
        return refusal
    return _VERBS[claims.verb](Asked(approval, claims, voter, now, directory, others))


def refused(
    approval: Approval, claims: DecisionClaims, voter: Voter, now: datetime, directory: Directory
) -> Answer | None:
    """Return why the decision is not even considered; None where it is."""
    if not _RIGHTS[claims.verb](approval, voter, directory):
        return Answer("not_allowed", "You are not among the people who may decide this.", approval)
    if approval.closed_at is not None:
        return Answer("already_decided", _too_late(approval, claims), approval)
    if now >= approval.expires_at:
        late = "It expired before you decided."
        return Answer("already_decided", late, expired(approval, now), event=Event.TIME_OUT)
    return _incomplete(approval, claims)


def _incomplete(approval: Approval, claims: DecisionClaims) -> Answer | None:
    """Return what the decision lacks to be counted; None where it lacks nothing."""
    if claims.said and not approval.approval_rule.by_message:
        return Answer("invalid", "This cannot be decided by a message.", approval)
    if claims.verb in BINDING and not deciders.strong_enough(approval, claims.proof, said=bool(claims.said)):
        needed = approval.approval_rule.min_strength
        return Answer("too_weak", f"You must be known more surely to decide this: by {needed} or better.", approval)
    if claims.verb in BINDING and (difference := _difference(approval, claims)):
        text = f"{difference}, so your decision was not counted. Look at it again."
        return Answer("stale", text, approval)
    if _reason_missing(approval, claims):
        return Answer("invalid", "This needs a reason.", approval)
    return None


def needs_votes(approval: Approval | None, claims: DecisionClaims, directory: Directory) -> bool:
    """Tell whether other people's votes must be looked at before this one can be judged."""
    if approval is None or approval.closed_at is not None or claims.verb not in {"approve", "deny", "abstain"}:
        return False
    return votes.decided_alone(approval, _vote(claims), directory) is None


def cast(asked: Asked, vote: Vote, approval: Approval) -> Answer:
    """Count a vote on `approval`, and close it where that decides."""
    way = votes.decided_alone(approval, vote, asked.directory)
    if way is None:
        tally = votes.tally(approval, [*asked.votes, vote], asked.directory)
        # Votes may count again since and be enough the other way: nobody denies by approving, or decides by abstaining.
        way = tally.way if tally.way == vote.verb else None
        if way is None:
            counted = replace(approval, revision=asked.approval.revision + 1)
            return asked.accepted(f"Your vote counts. So far: {tally.words}.", counted, "voted")
    event = Event(way)
    detail = f"You {'approved' if event is Event.APPROVE else 'denied'} it."
    return Answer("accepted", detail, _closed(asked, approval, event), event=event)


def _vote(claims: DecisionClaims) -> Vote:
    match claims.verb:
        case "approve" | "deny" | "abstain" as verb:
            return Vote(Voter.of(claims), verb)
        case "edit":
            return Vote(Voter.of(claims), "approve")
        case other:
            raise ValueError(f"{other} is no vote")


def _closed(asked: Asked, approval: Approval, event: Event) -> Approval:
    kind = _KINDS.get(event)
    return replace(
        approval,
        state=MACHINE.next_state(approval.state, event),
        closed_at=asked.now,
        result_kind=kind,
        decided_by=asked.claims.person,
        decision_reason=asked.claims.response if event is Event.RESPOND else asked.claims.reason,
    )


def _decide(asked: Asked) -> Answer:
    if asked.claims.verb == "approve" and (problem := grants.problem(asked.approval, asked.claims, asked.directory)):
        return asked.invalid(problem)
    return cast(asked, _vote(asked.claims), asked.approval)


def _edit(asked: Asked) -> Answer:
    call, problem = edits.revised(asked.approval, asked.claims)
    if call is None:
        return asked.invalid(problem)
    return Answer("accepted", "The changed arguments are being checked.", asked.approval, proposal=call)


def _respond(asked: Asked) -> Answer:
    if not _says_something(asked.claims.response):
        return asked.invalid("An answer must say something.")
    if votes.decided_alone(asked.approval, Vote(asked.voter, "deny"), asked.directory) is None:
        return asked.invalid("Only somebody whose denial decides alone can answer instead of the tool.")
    after = _closed(asked, asked.approval, Event.RESPOND)
    return Answer("accepted", "The model gets your answer; nothing ran.", after, event=Event.RESPOND)


def _delegate(asked: Asked) -> Answer:
    approval, to = asked.approval, asked.claims.to
    if not _may_stand_in(asked):
        return asked.invalid("This person cannot decide in your place.")
    kept = tuple(each for each in approval.delegations if each.by.counts_as != asked.voter.counts_as)
    after = replace(approval, delegations=(*kept, Delegation(asked.voter, to)), revision=approval.revision + 1)
    return asked.accepted(f"{to} may decide in your place.", after, "delegated")


def _may_stand_in(asked: Asked) -> bool:
    to, opened_by = asked.claims.to, asked.claims.opened_by
    return to != asked.claims.person and deciders.may_be_delegate(asked.approval, to, asked.directory, opened_by)


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


def _extend(asked: Asked) -> Answer:
    if asked.claims.seconds is None:
        return asked.invalid("Say by how many seconds.")
    after = timers.extended(asked.approval, asked.claims.seconds)
    if after is None:
        return asked.invalid(f"Nothing waits longer than {timers.WAIT_MAX.days} days.")
    return asked.accepted(f"It waits until {_at(after.expires_at)}.", after, "extended")


def _pause(asked: Asked) -> Answer:
    if asked.approval.paused_at is not None:
        return asked.invalid("Its clock stands still already.")
    return asked.accepted("Its clock stands still.", timers.paused(asked.approval, asked.now), "paused")


def _resume(asked: Asked) -> Answer:
    if asked.approval.paused_at is None:
        return asked.invalid("Its clock is not stopped.")
    after = timers.resumed(asked.approval, asked.now)
    return asked.accepted(f"It waits until {_at(after.expires_at)}.", after, "resumed")


def _cancel(asked: Asked) -> Answer:
    because = f": {asked.claims.reason}" if asked.claims.reason else ""
    reason = f"The call did not run: {asked.claims.person} cancelled it{because}."
    after = withdrawn(asked.approval, Withdrawal("cancelled", reason), asked.now)
    return Answer("accepted", "It is cancelled; the call will not run.", after, event=Event.WITHDRAW)


def _too_late(approval: Approval, claims: DecisionClaims) -> str:
    if claims.verb == "cancel" and approval.state is State.APPROVED:
        return f"{ending(approval)} It may be running or done: it cannot be cancelled any more. Your wish is recorded."
    return ending(approval)


def _difference(approval: Approval, claims: DecisionClaims) -> str:
    """Return how the card that the person saw differs from what would run; empty where it does not.

    A newer revision with the same digest is the same call: a vote, a reminder or a claim came between.
    """
    if claims.digest != approval.call.digest:
        return "The call is not the one you were shown: its digest differs"
    if claims.revision is not None and claims.revision > approval.revision:
        return f"You were shown revision {claims.revision}, and it is now revision {approval.revision}"
    return ""


def _says_something(text: str) -> bool:
    """Tell whether there is anything to read: blanks, marks without a letter, and what has no shape say nothing."""
    return any(unicodedata.category(char)[0] not in "ZCM" and not is_hidden(char) for char in text)


def _reason_missing(approval: Approval, claims: DecisionClaims) -> bool:
    if _says_something(claims.reason):
        return False
    match approval.approval_rule.reason_required:
        case "always":
            return claims.verb in {"approve", "deny", "edit"}
        case "deny":
            return claims.verb == "deny"
        case _:
            return False


def _at(moment: datetime | None) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "nobody knows when"


_KINDS: Mapping[Event, RefusedKind] = {Event.DENY: "denied", Event.RESPOND: "answered"}
_Right = Callable[[Approval, Voter, Directory], bool]
_RIGHTS: Mapping[Verb, _Right] = {
    "approve": deciders.may_approve,
    "deny": deciders.may_deny,
    "abstain": deciders.may_approve,
    "edit": deciders.may_approve,
    "respond": deciders.may_deny,
    "delegate": deciders.may_delegate,
    "claim": deciders.may_deny,
    "release": deciders.may_deny,
    "extend": deciders.may_operate,
    "pause": deciders.may_operate,
    "resume": deciders.may_operate,
    "cancel": deciders.may_cancel,
}
_VERBS: Mapping[Verb, Callable[[Asked], Answer]] = {
    "approve": _decide,
    "deny": _decide,
    "abstain": _decide,
    "edit": _edit,
    "respond": _respond,
    "delegate": _delegate,
    "claim": _claim,
    "release": _release,
    "extend": _extend,
    "pause": _pause,
    "resume": _resume,
    "cancel": _cancel,
}

"""What follows a judged decision, in the same transaction: it is kept, answered, recorded, and told to everybody.

One place for decisions that are judged at once and for edits, which policy judges in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from placet.approval import closing, notices, store
from placet.approval.rules import VERBS, VOTING, Answer, Approval, Decision, Edit, Vote, edits, grants
from placet.approval.states import EDIT_MACHINE, Event
from placet.approval.store import Reading
from placet.contracts.ids import derived_id
from placet.contracts.messages import DecideApproval, DecisionClaims, ToolCall
from placet.contracts.permit import Consent
from placet.contracts.signed import signed
from placet.contracts.signing import Signer
from placet.domain import deciders
from placet.domain.approvers import is_person
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.votes import behind_others, groups_needed, last_votes
from placet.runtime.work import Cause, Work


@dataclass(frozen=True, slots=True)
class Sent:
    """A decision as it came: the message, what the gateway signed in it, and what its work goes back to."""

    message: DecideApproval
    claims: DecisionClaims
    cause: Cause

    @property
    def key(self) -> tuple[str, str]:
        """Tenant and decision id, which mean one decision."""
        return self.claims.tenant, self.claims.decision_id


@dataclass(frozen=True, slots=True)
class Made:
    """A decision, the approval that it was about, and what it came to."""

    sent: Sent
    #: What it was judged by; the approval as it was before.
    read: Reading
    #: Who is who at that moment.
    directory: Directory
    answer: Answer
    #: Calls that must have ended before this one may begin, where it was approved.
    after: Sequence[str]

    @property
    def approval(self) -> Approval | None:
        """The approval as it was before; None where there is none."""
        return self.read.approval

    @property
    def decision(self) -> Decision:
        """The decision as it is kept."""
        claims, after = self.sent.claims, self.answer.after
        counted = after if self.answer.outcome == "accepted" and claims.verb in VOTING else None
        return Decision(
            claims,
            self.sent.message.decision,
            notices.answered(self.sent.message, self.answer),
            self.read.now,
            arguments_revision=counted.arguments_revision if counted else None,
            counted_revision=counted.revision if counted else None,
        )

    @property
    def stored(self) -> tuple[str, Decision, Approval | None, Approval | None]:
        """What `store.keep_decisions` takes."""
        return self.sent.cause.id, self.decision, self.approval, self.answer.after


def follow(work: Work, made: Made, signer: Signer) -> None:
    """Hand over what follows from a decision: the permit first, then its answer, history and news."""
    before, after, answer, claims = made.approval, made.answer.after, made.answer, made.sent.claims
    work.cause = made.sent.cause
    if after is None or before is None:
        work.emit(made.decision.answered)
        return
    accepted = answer.outcome == "accepted"
    more = _more(before, after, claims) if accepted else _named(claims)
    # Before its end: what was edited and decided at once is shown as it was edited.
    news = [notices.progressed(after, answer.progress, claims)] if answer.progress is not None else []
    if answer.event is None:
        work.emit(made.decision.answered)
        closing.tell(work, after, *news)
    else:
        actor = claims.person if accepted else "clock"
        closing.end_call(work, after, signer, _consent(made, after), today=made.read.today)
        work.emit(made.decision.answered)
        closing.tell(work, after, *news)
        closing.close(work, after, answer.event, actor=actor, signer=signer, votes=_votes(made, after), **more)
    if answer.event is None or not accepted:
        outcome = "counted" if accepted else answer.outcome
        closing.record(work, after, claims.verb, actor=claims.person, before=after.state, outcome=outcome, **more)
    if answer.event is Event.APPROVE:
        grant = grants.asked(derived_id("grant", claims.decision_id), after, claims)
        if grant is not None:
            closing.tell(work, after, signed(grant, signer, work.now))


def in_order(made: Sequence[Made]) -> list[Made]:
    """Return decisions in the order in which the model proposed their calls; each approved call comes after the others.

    Calls that the rulebook says are independent wait for none, and none waits for them.
    """
    ordered = sorted(made, key=lambda each: _place(each.approval))
    found: list[Made] = []
    approved: dict[tuple[str, int], list[str]] = {}
    for each in ordered:
        approval = each.approval
        if approval is None or each.answer.event is not Event.APPROVE or not approval.call.step:
            found.append(each)
        elif approval.approval_rule.independent:
            found.append(replace(each, after=()))
        else:
            before = approved.setdefault((approval.call.turn_id, approval.call.step), [])
            found.append(replace(each, after=(*each.after, *before)))
            before.append(approval.call.call_id)
    return found


def _place(approval: Approval | None) -> tuple[str, int, int]:
    return ("", 0, 0) if approval is None else (approval.call.turn_id, approval.call.step, approval.call.position)


def _consent(made: Made, counting: Approval) -> Consent:
    """Return whose approvals stand behind a call that was approved, and which calls it comes after."""
    voter = Voter.of(made.sent.claims)
    last = last_votes(_on_same(made, counting)) if counting.revision > 1 else {}
    others = [each.voter for each in last.values() if each.verb == "approve"]
    # Who may not approve any more, or had no seat when votes were counted, was not counted.
    others = [each for each in others if counting.seats is None or counting.seats.get(each.identity)]
    others = [each for each in others if deciders.may_approve(counting, each, made.directory)]
    voters = [voter, *(each for each in others if each.identity != voter.identity)]
    by = [each.identity for each in voters if is_person(each.identity)]
    groups: dict[str, list[list[str]]] = {}
    conditions: dict[str, set[str]] = {}
    behind = list(voters)
    for each in voters:
        for text in deciders.conditions_met(counting.approval_rule, ()):
            conditions.setdefault(text, set()).add(each.identity)
        for seated, panels in _seated(counting, each, made.directory, behind_others(last, each.identity)):
            for text in deciders.conditions_met(counting.approval_rule, panels):
                conditions.setdefault(text, set()).add(seated.identity)
            found = groups_needed(counting, seated, panels)
            if found or seated is not each:
                groups[seated.identity] = found
            if seated is not each:
                behind.append(seated)
    keys = [each.key_id for each in behind if each.key_id]
    listed = [each.identity for each in behind if each.keyless and is_person(each.identity)]
    met = {text: sorted(filter(is_person, people)) for text, people in sorted(conditions.items())}
    return Consent(made.after, by, keys, groups, listed, met)


def _seated(
    approval: Approval, voter: Voter, directory: Directory, voted: Collection[str]
) -> Iterator[tuple[Voter, frozenset[int]]]:
    """Yield who sits in the panels that a yes counts for: its maker, and whoever let them vote in their place.

    Those have to be there still when the call begins, with the key that they said so with. Nobody votes for who `voted`
    themselves.
    """
    left = (approval.seats or {}).get(voter.identity)
    given = (each.by for each in approval.delegations if each.to == voter.identity and each.by.identity not in voted)
    taken: frozenset[int] = frozenset()
    for seated in (voter, *given):
        panels = deciders.own_panels(approval, seated, directory) - taken
        panels = panels if left is None else panels & left
        taken |= panels
        if panels:
            yield seated, panels


def _votes(made: Made, after: Approval) -> list[Vote]:
    """Return how people voted on what is over; what the first decision decided at once needed no votes."""
    if after.revision == 1:
        return []
    votes = _on_same(made, after)
    way = VERBS[made.sent.claims.verb].vote if made.answer.outcome == "accepted" else None
    if way is None:
        return list(votes)
    voter = Voter.of(made.sent.claims)
    others = [
        each
        for each in votes
        if (each.voter.person, each.voter.conversation_id) != (voter.person, voter.conversation_id)
    ]
    return [*others, Vote(voter, way)]


def _on_same(made: Made, after: Approval) -> Sequence[Vote]:
    """Return the votes on the arguments as a decision leaves them: an edit voids those before it."""
    return made.read.votes if after.arguments_revision == (made.approval or after).arguments_revision else ()


async def propose(work: Work, made: Made, call: ToolCall, signer: Signer) -> bool:
    """Ask policy about an edit; its maker hears when policy has answered. False: it is to be judged anew."""
    approval, claims = made.approval, made.sent.claims
    work.cause = made.sent.cause
    if approval is None:
        raise ValueError(f"decision {claims.decision_id} edits nothing")
    edit = Edit(
        edit_id=claims.decision_id,
        approval_id=approval.approval_id,
        person=claims.person,
        state=EDIT_MACHINE.initial,
        base_revision=approval.arguments_revision,
        arguments=call.arguments,
        digest=call.digest,
        signed=made.sent.message.decision,
        answer_to=made.sent.message.answer_to,
    )
    outcome, own = edit.state, {"decision_id": edit.edit_id}
    closing.record(work, approval, "edit", actor=claims.person, before=approval.state, outcome=outcome, **own)
    closing.tell(work, approval, signed(notices.edit_proposed(approval, edit.edit_id, call), signer, work.now))
    return await store.add_edit(work, edit, approval, claims, made.read.now)


def asked_by(edit: Edit, tenant: str) -> DecideApproval:
    """Return the decision that asked for an edit, as it came."""
    return DecideApproval(
        tenant=tenant,
        approval_id=edit.approval_id,
        decision_id=edit.edit_id,
        answer_to=edit.answer_to,
        decision=edit.signed,
    )


def _named(claims: DecisionClaims) -> dict[str, Any]:
    """Return which decision this is and whom it names: an erasure that takes its signature takes these words too."""
    return {name: getattr(claims, name) for name in ("decision_id", "to", "key_made_by", "opened_by")}


def _more(before: Approval, after: Approval, claims: DecisionClaims) -> dict[str, Any]:
    """Return what the history says of an accepted decision beside what it says of any change."""
    more: dict[str, Any] = {**_named(claims), "proof": claims.proof}
    if after.closed_at is None:
        more["reason"] = claims.reason
    if after.arguments_revision != before.arguments_revision:
        more["differences"] = edits.differences(before.call, after.call)
    if after.expires_at != before.expires_at:
        more["expires_at"] = after.expires_at.isoformat()
    return more

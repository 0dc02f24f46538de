"""What a decision comes to. Rights are judged before the state, so that a stranger learns nothing by trying.

What holds for all verbs stands here: who may, whether it is in time, whether the person is known surely enough, whether
they saw what would run, whether they said why. What tells them apart is a row each in `verbs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from placet.approval.rules import edits
from placet.approval.rules.answers import Answer, Asked, says_something
from placet.approval.rules.approval import Approval, expired
from placet.approval.rules.edits import Edit
from placet.approval.rules.verbs import VERBS, Meaning, cast, vote_of
from placet.approval.states import Event
from placet.contracts.messages import DecisionClaims, EditJudged
from placet.domain import deciders
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.votes import Vote


def decide(
    approval: Approval | None,
    claims: DecisionClaims,
    now: datetime,
    directory: Directory,
    others: Sequence[Vote] = (),
    newest: float = 0,
) -> Answer:
    """Return what a person's decision comes to at `now`, which must have been read after the row was locked.

    `newest` is when they signed what they said last before and what counted.
    """
    voter = Voter.of(claims)
    if approval is None:
        return Answer("not_found", "There is no such approval.", None)
    if refusal := refused(approval, claims, voter, now, directory, newest):
        return refusal
    return VERBS[claims.verb].act(Asked(approval, claims, voter, now, directory, others))


def judge_edit(
    approval: Approval,
    edit: Edit,
    claims: DecisionClaims,
    judged: EditJudged,
    now: datetime,
    directory: Directory,
    newest: float = 0,
) -> Answer:
    """Return what an edit comes to once policy has judged it, at `now`, read after the row was locked.

    Everything is asked again, because time has passed. It counts as its maker's approval.
    """
    voter = Voter.of(claims)
    if refusal := refused(approval, claims, voter, now, directory, newest):
        return refusal
    call, problem = edits.revised(approval, claims)
    if edit.base_revision != approval.arguments_revision:
        return Answer("stale", "Somebody else changed the arguments meanwhile. Look at it again.", approval)
    if call is None or call.digest != judged.digest:
        return Answer("invalid", problem or "Policy judged another call.", approval)
    if not judged.accepted:
        return Answer("invalid", judged.detail, approval)
    call = edits.shown(call, judged)
    if call is None:
        return Answer("invalid", "Policy did not say what people may see of these arguments.", approval)
    asked = Asked(approval, claims, voter, now, directory, ())
    answer = cast(asked, vote_of(asked), edits.applied(approval, call, judged.summary))
    return replace(answer, progress="edited", detail=f"The arguments are changed. {answer.detail}")


def refused(
    approval: Approval,
    claims: DecisionClaims,
    voter: Voter,
    now: datetime,
    directory: Directory,
    newest: float,
) -> Answer | None:
    """Return why the decision is not even considered; None where it is."""
    meaning = VERBS[claims.verb]
    if not meaning.right(approval, voter, directory):
        return Answer("not_allowed", "You are not among the people who may decide this.", approval)
    if approval.closed_at is not None:
        return Answer("already_decided", meaning.too_late(approval), approval)
    if now >= approval.expires_at:
        late = "It expired before you decided."
        return Answer("already_decided", late, expired(approval, now), event=Event.TIME_OUT)
    return _incomplete(approval, claims, meaning, newest)


def _incomplete(approval: Approval, claims: DecisionClaims, meaning: Meaning, newest: float) -> Answer | None:
    """Return what the decision lacks to be counted; None where it lacks nothing."""
    if claims.said and not approval.approval_rule.by_message:
        return Answer("invalid", "This cannot be decided by a message.", approval)
    if meaning.is_binding and not deciders.strong_enough(approval, claims.proof, said=bool(claims.said)):
        needed = approval.approval_rule.min_strength
        return Answer("too_weak", f"You must be known more surely to decide this: by {needed} or better.", approval)
    if meaning.is_binding and (difference := _difference(approval, claims, newest)):
        text = f"{difference}, so your decision was not counted. Look at it again."
        return Answer("stale", text, approval)
    if approval.approval_rule.reason_required in meaning.reason_where and not says_something(claims.reason):
        return Answer("invalid", "This needs a reason.", approval)
    return None


def _difference(approval: Approval, claims: DecisionClaims, newest: float) -> str:
    """Return how the card that the person saw differs from what would run; empty where it does not.

    A newer revision with the same digest is the same call: a vote, a reminder or a claim came between. What they
    themselves have said meanwhile stands: a broker may bring what is older behind it.
    """
    if claims.at < newest:
        return "You have decided again since"
    if claims.digest != approval.call.digest:
        return "The call is not the one you were shown: its digest differs"
    if claims.revision is not None and claims.revision > approval.revision:
        return f"You were shown revision {claims.revision}, and it is now revision {approval.revision}"
    return ""

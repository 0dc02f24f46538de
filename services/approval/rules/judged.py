"""What becomes of an edit once policy has judged it: everything is asked again, because time has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from placet.approval.rules import edits
from placet.approval.rules.answers import Answer, Asked
from placet.approval.rules.approval import Approval
from placet.approval.rules.decisions import refused
from placet.approval.rules.edits import Edit
from placet.approval.rules.verbs import cast, vote_of
from placet.contracts.messages import DecisionClaims, EditJudged
from placet.domain.deciders import Voter
from placet.domain.directory import Directory
from placet.domain.votes import Vote


def judge_edit(
    approval: Approval,
    edit: Edit,
    claims: DecisionClaims,
    judged: EditJudged,
    now: datetime,
    directory: Directory,
) -> Answer:
    """Return what an edit comes to at `now`, read after the row was locked; it counts as its maker's approval."""
    voter = Voter.of(claims)
    if refusal := refused(approval, claims, voter, now, directory):
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
    none: Sequence[Vote] = ()
    asked = Asked(approval, claims, voter, now, directory, none)
    answer = cast(asked, vote_of(asked), edits.applied(approval, call, judged.summary))
    return replace(answer, progress="edited", detail=f"The arguments are changed. {answer.detail}")

"""The approval and its rules. Pure; time is an argument, and so is who is who.

`approval` is the value; `placet.domain.deciders` says who may decide, `placet.domain.votes` when that is enough,
`decisions` what each decision comes to, and `verbs` what people can do, a row each; `edits` and `grants` are what their
names say.
"""

from placet.approval.rules import edits, grants
from placet.approval.rules.answers import Answer, Decision, read_claims
from placet.approval.rules.approval import (
    UNKNOWN,
    Approval,
    RefusedKind,
    Today,
    Withdrawal,
    check_request,
    opening,
    part,
    take_step,
    withdrawn,
)
from placet.approval.rules.decisions import decide, judge_edit
from placet.approval.rules.edits import Edit
from placet.approval.rules.verbs import VERBS, VOTING
from placet.domain.votes import Vote

__all__ = [
    "UNKNOWN",
    "VERBS",
    "VOTING",
    "Answer",
    "Approval",
    "Decision",
    "Edit",
    "RefusedKind",
    "Today",
    "Vote",
    "Withdrawal",
    "check_request",
    "decide",
    "edits",
    "grants",
    "judge_edit",
    "opening",
    "part",
    "read_claims",
    "take_step",
    "withdrawn",
]

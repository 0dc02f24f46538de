"""The approval and its rules. Pure; time is an argument, and so is who is who.

`approval` is the value; `people` says who may decide, `votes` when that is enough, `decisions` what each decision comes
to; `edits`, `grants` and `timers` are what their names say.
"""

from services.approval.rules import edits, grants, people, timers
from services.approval.rules.approval import (
    Approval,
    Delegation,
    RefusedKind,
    Voter,
    Withdrawal,
    check_request,
    ending,
    expired,
    opening,
    part,
    withdrawn,
)
from services.approval.rules.decisions import Answer, Decision, decide, needs_votes
from services.approval.rules.edits import Edit
from services.approval.rules.judged import judge_edit
from services.approval.rules.votes import Vote

__all__ = [
    "Answer",
    "Approval",
    "Decision",
    "Delegation",
    "Edit",
    "RefusedKind",
    "Vote",
    "Voter",
    "Withdrawal",
    "check_request",
    "decide",
    "edits",
    "ending",
    "expired",
    "grants",
    "judge_edit",
    "needs_votes",
    "opening",
    "part",
    "people",
    "timers",
    "withdrawn",
]

"""The approval and its rules. Pure; time is an argument, and so is who is who.

`approval` is the value; `shared.deciders` says who may decide, `shared.votes` when that is enough, `decisions` what
each decision comes to, and `verbs` what people can do, a row each; `edits`, `grants` and `timers` are what their names
say.
"""

from services.approval.rules import edits, grants, timers
from services.approval.rules.answers import Answer, Decision
from services.approval.rules.approval import (
    Approval,
    RefusedKind,
    Withdrawal,
    check_request,
    ending,
    expired,
    opening,
    part,
    withdrawn,
)
from services.approval.rules.decisions import decide, needs_votes
from services.approval.rules.edits import Edit
from services.approval.rules.judged import judge_edit
from services.approval.rules.verbs import VERBS, VOTING
from shared.votes import Vote

__all__ = [
    "VERBS",
    "VOTING",
    "Answer",
    "Approval",
    "Decision",
    "Edit",
    "RefusedKind",
    "Vote",
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
    "timers",
    "withdrawn",
]

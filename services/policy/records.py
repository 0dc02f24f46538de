"""History rows of limits and grants: what happened, who did it, and in which numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from services.policy.rules import CallFacts, Verdict
from services.policy.rules.watched import Watched
from shared.work import Change

#: What can happen to a grant: event -> from, to. How many uses are left and whether it is over is no state: the row
#: and the clock say it.
_GRANT_MOVES: Mapping[str, tuple[str | None, str]] = {
    "given": (None, "given"),
    "refused": (None, "refused"),
    "used": ("given", "given"),
    "returned": ("given", "given"),
    "revoked": ("given", "revoked"),
}


def of_grant(tenant: str, grant_id: str, event: str, actor: str, call_id: str | None, detail: dict[str, Any]) -> Change:
    """Return the row of something that happened to a grant; raise KeyError for an event nobody knows."""
    before, after = _GRANT_MOVES[event]
    return Change(tenant, "grant", grant_id, event, before, after, actor, call_id, detail)


def exhausted(call: CallFacts, verdict: Verdict) -> Change:
    """Return the row of a rule that would have decided a call, had its limits had room."""
    limits = [f"{each.measure} <= {each.at_most} per {each.per} in {each.within_seconds} s" for each in verdict.demands]
    moved = ("exhausted", None, "passed_over", "policy")
    return Change(call.tenant, "limit", verdict.rule, *moved, call.call_id, {"limits": limits})


def asked_again(call: CallFacts, verdict: Verdict, earlier: Watched) -> Change:
    """Return the row of a call that was asked again while an earlier one like it waits, or after it was denied.

    `verdict` is what the call would have got otherwise.
    """
    state = "denied" if earlier.denied_at else "waiting"
    detail = {"effect": verdict.effect, "rule": verdict.rule}
    return Change(
        call.tenant, "watched_call", earlier.call_id, "asked_again", state, state, "policy", call.call_id, detail
    )

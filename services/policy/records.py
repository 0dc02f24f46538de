"""History rows of limits and grants: what happened, who did it, and in which numbers; and what operators see of it.

Labels of metrics are names out of the rulebook, never anything that a call carried.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from prometheus_client import Counter

from placet.contracts.messages import AbandonCall, GrantAsked
from placet.policy.rules import CallFacts, Effect, Verdict
from placet.policy.rules.grants import GRANTED, Grant
from placet.policy.rules.watched import Watched
from placet.policy.states import GRANT_MACHINE, GrantEvent, GrantState
from placet.runtime.work import Change, Work

VERDICTS = Counter(
    "placet_verdicts_total", "Calls judged, by the rule that decided and its effect.", ["rule", "effect"]
)

#: Label of all grants: there is no end of them. No rule can have the name.
GRANT = "(grant)"

#: How the history calls what happened to a grant.
_HAPPENED: Mapping[GrantEvent, str] = {
    GrantEvent.GIVE: "given",
    GrantEvent.REFUSE: "refused",
    GrantEvent.USE: "used",
    GrantEvent.USE_LAST: "used",
    GrantEvent.RETURN: "returned",
    GrantEvent.REVOKE: "revoked",
    GrantEvent.VOID: "voided",
}


def grant_given(asked: GrantAsked) -> Change:
    """Return the row of a grant that begins."""
    detail = {"approval_id": asked.approval_id, "rule": asked.rule, "uses_left": asked.uses}
    return _of_asked(asked, GrantEvent.GIVE, detail)


def grant_refused(asked: GrantAsked, reason: str) -> Change:
    """Return the row of a grant that somebody asked for and did not get."""
    detail = {"approval_id": asked.approval_id, "reason": reason}
    return _of_asked(asked, GrantEvent.REFUSE, detail)


def judged(call: CallFacts | AbandonCall, verdict: Verdict, verdict_id: str) -> Change:
    """Return what is told of a verdict, which has a row of its own."""
    about = {"conversation_id": call.conversation_id, "tool": call.tool, "rule": verdict.rule}
    detail = {"rule": verdict.rule, "rulebook_digest": verdict.rulebook_digest}
    return Change(
        call.tenant, "verdict", verdict_id, "given", None, verdict.effect, "policy", call.call_id, detail, about
    )


def record_verdict(work: Work, call: CallFacts | AbandonCall, verdict: Verdict, verdict_id: str) -> None:
    """Tell of a verdict. One that nothing else seals has a history row too.

    Others are sealed with the approval, or named by the permit: that of a staged call gives way to its commit's.
    """
    hand_over = work.record if verdict.effect in {Effect.DENY, Effect.STAGE} else work.tell
    hand_over(judged(call, verdict, verdict_id), key=call.call_id)


def judged_again(call: CallFacts, verdict: Verdict) -> Change:
    """Return the row of a call that people approved and that was judged by the rules of that moment."""
    detail = {"rule": verdict.rule, "rulebook_digest": verdict.rulebook_digest, "reason": verdict.reason}
    about = {"conversation_id": call.conversation_id, "tool": call.tool}
    to = "refused" if verdict.effect in {Effect.DENY, Effect.STAGE} else "permitted"
    of_call = ("policy", call.call_id, detail, about)
    return Change(call.tenant, "approved_call", call.call_id, "judged_again", None, to, *of_call)


def _of_asked(asked: GrantAsked, event: GrantEvent, detail: dict[str, Any]) -> Change:
    happened, to = _HAPPENED[event], GRANT_MACHINE.next_state(GRANT_MACHINE.initial, event)
    about = {"conversation_id": asked.call.conversation_id, "approval_id": asked.approval_id}
    by, call_id = asked.owner, asked.call.call_id
    return Change(asked.tenant, GRANT_MACHINE.name, asked.grant_id, happened, None, to, by, call_id, detail, about)


def grant_used(call: CallFacts, grant: Grant, *, rule: str, uses_left: int) -> Change:
    """Return the row of a use that a call took of an active grant."""
    event = GrantEvent.USE if uses_left else GrantEvent.USE_LAST
    where, detail = (call.tenant, grant.grant_id), {"rule": rule, "uses_left": uses_left}
    about = {"conversation_id": call.conversation_id}
    return of_grant(where, event, GrantState.ACTIVE, grant.owner, call.call_id, detail, about)


def of_grant(
    grant: tuple[str, str],
    event: GrantEvent,
    before: GrantState,
    actor: str,
    call_id: str | None,
    detail: dict[str, Any],
    about: Mapping[str, str] = MappingProxyType({}),
) -> Change:
    """Return the row of something that happened to a grant, which its tenant and its id name."""
    tenant, grant_id = grant
    after = GRANT_MACHINE.after(before, event)
    return Change(tenant, GRANT_MACHINE.name, grant_id, _HAPPENED[event], before, after, actor, call_id, detail, about)


def exhausted(call: CallFacts, verdict: Verdict) -> Change:
    """Return the row of a rule that would have decided a call, had its limits had room."""
    limits = [f"{each.measure} <= {each.at_most} per {each.per} in {each.within_seconds} s" for each in verdict.demands]
    detail = {"limits": limits}
    of_call = ("policy", call.call_id, detail, {"conversation_id": call.conversation_id})
    return Change(call.tenant, "limit", verdict.rule, "exhausted", None, "passed_over", *of_call)


def asked_again(call: CallFacts, verdict: Verdict, earlier: Watched) -> Change:
    """Return the row of a call that was asked again while an earlier one like it waits, or after it was denied.

    `verdict` is what the call would have got otherwise.
    """
    state = "denied" if earlier.denied_at else "waiting"
    detail = {"effect": verdict.effect, "rule": verdict.rule}
    ids = (earlier.call_id, "asked_again", state, state, "policy", call.call_id)
    return Change(call.tenant, "watched_call", *ids, detail, {"conversation_id": call.conversation_id})


def count(change: Change) -> None:
    """Count a committed verdict."""
    if change.machine == "verdict":
        rule: str = change.about["rule"]
        VERDICTS.labels(GRANT if rule.startswith(GRANTED) else rule, change.to_state).inc()

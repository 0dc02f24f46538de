"""Answers to approval requests that a chat client posts: whatever its dialect, they are decided here.

An answer is about the conversation that it is posted to, and about the card that was shown. What is risky is approved
by itself, as everywhere else: not by a request that approves another call as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from placet.contracts.errors import Refused
from placet.contracts.messages import ApprovalRule
from placet.domain.risk import acts, why_alone
from placet.gateway.approvals.decisions import Ask, Decisions
from placet.gateway.approvals.leaving_out import arguments_without
from placet.gateway.conversations.live import Topic
from placet.gateway.conversations.store import shows_approval
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store import reading
from placet.gateway.store.read import Row, load_approvals
from placet.surfaces.card import LOOK_TWICE, Trick, tricks
from placet.surfaces.plan import is_commit


@dataclass(frozen=True, slots=True)
class Answer:
    """What the caller says to one approval request."""

    #: Empty where it is none of ours.
    approval_id: str
    #: Digest of the call that was shown; empty where the client kept none.
    digest: str
    approved: bool
    reason: str
    #: Of a commit that is approved: the entries to leave out.
    leave_out: tuple[str, ...] = ()
    #: Whether the client posted it before what it was asked last, and posts it again beside the answer to that.
    is_earlier: bool = False
    #: Whether the user's words stand behind it: those are posted whatever it comes to.
    has_words: bool = False


def tricks_of(approval: Row) -> list[Trick]:
    """Return what in the arguments of a row of `read.approvals` looks like a trick."""
    return tricks(approval["arguments"], approval["origins"] if acts(approval["category"] or "") else None)


def alone(approval: Row, rule: ApprovalRule, found: Sequence[Trick]) -> str:
    """Return why a call is approved by itself and among no others, in English; empty where it may be one of several.

    `rule` and `found`, its tricks, are of the same row.
    """
    if is_commit(approval["tool"]):
        return "it is a plan of several entries"
    return why_alone(rule, approval["category"] or "") or (LOOK_TWICE if found else "")


async def asked_alone(decisions: Decisions, caller: Caller, approvals: Collection[str]) -> frozenset[str]:
    """Return those of `approvals` that wait, and are approved by themselves where chat clients answer."""
    if not approvals:
        return frozenset()
    async with reading(decisions.units.database) as connection:
        found = await load_approvals(connection, {(caller.tenant, each) for each in approvals})
    waiting = [row for row in found.values() if row["state"] == "pending" and not is_commit(row["tool"])]
    return frozenset(str(row["approval_id"]) for row in waiting if _why_alone(row))


def _why_alone(approval: Row) -> str:
    return alone(approval, ApprovalRule.model_validate(approval["approval_rule"]), tricks_of(approval))


def refuse_risky(approval: Row) -> None:
    """Raise Refused (409) for a call that nobody approves in passing."""
    if why := _why_alone(approval):
        detail = f"It takes no part in a batch, because {why}: approve it with a request of its own."
        raise Refused(f"This is approved by itself: {why}.", kind="approve-alone", detail=detail)


async def approves_several(decisions: Decisions, caller: Caller, answers: Iterable[Answer]) -> bool:
    """Tell whether answers approve more than one call that waits; clients also repeat what is long over."""
    named = {(caller.tenant, answer.approval_id): answer for answer in answers if answer.approved}
    if len(named) <= 1:
        return False
    async with reading(decisions.units.database) as connection:
        found = await load_approvals(connection, set(named))
    waiting = [(row, named[place]) for place, row in found.items() if row["state"] == "pending"]
    return len([row for row, answer in waiting if not _is_too_early(row, answer)]) > 1


def _is_too_early(approval: Row, answer: Answer) -> bool:
    """Tell whether a call, approved by itself, was asked about among others: it is asked about again."""
    return answer.is_earlier and not is_commit(approval["tool"]) and bool(_why_alone(approval))


async def decide_in(decisions: Decisions, caller: Caller, topic: Topic, answer: Answer, *, several: bool) -> Row | None:
    """Have one answer decided; return the approval as it is then, or None where that takes its time.

    `several`: whether the request approves more than one call. Raises Refused as `Decisions.decide` does: also 404 for
    an approval of another conversation, 400 where the client does not say what was shown, 409 `approve-alone`, and 409
    `restored` for a call that may have run before a restore.
    """
    caller.need(Scope.DECIDE)
    approval = await decisions.find(caller, answer.approval_id)
    if approval["conversation_id"] != topic.conversation_id and not await _shown(decisions, topic, answer.approval_id):
        raise Refused("There is no such approval in this conversation.", status=404, kind="not-found")
    ask = Ask("approve" if answer.approved else "deny", answer.digest, answer.reason)
    if not answer.digest:
        raise Refused("The answer does not say which card was shown.", status=400, kind="stale-card")
    # A plan stands in the conversation entry by entry, so two of them may be answered together.
    if answer.approved and (several or answer.is_earlier) and not is_commit(approval["tool"]):
        refuse_risky(approval)
    if answer.leave_out:
        arguments, _ = await arguments_without(decisions.units.database, approval, answer.digest, answer.leave_out)
        ask = replace(ask, verb="edit", arguments=arguments)
    return await decisions.decide(caller, answer.approval_id, ask)


async def _shown(decisions: Decisions, topic: Topic, approval_id: str) -> bool:
    """Tell whether the conversation shows an approval of another one: of a job that it has done."""
    async with reading(decisions.units.database) as connection:
        return await shows_approval(connection, topic.tenant, str(topic.conversation_id), approval_id)

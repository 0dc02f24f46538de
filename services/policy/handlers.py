"""What policy does with a proposed call: check that it is what it says, judge it, keep the verdict, answer."""

from __future__ import annotations

from dataclasses import dataclass

from services.policy import edits, store
from services.policy.outcomes import Judged, outcome
from services.policy.rules import CallFacts, Rulebook, judge
from shared.canonical import NotStrictJson
from shared.errors import SecurityAlert
from shared.ids import new_id
from shared.messages import EditProposed, ToolCall, ToolCallProposed
from shared.permit import check_digest
from shared.signing import Signer
from shared.work import Work


@dataclass(frozen=True)
class Deps:
    """What judging needs: the rulebook, and policy's own key for permits."""

    rulebook: Rulebook
    signer: Signer


async def judge_call(proposed: ToolCallProposed, work: Work, deps: Deps) -> None:
    """Give a proposed call its one verdict, and pass on what follows from it.

    A call that has a verdict gets no second answer. The first one was committed together with the verdict, so it is
    on its way already; and a permit signed anew would live longer than the one that people can see in the history.
    """
    facts = _facts_of(proposed)
    judged = Judged(
        proposed.call, facts, judge(facts, deps.rulebook), new_id(), deps.rulebook.permit_expires_after_seconds
    )
    if await store.add_verdict(work, judged.verdict_id, judged.call, judged.verdict):
        work.emit(outcome(judged, deps.signer, work.now))
    else:
        _check_same(judged.call, await store.load_digest(work, judged.call.call_id))


async def judge_edit(proposed: EditProposed, work: Work, deps: Deps) -> None:
    """Say whether people may approve a held call with other arguments."""
    work.emit(edits.judged(proposed, deps.rulebook))


def _facts_of(proposed: ToolCallProposed) -> CallFacts:
    """Return what the rules look at; raise SecurityAlert unless the digest is the one of exactly this call."""
    call = proposed.call
    check_digest(call, proposed.tenant)
    try:
        return CallFacts.of(call)
    except NotStrictJson as error:
        raise SecurityAlert(f"the arguments of call {call.call_id} never passed the agent's door: {error}") from error


def _check_same(call: ToolCall, judged_digest: str) -> None:
    if call.digest != judged_digest:
        raise SecurityAlert(f"call {call.call_id} was proposed again with other contents")

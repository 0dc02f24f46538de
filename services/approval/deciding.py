"""What follows a judged decision, in the same transaction: it is kept, answered, recorded, and told to everybody.

One place for decisions that are judged at once and for edits, which policy judges in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.approval import closing, notices, store
from services.approval.rules import VOTING, Answer, Approval, Decision, Edit, Vote, edits, grants
from services.approval.states import EDIT_MACHINE, Event, State
from services.approval.store import Kept
from shared.ids import derived_id
from shared.messages import DecideApproval, DecisionClaims, ToolCall
from shared.signed import signed
from shared.signing import Signer
from shared.work import Cause, Work


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
    #: As it was before, locked; None where there is none.
    approval: Approval | None
    answer: Answer
    at: datetime

    @property
    def counted(self) -> bool:
        """Whether it is a vote that counts."""
        return self.answer.outcome == "accepted" and self.sent.claims.verb in VOTING


async def finish(work: Work, decisions: Sequence[Made], signer: Signer) -> None:
    """Keep decisions with what they changed, answer them, and hand over what follows. No two are of one approval."""
    kept = [_kept(made) for made in decisions]
    await store.keep_decisions(work.connection, kept)
    over = [made.answer.after for made in decisions if made.answer.event is not None and made.answer.after is not None]
    votes = await store.votes_on(work.connection, over)
    for made, each in zip(decisions, kept, strict=True):
        work.cause = made.sent.cause
        work.emit(each.decision.answered)
        if each.before is not None and each.after is not None:
            cast = votes.get(each.after.approval_id, ())
            await _follow(work, made, (each.before, each.after), signer, cast)


def _kept(made: Made) -> Kept:
    answer, after = made.answer, made.answer.after
    decision = Decision(
        made.sent.claims,
        made.sent.message.decision,
        notices.answered(made.sent.message, answer),
        made.at,
        arguments_revision=after.arguments_revision if after and made.counted else None,
        counted_revision=after.revision if after and made.counted else None,
    )
    return Kept(decision, made.approval, after)


async def propose(work: Work, made: Made, call: ToolCall, signer: Signer) -> None:
    """Ask policy about an edit; its maker hears when policy has answered."""
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
    if not await store.add_edit(work.connection, edit, approval, claims, made.at):
        return
    closing.record(work, approval, "edit", actor=claims.person, before=approval.state, outcome=edit.state)
    closing.tell(work, approval, signed(notices.edit_proposed(approval, edit.edit_id, call), signer))


def asked_by(edit: Edit, tenant: str) -> DecideApproval:
    """Return the decision that asked for an edit, as it came."""
    return DecideApproval(
        tenant=tenant,
        approval_id=edit.approval_id,
        decision_id=edit.edit_id,
        answer_to=edit.answer_to,
        decision=edit.signed,
    )


async def _follow(
    work: Work, made: Made, changed: tuple[Approval, Approval], signer: Signer, votes: Sequence[Vote]
) -> None:
    """Record what the decision did, tell of it, and close what it closed: the deciding vote or a passed deadline."""
    before, after = changed
    answer, claims = made.answer, made.sent.claims
    accepted = answer.outcome == "accepted"
    if answer.progress is not None:
        closing.tell(work, after, notices.progressed(after, answer.progress, claims))
    if answer.event is not None:
        actor = claims.person if accepted else "clock"
        more = _more(before, after, claims) if accepted else {}
        closing.close(work, after, answer.event, actor=actor, signer=signer, votes=votes, **more)
    if answer.event is None or not accepted:
        outcome = "counted" if accepted else answer.outcome
        more = _more(before, after, claims) if accepted else {}
        closing.record(work, after, claims.verb, actor=claims.person, before=after.state, outcome=outcome, **more)
    if answer.event is Event.APPROVE:
        _ask_grant(work, after, claims, signer)
    if claims.verb == "cancel" and after.state is State.APPROVED:
        await store.ask_cancel(work.connection, after, claims.person)


def _ask_grant(work: Work, approval: Approval, claims: DecisionClaims, signer: Signer) -> None:
    grant = grants.asked(derived_id("grant", claims.decision_id), approval, claims)
    if grant is not None:
        closing.tell(work, approval, signed(grant, signer))


def _more(before: Approval, after: Approval, claims: DecisionClaims) -> dict[str, Any]:
    """Return what the history says of an accepted decision beside what it says of any change."""
    more: dict[str, Any] = {"to": claims.to}
    if after.closed_at is None:
        more["reason"] = claims.reason
    if after.arguments_revision != before.arguments_revision:
        found = edits.differences(before.call, after.call)
        more["differences"] = [each.as_json() for each in found]
    if after.expires_at != before.expires_at:
        more["expires_at"] = after.expires_at.isoformat()
    return more

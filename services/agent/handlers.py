"""What the agent does with each message. A handler never asks a model: it claims; the worker asks after the commit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from services.agent import rules, store, turns
from services.agent.rules import Claim, Result
from shared.errors import Poison
from shared.ids import new_id
from shared.messages import CallsWithdrawn, MessagePosted, ToolCallFinished, ToolCallRefused
from shared.work import Act, Work


class Acts(Protocol):
    """Whoever asks models."""

    def asking(self, claim: Claim) -> Act:
        """Return the act that begins to work on a claim."""


@dataclass(frozen=True)
class Deps:
    """What the handlers need beside their message."""

    acts: Acts
    lease: timedelta
    #: True: a message that comes while calls wait withdraws them.
    supersede: bool


async def take_message(posted: MessagePosted, work: Work, deps: Deps) -> None:
    """Begin a turn where the conversation idles, else keep the message for later: a person wrote."""
    claim = _first_claim(posted, work)
    arrival = await store.take_in(work, posted, claim, deps.lease)
    if arrival is None:
        raise Poison(f"conversation {posted.conversation_id} belongs to another tenant than {posted.tenant}")
    if not arrival.is_new:
        await _know_again(posted, work, claim, arrival)
    elif arrival.turn_id == claim.turn_id:
        turns.begun(work, claim)
        work.act(deps.acts.asking(claim))
    elif deps.supersede:
        await _withdraw(posted, work, claim, arrival.turn_id)


async def take_finished(finished: ToolCallFinished, work: Work, deps: Deps) -> None:
    """Give the call its result, and ask the model again when it was the last one missing: it ran, or may have run."""
    edited = rules.edit_text(finished)
    result = Result(finished.kind, data=finished.data, error=finished.error, edited=edited)
    await _take_result(finished, work, deps, result)


async def take_refused(refused: ToolCallRefused, work: Work, deps: Deps) -> None:
    """Give the call its result: it will never run, and the model learns why."""
    await _take_result(refused, work, deps, Result(refused.kind, reason=refused.reason, decided_by=refused.decided_by))


async def _take_result(message: ToolCallFinished | ToolCallRefused, work: Work, deps: Deps, result: Result) -> None:
    owner = (message.tenant, message.conversation_id)
    try:
        claim = await turns.take_result(work, message.call_id, owner, result, deps.lease)
    except store.NoSuchCall:
        await _explain(message, work, result)
        return
    if claim is not None:
        if deps.supersede:
            claim = await turns.join_queued(work, claim)
        work.act(deps.acts.asking(claim))


async def _explain(message: ToolCallFinished | ToolCallRefused, work: Work, result: Result) -> None:
    """Tell a second result, which is expected, from one for a call that was never proposed, which is not."""
    call = await store.load_call(work, message.call_id)
    if call is None:
        raise Poison(f"call {message.call_id} was never proposed")
    if (call.tenant, call.conversation_id) != (message.tenant, message.conversation_id):
        raise Poison(f"call {message.call_id} belongs to another conversation than {message.conversation_id}")
    turns.record_second_result(work, call.tenant, message.call_id, call.state, result)


async def _know_again(posted: MessagePosted, work: Work, claim: Claim, arrival: store.Arrival) -> None:
    """Let the same message again have no effect; another text under a used id must not vanish unseen."""
    first = await store.forget_arrival(work, claim, arrival)
    if first != rules.storable(posted.text):
        raise Poison(f"message id {posted.message_id} was used before for another text")


async def _withdraw(posted: MessagePosted, work: Work, claim: Claim, turn_id: str) -> None:
    """Withdraw the open calls of the person who writes again; nobody withdraws what another asked for."""
    if call_ids := await store.open_calls(work, turn_id, claim.author):
        work.emit(
            CallsWithdrawn(
                tenant=posted.tenant,
                conversation_id=posted.conversation_id,
                call_ids=call_ids,
                kind="superseded",
                reason="Not run: the user wrote again before it was decided.",
            )
        )


def _first_claim(posted: MessagePosted, work: Work) -> Claim:
    return Claim(
        tenant=posted.tenant,
        conversation_id=posted.conversation_id,
        turn_id=new_id(),
        step=1,
        fence=1,
        message_id=posted.message_id,
        author=rules.storable(posted.author.model_dump()),
        cause=work.cause.as_json(),
    )

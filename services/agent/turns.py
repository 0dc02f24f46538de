"""The moves of a turn: begin, settle a step, take a result, give up. One transaction each, with what it sends.

Handlers and the worker move turns only through these functions, so that a state, its history and its messages cannot
be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from services.agent import rules, store
from services.agent.assembly import ModelAnswer
from services.agent.rules import CheckedCall, Claim, Interruption, Result, Settlement
from services.agent.states import CALL_MACHINE, MACHINE, CallEvent, CallState, Event, State
from services.agent.store import Answer
from services.agent.store.together import Settling, Talk
from shared.ids import new_id
from shared.messages import ConversationEvent, Message, ToolCall, ToolCallProposed
from shared.transitions import ExpectedRace
from shared.work import Change, Work

EventKind = Literal["assistant_message", "turn_started", "turn_ended", "call_answered"]


def begun(work: Work, claim: Claim) -> None:
    """Record and announce a turn that was just stored."""
    work.record(_change(claim, "started", None, MACHINE.initial, {"message_id": claim.message_id}))
    work.emit(_event(claim, "turn_started", {"message_id": claim.message_id}))


async def settle(
    work: Work, claim: Claim, settlement: Settlement, said: tuple[ModelAnswer, Talk] | None, lease: timedelta
) -> Claim | None:
    """Settle a step; return what the worker has the right to do next, if anything.

    A claim that is no longer good changes nothing and sends nothing; that it came is kept in the history.
    """
    answer = said[0] if said else None
    settled = await store.settle(work, claim, settlement, answer, next_turn=new_id(), lease=lease)
    if settled is None:
        await _refuse_late(work, claim, settlement.event)
        return None
    work.record(*_settle_changes(claim, settlement))
    work.emit(*_announcements(claim, settlement, said))
    if settled.next_turn_id:
        return await begin_next(work, claim, settled.next_turn_id, lease)
    return next_step(claim, settlement)


def settling(
    work: Work, claim: Claim, settlement: Settlement, said: tuple[ModelAnswer, Talk], *, alone: bool
) -> Settling:
    """Hand over the messages of a step that is settled together with others; return what is stored with it."""
    work.emit(*_announcements(claim, settlement, said))
    return Settling(claim, settlement, said[0], _settle_changes(claim, settlement), work.rows, alone)


def next_step(claim: Claim, settlement: Settlement) -> Claim | None:
    """Return the claim of the step that follows at once on a settled one, if one does."""
    return replace(claim, step=claim.step + 1) if settlement.state is State.THINKING else None


async def interrupted(work: Work, claim: Claim) -> Interruption | None:
    """Lock the turn and its conversation; tell what came between: its end, or words of the same person."""
    waiting, ended = await store.lock_queue(work, claim)
    if ended:
        return "ended"
    run = rules.leading_run(await store.queued(work, claim.conversation_id), claim.author) if waiting else []
    return "spoken" if any(not each.is_outcome for each in run) else None


async def join_queued(work: Work, claim: Claim) -> Claim:
    """Let what the same person wrote meanwhile join the turn at the claim's step; return the claim that sees it."""
    run = rules.leading_run(await store.queued(work, claim.conversation_id), claim.author)
    if not run:
        return claim
    joined = replace(claim, message_id=run[-1].answers, cause=run[-1].cause)
    await store.join(work, joined, run)
    return joined


def answered(work: Work, answer: Answer, after: Claim | None, *, before: CallState = CallState.OPEN) -> None:
    """Record the result that a call was just given; `after` is the claim where it was the last one of the step."""
    to = CALL_MACHINE.next_state(before, CallEvent.RESULT_CAME)
    work.record(_result_change(answer.tenant, answer.call_id, (before, to), answer.result))
    if after is not None:
        detail = {"step": after.step, "fence": after.fence}
        work.record(_change(after, Event.RESULTS_COMPLETE, State.WAITING, State.THINKING, detail))


def record_second_result(work: Work, tenant: str, call_id: str, state: CallState, result: Result) -> None:
    """Keep in the history that a result came for a call that has one: the first one stands."""
    try:
        CALL_MACHINE.next_state(state, CallEvent.RESULT_CAME)
    except ExpectedRace:
        work.record(_result_change(tenant, call_id, (state, state), result))


def went_on(work: Work, after: Claim, call_ids: Sequence[str]) -> None:
    """Record that a turn goes on while people think about these calls."""
    to = CALL_MACHINE.next_state(CallState.OPEN, CallEvent.WENT_ON)
    before, turn = CallState.OPEN, {"turn_id": after.turn_id}
    for call_id in call_ids:
        work.record(_move_of_call(after.tenant, call_id, CallEvent.WENT_ON, (before, to), turn))
    detail = {"step": after.step, "fence": after.fence}
    work.record(_change(after, Event.WENT_ON, State.WAITING, MACHINE.next_state(State.WAITING, Event.WENT_ON), detail))


def taken_over(work: Work, claim: Claim, takeovers: int) -> None:
    """Record that a turn whose lease ran out was claimed again."""
    to = MACHINE.next_state(State.THINKING, Event.TAKEN_OVER)
    detail = {"step": claim.step, "fence": claim.fence, "takeovers": takeovers}
    work.record(_change(claim, Event.TAKEN_OVER, State.THINKING, to, detail))


def stopped(work: Work, claim: Claim, before: State, reason: str) -> None:
    """Record and announce that a person stopped a turn; `claim` is the one that is no longer good."""
    detail = {"step": claim.step, "fence": claim.fence}
    work.record(_change(claim, Event.STOPPED, before, MACHINE.next_state(before, Event.STOPPED), detail))
    work.emit(_event(claim, "turn_ended", {"state": State.STOPPED, "reason": reason}))


def calls_stopped(work: Work, claim: Claim, calls: Sequence[tuple[str, CallState]]) -> None:
    """Record that the turn of these calls was stopped; with each comes the state that it was in."""
    event, turn = CallEvent.TURN_STOPPED, {"turn_id": claim.turn_id}
    for call_id, before in calls:
        move = (before, CALL_MACHINE.next_state(before, event))
        work.record(_move_of_call(claim.tenant, call_id, event, move, turn))


async def record_late_stop(work: Work, tenant: str, turn_id: str, by: str) -> None:
    """Keep in the history that somebody stopped a turn that was over."""
    state, fence = await store.turn_now(work, turn_id)
    detail = {"refused": str(Event.STOPPED), "by": by, "fence_now": fence}
    work.record(Change(tenant, MACHINE.name, turn_id, "late_stop", state, state, "agent", detail=detail))


async def begin_next(work: Work, before: Claim, turn_id: str, lease: timedelta) -> Claim:
    """Begin the turn that a conversation was given for what waits in it; `before` is any claim of the conversation."""
    queued = await store.queued(work, before.conversation_id)
    run = rules.leading_run(queued)
    newest = run[-1]
    claim = replace(
        before,
        turn_id=turn_id,
        step=1,
        fence=1,
        message_id=newest.answers,
        author=newest.author,
        cause=newest.cause,
    )
    await store.begin_queued(work, claim, run, len(queued) - len(run), lease)
    begun(work, claim)
    return claim


async def _refuse_late(work: Work, claim: Claim, event: Event) -> None:
    state, fence = await store.turn_now(work, claim.turn_id)
    detail = {"refused": str(event), "step": claim.step, "fence": claim.fence, "fence_now": fence}
    work.record(_change(claim, "late_settle", state, state, detail))


def _settle_changes(claim: Claim, settlement: Settlement) -> list[Change]:
    detail = {"step": claim.step, "fence": claim.fence} | _if_any(limit=settlement.limit or None)
    moved = _change(claim, settlement.event, State.THINKING, settlement.state, detail)
    return [moved, *(_call_change(claim, call) for call in settlement.calls)]


def _announcements(claim: Claim, settlement: Settlement, said: tuple[ModelAnswer, Talk] | None) -> Iterator[Message]:
    """Tell the world of a settled step: the answer, its calls in their order, the end."""
    if said is not None:
        answer, talk = said
        words = {"message_id": claim.assistant_message_id, "step": claim.step, "text": rules.storable(answer.text)}
        heard = talk.history.spoken_in(claim.turn_id) or None
        aside = talk.history.aside_in(claim.turn_id) or None
        yield _event(claim, "assistant_message", words | _if_any(heard_meanwhile=heard, while_waiting=aside))
        yield from (_call_message(claim, call, talk, words["text"]) for call in settlement.calls)
    if settlement.state in MACHINE.final:
        end = {"state": settlement.state, "reason": settlement.reason}
        yield _event(claim, "turn_ended", end | _if_any(final_answer=settlement.final_answer))


def _call_message(claim: Claim, call: CheckedCall, talk: Talk, said: str) -> Message:
    if call.result is not None:
        texts = {"kind": call.result.kind, "error": call.result.error or call.result.reason}
        return _event(claim, "call_answered", {"call_id": call.call_id, "tool": call.tool, **texts})
    proposed = ToolCall(
        call_id=call.call_id,
        tenant=claim.tenant,
        conversation_id=claim.conversation_id,
        turn_id=claim.turn_id,
        message_id=claim.message_id,
        agent=talk.agent,
        requester=claim.author["id"],
        language=talk.language,
        labels=talk.labels,
        tool=call.tool,
        schema_digest=call.schema_digest,
        arguments=call.arguments,
        shown_arguments=call.shown_arguments,
        digest=call.digest,
        quote=rules.quote(said, call),
    )
    return ToolCallProposed(tenant=claim.tenant, call=proposed)


def _event(claim: Claim, kind: EventKind, payload: dict[str, Any]) -> ConversationEvent:
    return ConversationEvent(
        tenant=claim.tenant,
        conversation_id=claim.conversation_id,
        turn_id=claim.turn_id,
        kind=kind,
        payload=payload,
    )


def _change(claim: Claim, event: str, from_state: State | None, to_state: State, detail: dict[str, Any]) -> Change:
    return Change(claim.tenant, MACHINE.name, claim.turn_id, event, from_state, to_state, "agent", detail=detail)


def _call_change(claim: Claim, call: CheckedCall) -> Change:
    to = CallState.OPEN if call.result is None else CallState.ANSWERED
    detail = {"turn_id": claim.turn_id, "tool": call.tool} | _if_any(kind=call.result and call.result.kind)
    return Change(
        claim.tenant, CALL_MACHINE.name, call.call_id, "proposed", None, to, "agent", call.call_id, detail=detail
    )


def _result_change(tenant: str, call_id: str, move: tuple[CallState, CallState], result: Result) -> Change:
    return _move_of_call(tenant, call_id, CallEvent.RESULT_CAME, move, {"kind": result.kind})


def _move_of_call(
    tenant: str, call_id: str, event: CallEvent, move: tuple[CallState, CallState], detail: dict[str, Any]
) -> Change:
    return Change(tenant, CALL_MACHINE.name, call_id, event, *move, "agent", call_id, detail)


def _if_any(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}

"""What the agent does with its messages. A handler never asks a model: it claims; the worker asks after the commit.

Messages that arrive together are taken with one statement, as far as they are of different conversations: what one
message of a conversation does must be there when the next one comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeAlias

from services.agent import going_on, holding, rules, stopping, store, turns
from services.agent.meanwhile import held_as
from services.agent.profiles import Profiles
from services.agent.rules import Claim, Result
from services.agent.states import CallState
from services.agent.store import Answer, Answered, Arriving, TakenIn, holders, meanwhile
from services.agent.store.meanwhile import Holding, Late, Superseded
from shared.consumer import Arrival
from shared.errors import Poison, Refused, Transient
from shared.gathering import waves
from shared.ids import new_id
from shared.messages import (
    AbandonCall,
    ApprovalOpened,
    CallResolved,
    CallsWithdrawn,
    ConversationEnded,
    HolderChanged,
    MessagePosted,
    OperatorSpoke,
    StopTurn,
    ToolCallFinished,
    ToolCallRefused,
)
from shared.work import Act, Cause, Work

Posted: TypeAlias = Arrival[MessagePosted]


class Acts(Protocol):
    """Whoever asks models."""

    def asking(self, claim: Claim) -> Act:
        """Return the act that begins to work on a claim."""

    def leaving(self, turn_id: str) -> Act:
        """Return the act that leaves a turn alone which is over for another reason."""


@dataclass(frozen=True)
class Deps:
    """What the handlers need beside their message."""

    acts: Acts
    lease: timedelta
    profiles: Profiles


async def take_messages(arrivals: Sequence[Posted], work: Work, deps: Deps) -> None:
    """Begin a turn where a conversation idles, else keep the message for later: people wrote."""
    for message in (each.message for each in arrivals if each.message.held_revision):
        await holding.hold(work, message.tenant, message.conversation_id, message.held_revision)
    for wave in waves(arrivals, key=lambda each: each.message.conversation_id):
        arriving = [Arriving(_labelled(each.message, deps), _first_claim(each)) for each in wave]
        found = await store.take_in(work, arriving, deps.lease)
        for each, (posted, taken) in zip(arriving, zip(wave, found, strict=True), strict=True):
            work.cause = posted.cause
            await _follow(each, work, deps, taken)


async def take_holder(changed: HolderChanged, work: Work, deps: Deps) -> None:
    """Ask no model while people hold a conversation; when they give it back, answer what they did not."""
    if changed.holder != "agent":
        await holding.hold(work, changed.tenant, changed.conversation_id, changed.revision)
        return
    claim, behind = await holding.give_back(work, changed, deps.lease)
    if claim is not None:
        work.act(deps.acts.asking(claim))
    elif behind is not None and behind.turn_id is not None:
        author = await holding.next_author(work, changed.conversation_id)
        if author is not None:
            await _withdraw(changed, work, deps, author, behind.turn_id)


async def take_spoken(spoke: OperatorSpoke, work: Work) -> None:
    """Keep what an operator said, for the model to read when it answers here again."""
    await holders.lock(work, spoke.tenant, spoke.conversation_id)
    await holders.add_spoken(work, spoke)


async def end_conversation(ended: ConversationEnded, work: Work) -> None:
    """Withdraw every call of a conversation that waits, whoever asked for it; no other is proposed from now on."""
    call_ids = await store.end(work, ended.tenant, ended.conversation_id)
    if call_ids is None:
        raise Transient(f"conversation {ended.conversation_id} ended before its first message came")
    if call_ids:
        place = {"tenant": ended.tenant, "conversation_id": ended.conversation_id}
        work.emit(CallsWithdrawn(**place, call_ids=call_ids, kind="cancelled", reason=rules.ENDED))


async def stop_turn(stop: StopTurn, work: Work, deps: Deps) -> None:
    """End a turn that a person does not want to wait for; one that is over stays as it ended."""
    following = await stopping.stop(work, stop, deps.lease)
    work.act(deps.acts.leaving(stop.turn_id))
    if following is not None:
        work.act(deps.acts.asking(following))


async def take_finished(arrivals: Sequence[Arrival[ToolCallFinished]], work: Work, deps: Deps) -> None:
    """Give calls their results, and ask the model again where one was the last missing: they ran, or may have run."""
    await _take_results([_ran(each) for each in arrivals], work, deps)


async def take_refused(arrivals: Sequence[Arrival[ToolCallRefused]], work: Work, deps: Deps) -> None:
    """Give calls their results: they will never run, and the model learns why."""
    await _take_results([_never_ran(each) for each in arrivals], work, deps)


async def take_opened(arrivals: Sequence[Arrival[ApprovalOpened]], work: Work, deps: Deps) -> None:
    """Note which calls people think about, and let turns go on that need not wait for them.

    What was written before anybody knew that it takes a call's place withdraws it now.
    """
    holdings, causes = [], {}
    for each in arrivals:
        call = each.message.call
        profile = deps.profiles.find(call.tenant, call.agent)
        held = held_as(each.message.approval, profile.behaviour if profile else None)
        holdings.append(Holding(call.call_id, call.tenant, call.conversation_id, held))
        causes[call.conversation_id] = each.cause
    turn_ids = await meanwhile.hold(work, holdings)
    await _look(turn_ids, work, deps, causes)
    if any(each.held == "supersede" for each in holdings):
        for turn in await meanwhile.superseded(work, turn_ids):
            work.cause = causes[turn.conversation_id]
            await _withdraw(turn, work, deps, turn.author, turn.turn_id)


async def look_again(withdrawn: CallsWithdrawn, work: Work, deps: Deps) -> None:
    """Let the turn go on whose requester has written again: our own word that they did, once it is stored."""
    turn_ids = await meanwhile.lock_turns_of(work, withdrawn.tenant, withdrawn.call_ids)
    await _look(turn_ids, work, deps, {withdrawn.conversation_id: work.cause})


async def _look(turn_ids: Sequence[str], work: Work, deps: Deps, causes: Mapping[str, Cause]) -> None:
    """Go on with those of these locked turns that need not wait any more; `causes` has why, by conversation."""
    for waiting in await meanwhile.waiting(work, turn_ids) if turn_ids else ():
        work.cause = causes.get(waiting.conversation_id, work.cause)
        claim = await going_on.go_on_if_due(work, waiting, deps.lease)
        if claim is not None:
            work.act(deps.acts.asking(claim))


async def _follow(arriving: Arriving, work: Work, deps: Deps, taken: TakenIn | None) -> None:
    """Do what follows from how a message was taken in."""
    posted, claim = arriving.posted, arriving.claim
    if taken is None:
        if await store.has_ended(work, posted.tenant, posted.conversation_id):
            raise Refused(f"conversation {posted.conversation_id} has ended: nobody answers there")
        raise Poison(f"conversation {posted.conversation_id} belongs to another tenant than {posted.tenant}")
    if deps.profiles.find(posted.tenant, taken.agent) is None:
        raise Poison(f"tenant {posted.tenant} has no agent {taken.agent}")
    if not taken.is_new:
        await _know_again(posted, work, claim, taken)
    elif taken.turn_id == claim.turn_id:
        turns.begun(work, claim)
        work.act(deps.acts.asking(claim))
    elif taken.turn_id is not None and not taken.held:
        await _withdraw(posted, work, deps, claim.author, taken.turn_id)


async def _take_results(answers: Sequence[Answer], work: Work, deps: Deps) -> None:
    late: dict[str, Late] = {}
    for wave in waves(answers, key=lambda each: each.conversation_id):
        waiting: list[str] = []
        for answer, answered in zip(wave, await store.answer(work, wave, deps.lease), strict=True):
            work.cause = answer.cause
            if answered is None:
                await _take_unexpected(answer, work, deps, late)
                continue
            turns.answered(work, answer, answered.claim)
            await _go_on(answered, work, deps)
            waiting += [] if answered.claim else [answered.turn_id]
        await _look(waiting, work, deps, {each.conversation_id: each.cause for each in wave})
    for begun in late.values():
        claim = await turns.begin_next(work, begun.claim, begun.claim.turn_id, deps.lease)
        work.act(deps.acts.asking(claim))


async def _take_unexpected(answer: Answer, work: Work, deps: Deps, late: dict[str, Late]) -> None:
    """Take a result that no turn waits for: the model went on without it, or it is the second one, or nobody's."""
    call = await store.load_call(work, answer.call_id)
    if call is None:
        raise Poison(f"call {answer.call_id} was never proposed")
    if (call.tenant, call.conversation_id) != (answer.tenant, answer.conversation_id):
        raise Poison(f"call {answer.call_id} belongs to another conversation than {answer.conversation_id}")
    if call.state is CallState.STOPPED and await stopping.take_result(work, answer):
        return
    if call.state is not CallState.ANSWERED and await _take_late(answer, work, deps, late):
        return
    turns.record_second_result(work, call.tenant, answer.call_id, CallState.ANSWERED, answer.result)


async def _take_late(answer: Answer, work: Work, deps: Deps, begins: dict[str, Late]) -> bool:
    """Queue an outcome that came after the model had gone on; False where another result was faster.

    `begins` has the idle conversations for which a turn begins when all outcomes that came together are queued.
    """
    first = begins.get(answer.conversation_id)
    late = await going_on.take_late(work, answer, first.claim.turn_id if first else new_id())
    if late is None:
        return False
    if late.begins:
        begins[answer.conversation_id] = late
    else:
        await _look([late.claim.turn_id], work, deps, {answer.conversation_id: answer.cause})
    return True


async def take_abandoned(abandoned: AbandonCall, work: Work, deps: Deps) -> None:
    """Give the call a result in place of the lost one: an operator discarded the dead letter that held it."""
    result = rules.abandoned(may_have_run=abandoned.may_have_run)
    answer = Answer(abandoned.call_id, abandoned.tenant, abandoned.conversation_id, result, work.cause)
    try:
        await _take_results([answer], work, deps)
    except Poison as error:
        # The letter held no result of a call of ours: nothing waits for it, and this must be no letter again.
        raise Refused(str(error)) from error


async def take_resolved(resolved: CallResolved, work: Work) -> None:
    """Keep what a person found out about a call: its result stands, the model reads of it with the next message.

    It begins no turn: nobody asked for one, and what the model then proposed would be in nobody's name.
    """
    if await store.add_fact(work, resolved, rules.fact_text(resolved)):
        return
    call = await store.load_call(work, resolved.call_id)
    if call is None or (call.tenant, call.conversation_id) != (resolved.tenant, resolved.conversation_id):
        raise Poison(f"call {resolved.call_id} was never proposed in conversation {resolved.conversation_id}")


async def _go_on(answered: Answered, work: Work, deps: Deps) -> None:
    """Ask the model again after the last result of a step, and show it the message that took the place of a call."""
    claim = answered.claim
    if claim is not None:
        if answered.superseded or await _supersedes(work, deps, claim.tenant, claim.conversation_id):
            claim = await turns.join_queued(work, claim)
        work.act(deps.acts.asking(claim))


async def _know_again(posted: MessagePosted, work: Work, claim: Claim, taken: TakenIn) -> None:
    """Let the same message again have no effect; another text under a used id must not vanish unseen."""
    first = await store.forget_arrival(work, claim, taken)
    if first != rules.storable(posted.text):
        raise Poison(f"message id {posted.message_id} was used before for another text")


async def _withdraw(
    posted: MessagePosted | HolderChanged | Superseded, work: Work, deps: Deps, author: dict[str, str], turn_id: str
) -> None:
    """Withdraw the open calls of the person who writes again; nobody withdraws what another asked for.

    Whether a call is given up then, its rule may say, which approval knows and we do not.
    """
    if call_ids := await store.open_calls(work, turn_id, author):
        work.emit(
            CallsWithdrawn(
                tenant=posted.tenant,
                conversation_id=posted.conversation_id,
                call_ids=call_ids,
                kind="superseded",
                reason="Not run: the user wrote again before it was decided.",
                by_default="supersede"
                if await _supersedes(work, deps, posted.tenant, posted.conversation_id)
                else "wait",
            )
        )


async def _supersedes(work: Work, deps: Deps, tenant: str, conversation_id: str) -> bool:
    """Tell whether a message withdraws the waiting calls of a conversation, as its own agent has it."""
    if not deps.profiles.some_supersede:
        return False
    profile = deps.profiles.find(tenant, await store.agent_of(work, conversation_id))
    return profile is not None and profile.behaviour.supersede


def _labelled(posted: MessagePosted, deps: Deps) -> MessagePosted:
    """Return a message with the labels of its agent's conversations; what it says itself goes first."""
    profile = deps.profiles.find(posted.tenant, posted.agent)
    if profile is None or not profile.labels:
        return posted
    return posted.model_copy(update={"labels": {**profile.labels, **posted.labels}})


def _first_claim(arrival: Posted) -> Claim:
    posted = arrival.message
    return Claim(
        tenant=posted.tenant,
        conversation_id=posted.conversation_id,
        turn_id=new_id(),
        step=1,
        fence=1,
        message_id=posted.message_id,
        author=rules.storable(posted.author.model_dump()),
        cause=arrival.cause.as_json(),
    )


def _ran(arrival: Arrival[ToolCallFinished]) -> Answer:
    finished = arrival.message
    edited = rules.edit_text(finished)
    result = Result(finished.kind, data=finished.data, error=finished.error, edited=edited)
    return Answer(finished.call_id, finished.tenant, finished.conversation_id, result, arrival.cause)


def _never_ran(arrival: Arrival[ToolCallRefused]) -> Answer:
    refused = arrival.message
    return Answer(refused.call_id, refused.tenant, refused.conversation_id, rules.never_ran(refused), arrival.cause)

"""How every dialect streams: what the log has, then what comes, folded until the stream's own end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import structlog
from fastapi import Request

from placet.contracts.errors import Refused
from placet.gateway.approvals.answers import Answer, approves_several, decide_in
from placet.gateway.approvals.store.steps import NO_STEP
from placet.gateway.approvals.together import not_in_turn, steps_among
from placet.gateway.conversations.access import check_writable, find_for, may_read, no_conversation
from placet.gateway.conversations.holder import shown
from placet.gateway.conversations.items import Item
from placet.gateway.conversations.live import Topic
from placet.gateway.conversations.store import Conversation, find_conversation
from placet.gateway.dialects.changes import Data
from placet.gateway.dialects.conversation_state import ConversationState, T, fold, replay
from placet.gateway.http.deps import Deps
from placet.gateway.identity.auth import Caller
from placet.gateway.store import reading
from placet.gateway.store.read import load_approvals

log = structlog.get_logger(__name__)

#: Items that a stream reads to know the calls that may still wait, and that a history is made of; the newest ones, as
#: far as the log gives them at once.
TAIL_MAX, HISTORY_MAX = 1_000, 5_000
#: A client that is gone is noticed when something is sent, in seconds.
SILENCE_SECONDS = 5.0


class Snapshot(NamedTuple):
    """A conversation as it stands, and its newest items."""

    conversation: Conversation
    items: list[Item]
    #: Whether this very request opened it.
    is_new: bool = False

    @property
    def newest(self) -> int:
        """Number of the newest item; 0 where there is none."""
        return self.items[-1].id if self.items else 0

    @property
    def older(self) -> bool:
        """Whether there are older items than these."""
        return bool(self.items) and self.items[0].id > 1

    @property
    def holder(self) -> Data:
        """Who answers in the agent's place, {state, operator, text, revision}; empty where the agent does."""
        held = self.conversation.held
        told = shown(held, self.conversation.language) if held.by_people else {}
        return told | ({"revision": held.revision} if told else {})

    @property
    def log(self) -> ConversationState:
        """What these items say."""
        log = ConversationState()
        for item in self.items:
            log.read(item)
        return log

    def moment(self, number: int) -> datetime | None:
        """Return when an item was appended; None where it is not among the newest."""
        return next((item.moment for item in self.items if item.id == number), None)


async def find(deps: Deps, caller: Caller, conversation_id: str, items_max: int = TAIL_MAX) -> Snapshot | None:
    """Return a conversation that exists for the caller; None where there is none."""
    async with reading(deps.runtime.database) as connection:
        conversation = await find_for(connection, caller, conversation_id)
    if conversation is None:
        return None
    return Snapshot(conversation, await deps.log.tail(caller.tenant, conversation_id, items_max))


async def read(deps: Deps, caller: Caller, conversation_id: str, items_max: int = TAIL_MAX) -> Snapshot:
    """Return a conversation that the caller may read; raise Refused (403, 404)."""
    may_read(caller, conversation_id)
    snapshot = await find(deps, caller, conversation_id, items_max)
    if snapshot is None:
        raise no_conversation()
    return snapshot


async def follow(
    deps: Deps, caller: Caller, conversation_id: str, state: T
) -> AsyncIterator[tuple[T, list[dict[str, Any]]]]:
    """Yield the state and what it tells after each entry that it has not read, until the stream's own end.

    In silence, nothing is told. It may end before: the client is let go, or not allowed any more.
    """
    if state.done:
        return
    async for entry in deps.log.follow(caller, conversation_id, state.log.seq, heartbeat_seconds=SILENCE_SECONDS):
        events: list[dict[str, Any]] = []
        if entry is not None:
            before, (state, events) = state, fold(state, entry)
            waits = state.done and state.log.unanswered.get(state.goal.message_id)
            if waits and (decided := await decided_since(deps, caller, state.log)):
                # The agent had not heard of a decision when it read the message: what it waits for is decided already.
                before = before.copy()
                before.goal = replace(before.goal, decided=before.goal.decided | decided)
                state, events = fold(before, entry)
        yield state, events
        if state.done:
            return


async def wait_for(deps: Deps, caller: Caller, request: Request, snapshot: Snapshot, state: T) -> tuple[T, bool]:
    """Return the state at the stream's own end, for an answer that is given whole; before where its client has gone.

    And whether that is an answer: it is whole, and its client is there.
    """
    state, _ = replay(state, snapshot.items)
    async for after, told in follow(deps, caller, snapshot.conversation.conversation_id, state):
        state = after
        if not told and not state.done and await request.is_disconnected():
            break
    return state, state.done and not await request.is_disconnected()


@contextmanager
def breaking_off() -> Iterator[None]:
    """Log whatever goes wrong while a stream is written: its writer ends it then as one that ended early."""
    try:
        yield
    except Exception:
        log.exception("http.stream_broke_off")


async def decide(
    deps: Deps, caller: Caller, conversation_id: str, answers: Sequence[Answer], *, all_count: bool = False
) -> tuple[frozenset[str], dict[str, Data]]:
    """Have answers decided in the order in which the model proposed the calls.

    Return the approvals that are over or about to be, and why others are not: approval -> {kind, title, status, …}.
    One that waits for more people is in neither. Where `all_count`, an answer that does not is raised as Refused, and
    those before it stay decided: but for one that has words behind it, one that says what was decided already, which is
    over, and one that comes too early, because its call is approved by itself. In a job's conversation nothing is
    answered: Refused (403).
    """
    if not answers:
        return frozenset(), {}
    async with reading(deps.runtime.database) as connection:
        if conversation := await find_conversation(connection, caller.tenant, conversation_id):
            check_writable(caller, conversation)
    topic = Topic(caller.tenant, conversation_id)
    several = await approves_several(deps.decisions, caller, answers)
    decided, refused = set[str](), dict[str, Data]()
    steps = await steps_among(deps.runtime.database, caller.tenant, [answer.approval_id for answer in answers])
    unsure = False
    for answer in sorted(answers, key=lambda each: steps.get(each.approval_id, NO_STEP)):
        try:
            if unsure and answer.approved:
                raise not_in_turn()
            row = await decide_in(deps.decisions, caller, topic, answer, several=several)
            unsure = unsure or (answer.approved and row is None)
        except Refused as refusal:
            told = {"kind": refusal.kind, "title": refusal.title, "status": refusal.status, **refusal.facts}
            must_count = all_count and not answer.has_words
            if must_count and refusal.kind != "approve-alone" and not was_said(told, answer):
                raise
            refused[answer.approval_id] = told
            row = None
        over = refused.get(answer.approval_id, {}).get("kind", "already-decided") == "already-decided"
        if over and (row is None or row["state"] != "pending"):
            decided.add(answer.approval_id)
    return frozenset(decided), refused


def was_said(why: Data, answer: Answer) -> bool:
    """Tell whether an answer does not count because the same was decided of the same call, by whomever."""
    said = ("already-decided", "approved" if answer.approved else "denied", answer.digest)
    return said == (why["kind"], why.get("state"), why.get("digest"))


async def decided_since(deps: Deps, caller: Caller, log: ConversationState) -> frozenset[str]:
    """Return the approvals that are over although the log says that they wait: it is told a moment later."""
    waiting = {(caller.tenant, call.approval_id) for call in log.waiting}
    if not waiting:
        return frozenset()
    async with reading(deps.runtime.database) as connection:
        found = await load_approvals(connection, waiting)
    return frozenset(str(row["approval_id"]) for row in found.values() if row["state"] != "pending")

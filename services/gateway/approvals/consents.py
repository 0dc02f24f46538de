"""Deciding by a message in the chat: where the rule allows it, a plain yes or no is signed and sent like a click.

The message and the decision leave in one transaction. The agent shows such a message and gives it to no model.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from placet.contracts.ids import derived_id, new_id
from placet.contracts.messages import ConsentAnswered, DecisionAnswered, MessagePosted, TakenAs
from placet.domain.directory import Directory
from placet.gateway.approvals import consent
from placet.gateway.approvals.consent import Said
from placet.gateway.approvals.decisions import Ask, Decisions
from placet.gateway.approvals.mine import list_mine
from placet.gateway.approvals.store.inbox import Filters, list_approvals
from placet.gateway.conversations import store
from placet.gateway.conversations.access import came_in_time, no_token
from placet.gateway.conversations.items import Item
from placet.gateway.conversations.rules import shown_card
from placet.gateway.conversations.service import Posted, Writing, message_id_used, message_of
from placet.gateway.conversations.store import Place
from placet.gateway.identity.auth import Caller
from placet.gateway.identity.keys import Scope
from placet.gateway.store.read import Row
from placet.runtime.work import UnitOfWork, Work

#: Calls of one conversation that are looked at; where more wait, a message decides nothing.
WAITING_MAX = 50
#: Newest items of a conversation among which the card must be.
ITEMS_MAX = 1_000
#: Messages that are remembered, so that a copy is told the same; those taken longest ago go.
REMEMBERED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that was taken for a decision."""

    posted: Posted
    #: None while nobody knows.
    outcome: str | None


@dataclass(frozen=True)
class Consents:
    """Takes messages for decisions, those that are."""

    units: UnitOfWork
    decisions: Decisions
    #: Who is who now.
    directory: Callable[[], Directory]
    #: By tenant, conversation and message id: the text, and what it was taken for.
    _taken: OrderedDict[tuple[str, str, str], tuple[str, Taken]] = field(default_factory=OrderedDict)
    _one_by_one: WeakValueDictionary[Place, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def take(self, caller: Caller, conversation_id: str, writing: Writing) -> Taken | None:
        """Decide by a message; None for an ordinary one, with which nothing was done.

        Raises Refused: 401 (a conversation's token that is good no more), 409 where the message's id was used for
        another text, and for a yes to what is stopped or may have run before a restore.
        """
        if not (consent.may_consent(writing.text) and caller.may(Scope.DECIDE) and caller.may(Scope.CHAT)):
            return None
        if not caller.sees(conversation_id):
            return None
        place = (caller.tenant, conversation_id)
        # Copies of one message are one decision.
        decision_id = derived_id("consent", *place, writing.message_id) if writing.message_id else new_id()
        with self.decisions.expected(decision_id) as waiting:
            # A copy that comes meanwhile finds what is remembered here once it is stored, and not before.
            async with self._one_by_one.setdefault(place, asyncio.Lock()):
                async with self.units.begin() as work:
                    taken = await self._decide(work, caller, place, writing, decision_id)
                if taken is None or taken.outcome:
                    return taken
                # What is known of it by now may be more.
                if (*place, taken.posted.message_id) not in self._taken:
                    self._remember(place, writing.text, taken)
            answer = await self.decisions.outcome(waiting)
        if answer is None:
            return taken
        taken = Taken(taken.posted, answer.outcome)
        if self._remember(place, writing.text, taken):
            await self._show(taken.posted, answer)
        return taken

    async def _decide(
        self, work: Work, caller: Caller, place: Place, writing: Writing, decision_id: str
    ) -> Taken | None:
        conversation = await store.lock_conversation(work.connection, *place)
        if conversation is None or conversation.ended_at is not None or conversation.job_id is not None:
            return None
        if not came_in_time(caller, conversation):
            raise no_token()
        message = message_of(caller, writing, conversation)
        # Who wrote must be who is known here: a backend's word for its user proves nothing.
        said = consent.read(writing.text, conversation.language) if message.author.id == caller.person else None
        if said is None:
            return None
        text, known = self._taken.get((*place, message.message_id), ("", None))
        if known is not None:
            if text != writing.text:
                raise message_id_used()
            return known
        items = await store.tail(work.connection, *place, ITEMS_MAX)
        was_said, taken = _said_before(items, message)
        if was_said:
            # A client repeats it: a call that it led to is none that it was an answer to.
            return taken
        approval = await self._meant(work, caller, place, said, items)
        if approval is None:
            return None
        taken_as = TakenAs(approval_id=approval["approval_id"], decision=said.consent, summary=approval["summary"])
        ask = Ask(said.consent, approval["digest"], revision=approval["revision"], said=message.text.strip())
        work.emit(message.model_copy(update={"taken_as": taken_as}))
        # What is refused is no ordinary message either: as one it might withdraw the call, and that is to wait.
        self.decisions.send(work, caller, approval, ask, decision_id)
        return Taken(Posted(place[1], message.message_id, taken_as.model_dump()), None)

    def _remember(self, place: Place, text: str, taken: Taken) -> bool:
        """Remember what a message was taken for; tell whether that is news."""
        key = (*place, taken.posted.message_id)
        is_news = self._taken.get(key) != (text, taken)
        self._taken[key] = (text, taken)
        if len(self._taken) > REMEMBERED_MAX:
            self._taken.popitem(last=False)
        return is_news

    async def _meant(self, work: Work, caller: Caller, place: Place, said: Said, items: list[Item]) -> Row | None:
        """Return the one call that a yes or no is about; None where that is not beyond doubt."""
        here = Filters(state="pending", conversation_id=place[1])
        waiting = await list_approvals(work.connection, caller.tenant, here, limit=WAITING_MAX + 1)
        bare = waiting[0] if len(waiting) == 1 and not said.name else None
        chosen = consent.named(said.name, waiting) if said.name and len(waiting) <= WAITING_MAX else bare
        if chosen is None or not chosen["approval_rule"].get("by_message"):
            return None
        mine = await list_mine(work.connection, caller, self.directory(), here, limit=WAITING_MAX + 1)
        if chosen["approval_id"] not in {row["approval_id"] for row in mine.rows}:
            return None
        card = shown_card(items, chosen["approval_id"])
        # The card must be there as it is now; after more words of the model, a bare yes may be an answer to those.
        shown = card is not None and card.digest == chosen["digest"] and bool(said.name or not card.spoken_since)
        return chosen if shown else None

    async def _show(self, posted: Posted, answer: DecisionAnswered) -> None:
        """Have the log say what became of the message: it is shown for what it was taken as, and for what it did."""
        async with self.units.begin() as work:
            work.emit(
                ConsentAnswered(
                    tenant=answer.tenant,
                    conversation_id=posted.conversation_id,
                    message_id=posted.message_id,
                    taken_as=TakenAs.model_validate(posted.taken_as),
                    outcome=answer.outcome,
                    detail=answer.detail,
                    state=answer.state,
                )
            )


def _said_before(items: list[Item], message: MessagePosted) -> tuple[bool, Taken | None]:
    """Tell whether the log has a message, and what it was taken for by whichever gateway; None for an ordinary one.

    Raises Refused (409) where it is another text that was taken for a decision.
    """
    its = [item for item in items if item.data.get("message_id") == message.message_id]
    shown = next((item.data for item in its if item.type == "message"), None)
    if shown is None or not shown.get("taken_as"):
        return shown is not None, None
    if shown["text"] != message.text:
        raise message_id_used()
    outcome = next((item.data["outcome"] for item in its if item.type == "decision"), None)
    return True, Taken(Posted(message.conversation_id, message.message_id, shown["taken_as"]), outcome)

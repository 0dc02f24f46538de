"""Deciding by a message in the chat: where the rule allows it, a plain yes or no is signed and sent like a click.

The message and the decision commit together, under the lock of the conversation's feed, so what the person had been
shown when they wrote is what is looked at here. The agent never gets such a message: no model has a word in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from services.gateway import consent
from services.gateway.announcing import announce
from services.gateway.auth import Caller
from services.gateway.consent import Said
from services.gateway.conversations import Posted, Writing, message_of
from services.gateway.decisions import Ask, Decisions
from services.gateway.feed import Item, Place, items_of
from services.gateway.keys import Scope
from services.gateway.mine import list_mine
from services.gateway.store.conversations import lock_conversations
from services.gateway.store.feed import add_items, append, find_item, load_card
from services.gateway.store.inbox import Filters, list_approvals
from services.gateway.store.read import Row
from shared.directory import Directory
from shared.ids import new_id
from shared.messages import DecisionAnswered, MessagePosted
from shared.work import UnitOfWork, Work

#: Calls of one conversation that are looked at; where more wait, a message decides nothing.
WAITING_MAX = 50


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

    async def take(self, caller: Caller, conversation_id: str, writing: Writing) -> Taken | None:
        """Decide by a message; None for an ordinary one, with which nothing was done."""
        if not (consent.may_consent(writing.text) and caller.may(Scope.DECIDE) and caller.may(Scope.CHAT)):
            return None
        if not caller.sees(conversation_id):
            return None
        decision_id, place = new_id(), (caller.tenant, conversation_id)
        with self.decisions.expected(decision_id) as waiting:
            async with self.units.begin() as work:
                posted = await self._decide(work, caller, place, writing, decision_id)
            if posted is None:
                return None
            answer = await self.decisions.outcome(waiting)
        if answer is not None:
            await self._show(posted, answer)
        return Taken(posted, answer.outcome if answer else None)

    async def _decide(
        self, work: Work, caller: Caller, place: Place, writing: Writing, decision_id: str
    ) -> Posted | None:
        conversation = (await lock_conversations(work.connection, [place])).get(place)
        if conversation is None or conversation.ended_at is not None:
            return None
        message = message_of(caller, writing, conversation)
        # Who wrote must be who is known here: a backend's word for its user proves nothing.
        said = consent.read(writing.text, conversation.language) if message.author.id == caller.person else None
        (item,) = items_of(message, "")
        if said is None or await find_item(work.connection, *place, item.source_id) is not None:
            return None
        approval = await self._meant(work, caller, place, said)
        if approval is None:
            return None
        taken_as = {
            "approval_id": approval["approval_id"],
            "decision": said.consent,
            "summary": approval["summary"],
        }
        stored = await add_items(work.connection, [_marked(item, taken_as)])
        work.act(partial(announce, self.units.outbox, stored))
        ask = Ask(said.consent, approval["digest"], revision=approval["revision"], said=message.text.strip())
        self.decisions.send(work, caller, approval, ask, decision_id)
        return _posted(message, stored[0].seq, taken_as)

    async def _meant(self, work: Work, caller: Caller, place: Place, said: Said) -> Row | None:
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
        card = await load_card(work.connection, *place, chosen["approval_id"])
        # The card must be there as it is now; after more words of the model, a bare yes may be an answer to those.
        shown = card is not None and card.digest == chosen["digest"] and bool(said.name or not card.spoken_since)
        return chosen if shown else None

    async def _show(self, posted: Posted, answer: DecisionAnswered) -> None:
        """Add to the feed what became of the message: it is shown for what it was taken as, and for what it did."""
        told: dict[str, Any] = {**(posted.taken_as or {}), "message_id": posted.message_id}
        told |= {"outcome": answer.outcome, "detail": answer.detail, "state": answer.state}
        source = f"decision:{answer.decision_id}"
        item = Item(answer.tenant, posted.conversation_id, "decision", told, source)
        async with self.units.begin() as work:
            stored = await append(work.connection, [item])
            work.act(partial(announce, self.units.outbox, stored))


def _marked(item: Item, taken_as: dict[str, Any]) -> Item:
    return replace(item, data={**item.data, "taken_as": taken_as})


def _posted(message: MessagePosted, seq: int, taken_as: dict[str, Any]) -> Posted:
    return Posted(message.conversation_id, message.message_id, seq, taken_as)

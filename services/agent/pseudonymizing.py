"""What stands between a conversation and its model where it says so: pseudonyms, stored before they are used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from placet.agent import store
from placet.agent.hiding import RestoredText, hidden, restored, texts
from placet.agent.model_answer import ModelAnswer
from placet.agent.personal import Personal
from placet.agent.pseudonyms import Entry, Pseudonyms
from placet.agent.rules import Claim
from placet.agent.store import ConversationSnapshot
from placet.agent.transcript import History
from placet.contracts.errors import PlacetError
from placet.runtime.database import Database

#: Times that a worker reads the table again because another one was quicker.
TRIES_MAX = 20


class NoPseudonyms(PlacetError):
    """Other workers were quicker each time: the model must not be asked."""


@dataclass(frozen=True, slots=True)
class Readable:
    """A conversation as its model may read it."""

    history: History
    pseudonyms: Pseudonyms

    def listening(
        self, on_text: Callable[[str], Awaitable[None]], on_reset: Callable[[], Awaitable[None]]
    ) -> RestoredText:
        """Return what the model's text goes through on its way to the readers."""
        return RestoredText(self.pseudonyms, on_text, on_reset)

    def restored(self, answer: ModelAnswer) -> ModelAnswer:
        """Return a model's answer as everybody else is to see it."""
        return restored(answer, self.pseudonyms)


async def pseudonymize(
    database: Database, claim: Claim, snapshot: ConversationSnapshot, personal: Personal, instructions: str
) -> Readable:
    """Return what a model so instructed may read of a conversation; all its pseudonyms are stored then."""
    recognise = personal.recognise_in(snapshot.labels)
    avoid = f"{instructions}\n{texts(snapshot.history)}"
    for _ in range(TRIES_MAX):
        async with database.single() as connection:
            known = await store.load_pseudonyms(connection, claim.conversation_id)
        pseudonyms = Pseudonyms(known, recognise, avoid=avoid)
        # Long texts take their time, and other conversations are not to wait for it.
        history = await asyncio.to_thread(hidden, snapshot.history, pseudonyms)
        if not pseudonyms.fresh or await _kept(database, claim, pseudonyms.fresh, len(known)):
            return Readable(history, pseudonyms)
    raise NoPseudonyms(f"the pseudonyms of conversation {claim.conversation_id} changed {TRIES_MAX} times")


async def _kept(database: Database, claim: Claim, fresh: list[Entry], known: int) -> bool:
    async with database.transaction() as connection:
        return await store.keep_pseudonyms(connection, claim.tenant, claim.conversation_id, fresh, known=known)

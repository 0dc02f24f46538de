"""For whom a conversation is there: to read, and to write in. What is foreign does not exist."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from placet.contracts.errors import Refused
from placet.gateway.conversations import store
from placet.gateway.conversations.store import Conversation
from placet.gateway.identity.auth import Caller, NoCaller
from placet.gateway.identity.keys import Scope
from placet.gateway.identity.store.keys import find_keys
from placet.gateway.identity.store.sessions import session_stands
from placet.runtime.sql import Connection
from placet.runtime.work import UnitOfWork, Work


def may_read(caller: Caller, conversation_id: str) -> None:
    """Raise Refused where the caller may not read the conversation: 403 without a scope, 404 where it is foreign.

    Whether it is a job's that they may not see, its row says: `find_for`.
    """
    caller.need(Scope.CHAT, Scope.DECIDE, Scope.OPERATE)
    if not caller.sees(conversation_id):
        raise no_conversation()


def exists_for(caller: Caller, conversation: Conversation) -> bool:
    """Tell whether a conversation of the caller's tenant exists for them: one of a job does where the job does."""
    is_seen = conversation.job_id is None or caller.sees_job(conversation.job_author)
    return is_seen and caller.sees(conversation.conversation_id)


async def find_for(connection: Connection, caller: Caller, conversation_id: str) -> Conversation | None:
    """Return a conversation that exists for the caller; None where there is none."""
    found = await store.find_conversation(connection, caller.tenant, conversation_id)
    return found if found is not None and exists_for(caller, found) else None


async def check_for(connection: Connection, caller: Caller, conversation_id: str) -> Conversation:
    """Return a conversation that the caller may read; raise Refused: 403 without a scope, 404 where there is none."""
    may_read(caller, conversation_id)
    found = await find_for(connection, caller, conversation_id)
    if found is None:
        raise no_conversation()
    return found


def check_writable(caller: Caller, conversation: Conversation | None) -> Conversation:
    """Return a conversation in which the caller may write; raise Refused where they may not.

    404 where there is none for them, and 403 where it is a job's or an attempt's: what is said there counts as a vote.
    401 for a token that is good no more: it may be remembered for a second, and what is written outlives that.
    """
    if conversation is None or not exists_for(caller, conversation):
        raise no_conversation()
    if not came_in_time(caller, conversation):
        raise no_token()
    if conversation.job_id is not None:
        detail = "What its calls wait for is decided by their approvals; whoever does not want the job cancels it."
        title = "This conversation is a job's: nobody writes in it."
        raise Refused(title, status=403, kind="conversation-of-job", detail=detail, job_id=conversation.job_id)
    return conversation


def came_in_time(caller: Caller, conversation: Conversation) -> bool:
    """Tell whether the caller came without a conversation's token, or with the one that the conversation has."""
    return caller.token_hash in {"", conversation.token_hash}


async def token_holds(connection: Connection, caller: Caller) -> bool:
    """Look whether the caller's token of a conversation, or session, is good still; it is where they came without."""
    if caller.session_id is not None and not await session_stands(connection, caller.session_id):
        return False
    if caller.conversation_id is None:
        return True
    found = await store.find_conversation(connection, caller.tenant, caller.conversation_id)
    return found is not None and came_in_time(caller, found)


async def check_credentials(connection: Connection, caller: Caller) -> None:
    """Raise NoCaller where the caller's token, session or key is good no more.

    Callers are remembered for a second, whatever happens at other replicas, and a request may come in for a minute:
    what one makes or changes, and stands for longer, asks in its transaction.
    """
    holds = await token_holds(connection, caller)
    if holds and caller.key_id is not None:
        key = (await find_keys(connection, [caller.key_id])).get(caller.key_id)
        holds = key is not None and key.revoked_at is None and caller.came_with(key)
    if not holds:
        raise no_token()


@asynccontextmanager
async def writing(units: UnitOfWork, caller: Caller) -> AsyncIterator[Work]:
    """Yield a transaction for what a caller changes; raise NoCaller where their token or key is good no more."""
    async with units.begin() as work:
        await check_credentials(work.connection, caller)
        yield work


def no_token() -> NoCaller:
    """Return the answer for a token or key that was replaced, taken back, taken over or revoked."""
    return NoCaller("The credentials are not valid.")


def no_conversation() -> Refused:
    """Return the answer for a conversation that does not exist for the caller."""
    return Refused("There is no such conversation.", status=404, kind="not-found")

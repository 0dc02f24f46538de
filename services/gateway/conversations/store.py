"""SQL of conversations: the gateway's own rows, and the agent's log of each.

A conversation that a frontend began over AMQP is the agent's until somebody needs a row of it here: then it is adopted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from placet.gateway.conversations.holder import Held
from placet.gateway.conversations.items import Item, ItemType
from placet.gateway.states import State
from placet.gateway.store.read import Row, shown_in
from placet.runtime.queries import Query, load_queries, query
from placet.runtime.sql import Connection
from placet.runtime.work import Work

#: A conversation's key: tenant and id.
Place = tuple[str, str]
#: Characters of a first message that a list shows.
TITLE_MAX = 80
#: JSON of the newest items that are read at once, in bytes: who reads makes one answer of them.
TAIL_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation as it is stored."""

    tenant: str
    conversation_id: str
    agent: str
    language: str
    labels: dict[str, str]
    visitor: str | None
    created_at: datetime
    created_by: str
    #: Whether the key that opened it may decide too.
    opener_decides: bool = False
    #: Set: nobody writes here any more.
    ended_at: datetime | None = None
    #: Who answers, how often that has changed, and the operator who does.
    holder: str = State.AGENT
    holder_revision: int = 0
    operator: str = ""
    #: Since when people hold it, and why a tool handed it over.
    held_since: datetime | None = None
    held_reason: str = ""
    #: Up to which item clients were told that ask for what is new; None where none has asked yet.
    told_seq: int | None = None
    #: Who may have asked here, as `read.opened_by` has it, separated by spaces; not its opener where that may decide.
    relayed_by: str = ""
    #: The job that works in it, whose own or an attempt's it is; None for one in which people write.
    job_id: str | None = None
    #: Who asked for that job; None where it is no more.
    job_author: str | None = None
    #: Of its token; None where it has none.
    token_hash: str | None = field(default=None, repr=False)

    @property
    def place(self) -> Place:
        """The conversation's key."""
        return self.tenant, self.conversation_id

    def knows(self, holders: Iterable[str]) -> bool:
        """Tell whether it is known that these people may have asked here."""
        known = {*self.relayed_by.split(), *([self.created_by] if self.opener_decides else ())}
        return known.issuperset(holders)

    @property
    def held(self) -> Held:
        """Who answers here now."""
        return Held(State(self.holder), self.holder_revision, self.operator)


QUERIES = load_queries(__file__)
_LOCK = query("lock_conversation", f"{QUERIES.load_conversation.source} FOR UPDATE OF c")


async def find_conversation(connection: Connection, tenant: str, conversation_id: str) -> Conversation | None:
    """Return one conversation of a tenant; one that a frontend began over AMQP is adopted."""
    return await _find(connection, QUERIES.load_conversation, (tenant, conversation_id))


async def shows_approval(connection: Connection, tenant: str, conversation_id: str, approval_id: str) -> bool:
    """Tell whether a conversation shows an approval, its own or one of a job that one of its calls began."""
    place = {"tenant": tenant, "conversation_id": conversation_id}
    found = await connection.run(QUERIES.shows_approval, **place, approval_id=approval_id)
    return bool(found[0]["shown"])


async def lock_conversation(connection: Connection, tenant: str, conversation_id: str) -> Conversation | None:
    """Return one conversation and keep it from changing until the commit."""
    return await _find(connection, _LOCK, (tenant, conversation_id))


async def _find(connection: Connection, load: Query, place: Place) -> Conversation | None:
    for statement in (load, QUERIES.adopt_conversation, load):
        if rows := await connection.run(statement, tenant=place[0], conversation_id=place[1]):
            return Conversation(*rows[0])
    return None


async def open_conversation(connection: Connection, **opening: Any) -> None:
    """Store a conversation by all that its statement takes; one that is there already stays as it is."""
    await connection.run(QUERIES.open_conversation, **opening)


async def note_relay(connection: Connection, place: Place, holders: Iterable[str]) -> None:
    """Remember that these people may have asked here: they have a key with which that was done, or wrote themselves."""
    here = {"tenant": place[0], "conversation_id": place[1]}
    await connection.run(QUERIES.adopt_conversation, **here)
    for holder in holders:
        await connection.run(QUERIES.note_relay, **here, holder=holder)


async def note_words(connection: Connection, place: Place, writers: Iterable[str]) -> None:
    """Remember who gave the model words about a call: where its conversation is shown, the one that called its job."""
    await note_relay(connection, (await shown_in(connection, [place])).get(place, place), writers)


async def renew_token(
    connection: Connection,
    place: Place,
    token_hash: str | None,
    token_seconds: int,
    taker: str | None,
    came_with: str = "",
) -> datetime | None:
    """Put another token in the place of a conversation's, or none; return when it ends.

    `taker` is None where its holder renews it, who came with the token of the hash `came_with`. Returns None where that
    is good no more, or the conversation has ended and is to have another.
    """
    here = {"tenant": place[0], "conversation_id": place[1]}
    values = {"token_hash": token_hash, "token_seconds": token_seconds, "taker": taker, "came_with": came_with}
    rows = await connection.run(QUERIES.renew_token, **here, **values)
    return rows[0]["token_expires_at"] if rows else None


async def end_conversation(connection: Connection, place: Place, by: str) -> None:
    """Let nobody write in a conversation any more."""
    await connection.run(QUERIES.end_conversation, tenant=place[0], conversation_id=place[1], by=by)


async def mark_told(connection: Connection, place: Place, number: int) -> None:
    """Note up to which item a client was told; never less than before."""
    await connection.run(QUERIES.mark_told, tenant=place[0], conversation_id=place[1], number=number)


async def post_messages(work: Work, posts: Mapping[str, Conversation], tokens: Mapping[str, str]) -> set[str]:
    """Store the messages that were handed over under the keys of `posts`; return the keys of those stored.

    One whose conversation has ended since, is held otherwise, is a job's, or knows others who may have asked, is not.
    `tokens` has by the same keys the hash of the token that its writer came with, empty for none: nor is one whose
    conversation has another.
    """
    found = await work.execute_once(
        QUERIES.post_messages,
        post_keys=list(posts),
        tenants=[each.tenant for each in posts.values()],
        conversation_ids=[each.conversation_id for each in posts.values()],
        revisions=[each.holder_revision for each in posts.values()],
        askers=[each.relayed_by for each in posts.values()],
        tokens=[tokens[key] for key in posts],
    )
    return {row["key"] for row in found}


async def known_texts(connection: Connection, messages: Collection[tuple[str, str, str]]) -> dict[tuple[str, str], str]:
    """Return by conversation and message id the texts of messages (tenant, conversation, id) that the agent has."""
    names = ("tenants", "conversation_ids", "message_ids")
    given = {name: [each[at] for each in messages] for at, name in enumerate(names)}
    return {(row[0], row[1]): row[2] for row in await connection.run(QUERIES.known_texts, **given)}


async def recent_conversations(connection: Connection, tenant: str, created_by: str, limit: int) -> list[Row]:
    """Return the newest conversations that somebody opened, each with how its first message begins, its `title`."""
    given = {"tenant": tenant, "created_by": created_by, "most": limit, "title_max": TITLE_MAX}
    return [dict(row) for row in await connection.run(QUERIES.recent_conversations, **given)]


async def read_log(connection: Connection, tenant: str, conversation_id: str, after: int, limit: int) -> list[Item]:
    """Return the items of a conversation after the number `after`, oldest first."""
    given = {"tenant": tenant, "conversation_id": conversation_id, "after": after, "most": limit}
    return [_item(*row) for row in await connection.run(QUERIES.read_log, **given)]


async def surfaced_in(connection: Connection, tenant: str, conversation_id: str) -> list[str]:
    """Return the approvals of jobs that calls of a conversation wait for, which surface in it."""
    given = {"tenant": tenant, "conversation_id": conversation_id}
    return [row[0] for row in await connection.run(QUERIES.surfaced_in, **given)]


async def tail(
    connection: Connection, tenant: str, conversation_id: str, limit: int, types: Sequence[ItemType] = ()
) -> list[Item]:
    """Return the newest items of a conversation, of some types only where any are named; oldest first.

    There are fewer than `limit` where these would be more than TAIL_BYTES_MAX.
    """
    given = {"tenant": tenant, "conversation_id": conversation_id, "most": limit, "bytes_max": TAIL_BYTES_MAX}
    found = await connection.run(QUERIES.tail, **given, types=list(types) or None)
    return [_item(*row) for row in reversed(found)]


async def end_of_call(connection: Connection, place: Place, call_id: str) -> dict[str, Any] | None:
    """Return the log's item about a call of a conversation that has its result; None while it has none."""
    given = {"tenant": place[0], "conversation_id": place[1], "call_id": call_id}
    found = await connection.run(QUERIES.end_of_call, **given)
    return dict(found[0]["data"]) if found else None


async def newest_number(connection: Connection, tenant: str, conversation_id: str) -> int:
    """Return the number of the newest item of a conversation; 0 where there is none."""
    return int((await connection.run(QUERIES.newest_number, tenant=tenant, conversation_id=conversation_id))[0][0])


async def running_turn(connection: Connection, tenant: str, conversation_id: str) -> str | None:
    """Return the turn that goes on in a conversation; None while it idles."""
    found = await connection.run(QUERIES.running_turn, tenant=tenant, conversation_id=conversation_id)
    return found[0]["turn_id"] if found else None


@dataclass(frozen=True, slots=True)
class Words:
    """What was said around a held call: by the agent beside it, by the requester before it; empty: nothing."""

    quote: str = ""
    asked: str = ""


NO_WORDS = Words()


async def load_words(connection: Connection, approvals: Sequence[Mapping[str, Any]]) -> dict[str, Words]:
    """Return by approval id what was said around these approvals, given as rows.

    Where people must not see an argument they do not see the requester's message either: it may name the value.
    """
    if not approvals:
        return {}
    names = ("tenant", "conversation_id", "approval_id", "call_id")
    given = {f"{name}s": [row[name] for row in approvals] for name in names}
    masked = {row["approval_id"] for row in approvals if row["arguments_masked"]}
    return {
        row["approval_id"]: Words(row["quote"] or "", "" if row["approval_id"] in masked else row["asked"] or "")
        for row in await connection.run(QUERIES.load_words, **given)
    }


def _item(seq: int, kind: ItemType, at: datetime, data: dict[str, Any]) -> Item:
    return Item(seq, kind, at.isoformat(), data)

"""All SQL of the agent, by name from `queries.sql`.

Whatever changes a conversation goes three ways here: `lock` it in a transaction, let things happen, `write`; or `load`
it without a lock and `write`, which stores nothing where somebody else changed it since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import field as field_of
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic_core import from_json, to_json

from placet.agent.attempts import Attempt
from placet.agent.budgets import Scope, Used
from placet.agent.conversation import Conversation
from placet.agent.conversation_state import Call, Turn
from placet.agent.pseudonyms import Entry
from placet.agent.rules import Claim, Queued
from placet.agent.staging import StagedEntry
from placet.agent.states import MACHINE, CallState, State
from placet.agent.transcript import STOPPED_HEAD, Fact, History, Spoken, Step, UserMessage
from placet.agent.transcript import Call as SaidCall
from placet.contracts.messages import ToolCall
from placet.contracts.permit import CONSENT_VOID, STOPPED_CALL
from placet.runtime.driver import DatabaseError
from placet.runtime.queries import Query, load_queries, query
from placet.runtime.sql import Connection

QUERIES = load_queries(__file__)
#: What `state` begins with.
_PLAIN = (
    *("tenant", "agent", "language", "labels", "ended", "held", "holder_revision", "holder_told"),
    *("log_seq", "version", "turn_id"),
)
#: Values of `state` that ask for nothing beside a conversation itself.
_NOTHING: Mapping[str, list[str]] = {"turn_ids": [], "call_ids": [], "message_ids": [], "consent_ids": []}


def _with_state(chosen: Query) -> Query:
    return query(chosen.name, chosen.source.replace("STATE", QUERIES.state.source))


_READ, _LOCK, _LOAD = _with_state(QUERIES.read), _with_state(QUERIES.lock), _with_state(QUERIES.load)


@dataclass(slots=True)
class Wanted:
    """Which conversations are needed, and what of them beside what goes on in them."""

    #: Tenants by conversation, of those that are made where there is none.
    born: dict[str, str] = field_of(default_factory=dict)
    conversation_ids: set[str] = field_of(default_factory=set)
    turn_ids: set[str] = field_of(default_factory=set)
    call_ids: set[str] = field_of(default_factory=set)
    message_ids: set[str] = field_of(default_factory=set)
    #: Messages that were taken for decisions.
    consent_ids: set[str] = field_of(default_factory=set)


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """A conversation as a worker needs it, at one moment."""

    agent: str
    labels: dict[str, str]
    history: History
    state: list[Any]
    conversation_id: str

    @property
    def attempt(self) -> Attempt | None:
        """The attempt of a job that it is."""
        return attempt_of(self.state[-1])

    @property
    def has_staged(self) -> bool:
        """Whether entries wait in a workspace."""
        return bool(self.state[-2])

    def has_turn(self, turn_id: str) -> bool:
        """Tell whether a turn is the one that goes on here."""
        return any(turn[0] == turn_id for turn in self.state[-7] or ())

    def conversation(self) -> Conversation:
        """Return the conversation, for something to happen to it."""
        return conversation_of(self.conversation_id, self.state)


async def read(connection: Connection, wanted: Wanted) -> dict[str, Conversation]:
    """Return conversations as they are now, new ones for those that may be born; whoever writes may come too late."""
    values = {name: sorted(getattr(wanted, name)) for name in _NOTHING}
    rows = await connection.run(_READ, conversation_ids=sorted(wanted.conversation_ids), **values)
    new = {name: Conversation(name, tenant, is_new=True) for name, tenant in wanted.born.items()}
    return new | {row[0]: conversation_of(row[0], from_json(row[1])) for row in rows}


async def lock(connection: Connection, wanted: Wanted) -> dict[str, Conversation]:
    """Lock conversations, make those that may be born, and return all that are there."""
    found: dict[str, Conversation] = {}
    missing = sorted(wanted.conversation_ids)
    new = dict(wanted.born)
    values = {name: sorted(getattr(wanted, name)) for name in _NOTHING}
    while missing:
        born_ids = [each for each in missing if each in new]
        tenants = [new[each] for each in born_ids]
        rows = await connection.run(_LOCK, conversation_ids=missing, born_ids=born_ids, born_tenants=tenants, **values)
        missing = []
        for conversation_id, is_born, fresh, state in rows:
            if is_born:
                found[conversation_id] = Conversation(conversation_id, new[conversation_id])
            elif fresh:
                found[conversation_id] = conversation_of(conversation_id, from_json(state))
            elif fresh is False or conversation_id in new:
                # It changed, or was born, between the statement's beginning and the lock.
                missing.append(conversation_id)
    return found


async def load(connection: Connection, conversation_ids: Sequence[str]) -> dict[str, ConversationSnapshot]:
    """Return conversations with all that their transcripts are made of, by id."""
    rows = await connection.run(_LOAD, conversation_ids=list(conversation_ids), **_NOTHING)
    return {row[0]: _snapshot_of(*row) for row in rows}


def _snapshot_of(conversation_id: str, state: Any, history: str) -> ConversationSnapshot:
    state = from_json(state)
    messages, steps, calls, facts, spoken, stops = (each or [] for each in from_json(history))
    told = [Fact(*fact) for fact in facts] + [Fact(number, STOPPED_HEAD) for number in stops]
    return ConversationSnapshot(
        state[1],
        state[3],
        History(
            tuple(UserMessage(*each) for each in messages),
            tuple(Step(*each) for each in steps),
            tuple(SaidCall(*each) for each in calls),
            tuple(sorted(told, key=lambda fact: fact.number)),
            tuple(Spoken(*each) for each in spoken),
        ),
        state,
        conversation_id,
    )


def conversation_of(conversation_id: str, state: Sequence[Any]) -> Conversation:
    """Read what the statement `state` returned."""
    *plain, turns, calls, queue, known, consents, staged, attempt = state
    return Conversation(
        conversation_id,
        **dict(zip(_PLAIN, plain, strict=True)),
        turns={turn_id: Turn(turn_id, State(at), *rest) for turn_id, at, *rest in turns or ()},
        calls={
            call_id: Call(call_id, turn_id, step, tool, message_id, CallState(at), *rest)
            for call_id, turn_id, step, tool, message_id, at, *rest in calls or ()
        },
        queue=[Queued(*each) for each in queue or ()],
        staged=[StagedEntry(*each) for each in staged or ()],
        known={**(known or {}), **(consents or {})},
        attempt=attempt_of(attempt),
    )


def attempt_of(stored: dict[str, Any] | None) -> Attempt | None:
    """Return the attempt of a job that a conversation is; None where it is none."""
    return None if stored is None else Attempt(**stored)


def effect(
    conversations: Sequence[Conversation], lease: timedelta, *, all_or_nothing: bool = False, arrived: bool = True
) -> tuple[Query, dict[str, Any]]:
    """Return the CTEs that store what became of conversations, and their values.

    The last one is called `effect` and has a row (key, at) for each conversation that is stored: its id, and the moment
    of its items. A conversation that somebody changed meanwhile is not; with `all_or_nothing` that is an error (see
    `came_too_late`), as is, where the statement has an inbox (`arrived`), one that was handled before.
    """
    parts = {
        "log": _log_rows(conversations),
        "messages": _rows(conversations, lambda each: each.new_messages.values()),
        "moved_messages": _rows(conversations, lambda each: each.moved_messages.values()),
        "turns": _rows(conversations, _turn_rows),
        "steps": _rows(conversations, lambda each: each.new_steps),
        "new_calls": _rows(conversations, lambda each: each.new_calls),
        "calls": _rows(conversations, _call_rows),
        "facts": _rows(conversations, lambda each: each.new_facts),
        "attempts": _rows(conversations, _attempt_rows),
        "staged": _rows(conversations, _staged_rows),
        "unstaged": _rows(conversations, lambda each: [{"call_id": call_id} for call_id in each.gone_staged]),
    }
    needed = {name: rows for name, rows in parts.items() if rows}
    values = {
        "conversation_ids": [each.conversation_id for each in conversations],
        "versions": [each.version for each in conversations],
        "is_news": [each.is_new for each in conversations],
        "tenants": [each.tenant for each in conversations],
        "log_seqs": [each.log_seq for each in conversations],
        "turns": [each.turn_id for each in conversations],
        "queueds": [len(each.queue) for each in conversations],
        "helds": [each.held for each in conversations],
        "holder_revisions": [each.holder_revision for each in conversations],
        "holder_tolds": [each.holder_told for each in conversations],
        "agents": [each.agent for each in conversations],
        "languages": [each.language for each in conversations],
        "labelses": [_json(each.labels) for each in conversations],
        "endeds": [each.ended for each in conversations],
        "stageds": [len(each.staged) or None for each in conversations],
    }
    for name, rows in needed.items():
        values |= {f"{name}_{column}": [row[column] for row in rows] for column in rows[0]}
    values |= {"lease": lease} if "turns" in needed else {}
    return _effect(tuple(needed), all_or_nothing=all_or_nothing, arrived=arrived), values


def came_too_late(error: DatabaseError) -> bool:
    """Tell whether an effect was refused because something had changed, or was handled before."""
    return error.sqlstate == "22012"


async def write(connection: Connection, conversations: Sequence[Conversation], lease: timedelta) -> dict[str, datetime]:
    """Store what became of locked conversations; return the moments of their items."""
    chosen, values = effect(conversations, lease)
    return dict(await connection.run(_alone(chosen), **values))


@cache
def _effect(parts: tuple[str, ...], *, all_or_nothing: bool, arrived: bool) -> Query:
    """Return the CTEs that write these parts."""
    chosen = (f",\nwrite_{name} AS (\n{getattr(QUERIES, f'write_{name}').source}\n)" for name in parts)
    # Whoever writes many conversations waits for none of them; one that writes all or nothing does.
    waiting, end = ("", QUERIES.all_stored) if all_or_nothing else ("SKIP LOCKED", QUERIES.stored)
    ended = end.source.replace("NEW", QUERIES.all_new.source if arrived else "")
    source = QUERIES.write.source.replace("WAITING", waiting).replace("EFFECT", ended)
    return query("write", source.replace("PARTS", "".join(chosen)))


@cache
def _alone(chosen: Query) -> Query:
    return query(chosen.name, f"WITH {chosen.source}\nSELECT key, at FROM effect")


#: Columns that are JSON.
_JSON = frozenset({"author", "cause", "raw", "result", "final_answer", "data", "detail", "attempt", "cards", "keys"})


def _json(value: Any) -> str | None:
    return None if value is None else to_json(value, inf_nan_mode="constants").decode()


def _rows(conversations: Sequence[Conversation], of: Any) -> list[dict[str, Any]]:
    return [
        {"conversation_id": each.conversation_id}
        | {name: _json(value) if name in _JSON else value for name, value in row.items()}
        for each in conversations
        for row in of(each)
    ]


def _log_rows(conversations: Sequence[Conversation]) -> list[dict[str, Any]]:
    return [
        {"conversation_id": each.conversation_id, "seq": seq, "type": kind, "data": _json(data)}
        for each in conversations
        for seq, (kind, data) in enumerate(each.items, each.log_seq - len(each.items) + 1)
    ]


def _turn_rows(conversation: Conversation) -> Iterable[dict[str, Any]]:
    for turn in conversation.changed_turns.values():
        calls = conversation.calls.values()
        yield {
            "turn_id": turn.turn_id,
            "state": turn.state,
            "step": turn.step,
            "fence": turn.fence,
            "takeovers": turn.takeovers,
            "open_calls": sum(call.turn_id == turn.turn_id and call.state is CallState.OPEN for call in calls),
            "paused": turn.paused,
            "cause": turn.cause,
            "message_id": turn.message_id,
            "author": turn.author,
            "reason": turn.reason,
            "stopped_number": turn.stopped_number,
            "final_answer": turn.final_answer,
            "ended": turn.state in MACHINE.final,
        }


def _call_rows(conversation: Conversation) -> Iterable[dict[str, Any]]:
    names = ("call_id", "state", "result_kind", "result", "held", "next_message", "approval_id", "approval_revision")
    for call in conversation.changed_calls.values():
        yield {name: getattr(call, name) for name in (*names, "undecided", "told_number", "cards")}


def _attempt_rows(conversation: Conversation) -> Iterable[dict[str, Any]]:
    if conversation.attempt is not None and conversation.attempt_changed:
        yield {"attempt": asdict(conversation.attempt)}


def _staged_rows(conversation: Conversation) -> Iterable[dict[str, Any]]:
    names = ("call_id", "workspace_id", "position", "digest", "decide", "commit_id", "keys")
    for entry in conversation.changed_staged.values():
        yield {name: getattr(entry, name) for name in names}


async def why_void(connection: Connection, call: ToolCall, keys: Sequence[str]) -> str:
    """Return why a permitted call of ours may not begin: it is stopped, or a key was revoked; empty where it may."""
    about = {"tenant": call.tenant, "tool": call.tool, "agent": call.agent, "keys": list(keys)}
    (row,) = await connection.run(QUERIES.void, **about)
    if row["stopped"]:
        return STOPPED_CALL
    return CONSENT_VOID if row["revoked"] else ""


async def unanswered(connection: Connection, conversation_id: str) -> list[str]:
    """Return the calls of a locked conversation that have no result, in their order."""
    return [row[0] for row in await connection.run(QUERIES.unanswered, conversation_id=conversation_id)]


async def lost_turns(connection: Connection, limit: int) -> list[tuple[str, str]]:
    """Return turns whose lease ran out, each with its conversation first."""
    return [(row[0], row[1]) for row in await connection.run(QUERIES.lost_turns, limit=limit)]


async def is_from_before(connection: Connection, turn_id: str, moment: datetime) -> bool:
    """Tell whether a turn began until a moment, or what it answers was there then."""
    return bool(await connection.run(QUERIES.is_from_before, turn_id=turn_id, moment=moment))


async def renew(connection: Connection, claim: Claim, lease: timedelta) -> bool:
    """Renew the lease of a claim; False where a newer fence was given."""
    return bool(await connection.run(QUERIES.renew, turn_id=claim.turn_id, fence=claim.fence, lease=lease))


async def give_back(connection: Connection, claim: Claim) -> None:
    """End the lease of a claim now, so that another worker takes the turn over at once."""
    await connection.run(QUERIES.give_back, turn_id=claim.turn_id, fence=claim.fence)


async def give_back_all(connection: Connection) -> None:
    """End every lease now: for who knows that no other worker is there, as on the embedded footing at start."""
    await connection.run(QUERIES.give_back_all)


async def load_used(
    connection: Connection, scopes: Iterable[Scope], *, tenant: str, agent: str, conversation_id: str
) -> Mapping[Scope, Sequence[Used]]:
    """Return what was used of each model: of the conversation ever, of the agent and the tenant since midnight UTC."""
    asked: Mapping[Scope, tuple[Query, dict[str, str]]] = {
        "conversation": (QUERIES.used_by_conversation, {"conversation_id": conversation_id}),
        "agent": (QUERIES.used_by_agent, {"tenant": tenant, "agent": agent}),
        "tenant": (QUERIES.used_by_tenant, {"tenant": tenant}),
    }
    return {
        scope: [Used(*row) for row in await connection.run(asked[scope][0], **asked[scope][1])] for scope in set(scopes)
    }


async def load_pseudonyms(connection: Connection, conversation_id: str) -> list[Entry]:
    """Return a conversation's pseudonyms in the order of their numbers."""
    return [Entry(*row) for row in await connection.run(QUERIES.load_pseudonyms, conversation_id=conversation_id)]


async def keep_pseudonyms(
    connection: Connection, tenant: str, conversation_id: str, entries: Sequence[Entry], *, known: int
) -> bool:
    """Store new pseudonyms in a transaction of their own; return whether they are stored.

    False: the table has no longer the `known` entries that the new ones were made from, and nothing was stored. The
    conversation's row is the lock, so that a number, a value and a pseudonym never mean two things.
    """
    await connection.run(QUERIES.lock_pseudonyms, conversation_id=conversation_id)
    ((number,),) = await connection.run(QUERIES.count_pseudonyms, conversation_id=conversation_id)
    if known != number:
        return False
    columns = {f"{name}s": [getattr(entry, name) for entry in entries] for name in Entry.__slots__}
    digests = {
        f"{name}_sha256s": [sha256(getattr(entry, name).encode()).hexdigest() for entry in entries]
        for name in ("value", "pseudonym")
    }
    await connection.run(QUERIES.keep_pseudonyms, tenant=tenant, conversation_id=conversation_id, **columns, **digests)
    return True

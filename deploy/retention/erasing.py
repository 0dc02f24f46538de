"""Erases a person: their conversations go, and everywhere else a pseudonym that nobody can undo takes their place.

What the audit chain sealed of them is a salted digest. It stays; name, details and salt go, so the chain verifies as
before, and so do the receipts of calls that they decided about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from secrets import token_hex
from typing import Any

import structlog

from placet.contracts.errors import PlacetError
from placet.contracts.topology import SERVICES
from placet.contracts.visitors import ANONYMOUS
from placet.deploy.retention.forgetting import WRITTEN, Forgetting, within
from placet.deploy.retention.namesakes import namesakes_of
from placet.deploy.retention.purging import QUERIES, purge_conversations
from placet.domain.approvers import identity_of
from placet.runtime.database import Database
from placet.runtime.driver import DatabaseError
from placet.runtime.queries import query
from placet.runtime.sql import Connection

log = structlog.get_logger(__name__)

_NO_TIME = timedelta(0)
#: Erased rows that one row of the history names.
NAMED_AT_ONCE = 500


#: What is left where nobody could see whether they were just voting, or stopping something.
BEING_WRITTEN = "a vote or a stop that is being written"
#: How long an erasure waits for those, in milliseconds: new ones wait behind it.
_VOTES_WAIT_MS = "1000"
_LOCK_NOT_AVAILABLE = "55P03"


class _GoesOnError(Exception):
    """Something of theirs goes on or waits, and where: nothing is to be changed."""

    def __init__(self, left: list[str]) -> None:
        super().__init__(left)
        self.left = left


class NoTenant(PlacetError):
    """A visitor without a tenant: each tenant calls its own visitors what it likes."""

    def __init__(self) -> None:
        super().__init__("a visitor is named with its tenant, such as acme/visitor:v77")


@dataclass(frozen=True, slots=True)
class Erased:
    """What was done."""

    #: Empty where nothing was changed: nothing has their name, or something is left.
    pseudonym: str
    conversations: int
    #: Conversations in which something of theirs still goes on or waits, jobs and stops: end them, and erase once more.
    left: list[str]
    #: Rows of the history that say no more who did what.
    history: int
    #: Conversations that their key opened and that stay, newest first, since whoever has the token wrote in them: each
    #: is erased as that visitor's, whom it stands here as, and found by nobody's name any more.
    left_to_visitors: list[str] = field(default_factory=list)


async def erase(database: Database, name: str) -> Erased:
    """Erase a person by the id that the directory has (`ada`), or a tenant's visitor (`acme/visitor:v77`).

    Twice does no harm. Nothing is erased while something of theirs goes on: what is found by their name now would not
    be found again. One erasure at a time: whoever waited for another one of theirs says what pseudonym that one gave.
    Raises NoTenant where a visitor comes without a tenant.
    """
    # The id of a person may have a slash.
    tenant, of_tenant, visitor = name.partition(f"/{ANONYMOUS}")
    if not tenant or name.startswith(ANONYMOUS):
        raise NoTenant
    name, tenant = (f"{ANONYMOUS}{visitor}", tenant) if of_tenant else (name, "")
    identity = name if of_tenant else identity_of(name)
    async with database.single() as connection:
        namesakes = await namesakes_of(connection, identity)
        known = Forgetting(identity, f"erased-{token_hex(6)}", tenant, namesakes=namesakes)
        named = await connection.run(QUERIES.sealed_with_name, **known.sealed)
    # This connection has nothing but the turn, which goes with the process however it ends.
    async with database.transaction() as turn:
        await turn.run(QUERIES.take_erasing_turn)
        erased = await _erase(database, known, name)
        if erased.pseudonym or erased.left:
            return erased
        rows = await turn.run(QUERIES.erasure_of, said=[row["said"] for row in named])
    return Erased(rows[0]["subject_id"], 0, [], 0) if rows else erased


async def _erase(database: Database, forgetting: Forgetting, name: str) -> Erased:
    """Erase them, as the only erasure."""
    async with database.single() as connection:
        rows = await connection.run(QUERIES.opened_by, **forgetting.opened)
        theirs = [(row["tenant"], row["conversation_id"]) for row in rows]
        rows = await connection.run(QUERIES.bare_names, name=name)
        known = theirs or rows or await forgetting.is_needed(connection)
        rows = await connection.run(QUERIES.left_to_visitors, identity=forgetting.identity)
        others = [f"{row['tenant']}/{ANONYMOUS}{row['conversation_id']}" for row in rows]
    if not known:
        return Erased("", 0, [], 0)
    try:
        forgetting, history = await _erased(database, forgetting, name, theirs)
    except _GoesOnError as goes_on:
        return Erased("", 0, goes_on.left, 0)
    gone = await purge_conversations(database, _NO_TIME, [place for _, place in theirs]) if theirs else 0
    left = await _finished(database, forgetting)
    return Erased(forgetting.pseudonym, gone, left, history, others)


async def _erased(
    database: Database, forgetting: Forgetting, name: str, theirs: Sequence[tuple[str, str]]
) -> tuple[Forgetting, int]:
    """Erase them everywhere but in their conversations; return what forgets them there, and the rows of the history.

    Raises _GoesOnError.
    """
    pseudonym, whose = forgetting.pseudonym, forgetting.whose
    async with database.transaction() as connection:
        # Their conversations are locked before they are looked at, and stay so.
        if left := sorted({*await _in_act(connection, forgetting), *await _going_on(connection, theirs)}):
            raise _GoesOnError(left)
        # First of all: what the rows are found by is gone afterwards.
        words = await connection.run(QUERIES.words, **whose)
        forgetting = replace(forgetting, words=words, _found={})
        own = [
            row["call_id"]
            for tenant, place in theirs
            for row in await connection.run(QUERIES.calls_of, tenant=tenant, ids=[place])
        ]
        told = [row["call_id"] for row, _ in await forgetting.changed(connection, "agent.tool_calls")]
        decided = [row["call_id"] for row in await connection.run(QUERIES.decided_calls, **whose)]
        gone_by: dict[str, list[str]] = {}
        for service in SERVICES:
            lists = {"own": own, "results": [*own, *told], "permitted": [*own, *decided]}
            for row in await _erase_history(connection, service, forgetting, lists):
                gone_by.setdefault(row["tenant"], []).append(row["said"])
        await _record_erasure(connection, pseudonym, gone_by)
        await forgetting.lock_approvals(connection)
        await _blank(connection, forgetting, name, [*own, *decided])
        await connection.run(QUERIES.forget_unwritten, visitor=forgetting.visitor, tenant=forgetting.tenant)
        # With the words themselves: whoever erases once more after this was cut off would not know what to look for.
        await _forget(connection, forgetting, but="gateway.conversations")
    return forgetting, sum(map(len, gone_by.values()))


async def _finished(database: Database, forgetting: Forgetting) -> list[str]:
    """Forget them where their conversations were; return what is left of these, and what they began meanwhile."""
    whose, found = forgetting.whose, set()
    async with database.transaction() as connection:
        rows = await connection.run(QUERIES.opened_by, **forgetting.opened)
        left = {row["conversation_id"] for row in rows}
    try:
        async with database.transaction() as connection:
            await forgetting.lock_approvals(connection)
            # By these names whoever erases once more finds what is left.
            await _forget(connection, forgetting, but="gateway.conversations" if left else "")
    except _GoesOnError as goes_on:
        found.update(goes_on.left)
    if not await _votes_are_written(database):
        found.add(BEING_WRITTEN)
    async with database.single() as connection:
        found.update(row["place"] for row in await connection.run(QUERIES.still_named, **whose))
    return sorted(left | found)


async def _votes_are_written(database: Database) -> bool:
    """Wait for the votes and stops that are being written; False where one takes longer than others may wait."""
    try:
        async with database.transaction() as connection:
            await connection.run(QUERIES.wait_at_most, milliseconds=_VOTES_WAIT_MS)
            await connection.run(QUERIES.await_votes)
    except DatabaseError as error:
        if error.sqlstate != _LOCK_NOT_AVAILABLE:
            raise
        return False
    return True


async def _forget(connection: Connection, forgetting: Forgetting, *, but: str) -> None:
    """Forget them; raise _GoesOnError where something was changed that goes on, or came after what they wrote went.

    A vote may come at any moment after the first look. Either it was changed here, is locked by that, and is seen now,
    or it keeps their name: nobody is two people in one approval.
    """
    await forgetting.forget(connection, but=but)
    renamed = Forgetting(forgetting.new_name, tenant=forgetting.tenant)
    rows = await connection.run(QUERIES.still_written, **renamed.whose)
    if left := sorted({*(row["place"] for row in rows), *await _in_act(connection, renamed)}):
        raise _GoesOnError(left)


async def _blank(connection: Connection, forgetting: Forgetting, name: str, calls: Sequence[str]) -> None:
    """Take away what somebody wrote and what was signed with their name, as are the permits of these calls."""
    identity, pseudonym, pattern = forgetting.identity, forgetting.pseudonym, forgetting.pattern
    whose = forgetting.whose
    await connection.run(QUERIES.blank_decisions, pattern=forgetting.pattern_in_column, **whose)
    await connection.run(QUERIES.blank_stops, identity=identity)
    await connection.run(QUERIES.forget_comments, **whose)
    for table, who, columns in WRITTEN:
        nothing = ", ".join(f"{column} = ''" for column in columns.split())
        statement = f"UPDATE {table} SET {nothing} WHERE {within(table)} AND {who} = ANY (:forms::text[])"  # noqa: S608
        await connection.run(query(f"blank_{table}", statement), **whose)
    await connection.run(QUERIES.forget_names, name=name, identity=identity, pattern=pattern, tenant=forgetting.tenant)
    await connection.run(QUERIES.blank_permits, calls=calls)
    if not forgetting.tenant:
        await connection.run(QUERIES.forget_addresses, identity=identity, name=name)
        await connection.run(QUERIES.revoke_keys, name=name, pseudonym=pseudonym)
        words = forgetting.bare_pattern
        await connection.run(QUERIES.forget_operator, identity=identity, words=words, pseudonym=pseudonym)

    # An address spells a name as no pattern here has it.
    for row in await connection.run(QUERIES.others_views, tenant=forgetting.tenant):
        if (address := forgetting.in_address(row["address"])) != row["address"]:
            await connection.run(QUERIES.change_view, **{**row, "address": address})


async def _in_act(connection: Connection, forgetting: Forgetting) -> list[str]:
    """Return where somebody is one of many: who they are matters until it ends."""
    decided = [row["call_id"] for row in await connection.run(QUERIES.decided_calls, **forgetting.whose)]
    named = {**forgetting.whose, "pattern": forgetting.pattern_in_column}
    rows = await connection.run(QUERIES.in_act, calls=decided, **named)
    asked = await connection.run(QUERIES.may_have_asked, **named)
    return sorted({row["place"] for row in (*rows, *asked)})


async def _going_on(connection: Connection, theirs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the conversations of these in which something goes on or waits; lock the others."""
    ids = [place for _, place in theirs]
    written = {row["conversation_id"] for row in await connection.run(QUERIES.written, ids=ids)}
    idle = await connection.run(QUERIES.idle, after="", only=ids, keep=_NO_TIME, most=len(ids))
    return sorted(written - {row["conversation_id"] for row in idle})


async def erase_asked(database: Database) -> int:
    """Erase everybody whom administrators asked for over HTTP; return how many there were of them.

    One with something open comes again, and what it waits for is said and kept; one whose name nothing has is done, and
    not counted.
    """
    done = 0
    async with database.single() as connection:
        asked = await connection.run(QUERIES.asked_erasures)
    for row in asked:
        try:
            erased = await erase(database, row["who"])
        except NoTenant as error:
            log.warning("erasure.not_done", erasure_id=row["erasure_id"], reason=str(error))
            continue
        if erased.left_to_visitors:
            conversations = erased.left_to_visitors
            log.warning("erasure.left_to_visitors", erasure_id=row["erasure_id"], conversations=conversations)
        which = {"erasure_id": row["erasure_id"]}
        async with database.single() as connection:
            if erased.left:
                await connection.run(QUERIES.put_off_erasure, places=erased.left, **which)
                log.warning("erasure.waits", waits_for=erased.left, **which)
            else:
                await connection.run(QUERIES.end_erasure, pseudonym=erased.pseudonym, **which)
                done += bool(erased.pseudonym)
    return done


async def _erase_history(
    connection: Connection, service: str, forgetting: Forgetting, lists: Mapping[str, Sequence[str]]
) -> Sequence[Any]:
    """Take name, details and salt from rows that name somebody, or have what is taken away with them.

    That is, of calls in `lists`: the digest of one of `results`, and the id of the permit of one that was `permitted`.
    Who is called what Placet is called itself did what it says of them with their own calls alone.
    Return of each row its `tenant` and `said`, the digest that it keeps.
    """
    statement = f"""
        UPDATE {service}.history AS h
        SET actor = 'erased', salt = NULL, detail = jsonb_build_object('erased', CAST(r.line AS json) ->> 'said')
        FROM read.history AS r
        WHERE r.service = '{service}' AND r.id = h.id AND h.salt IS NOT NULL
            AND NOT (h.machine = 'erasure' AND h.event = 'erased') AND (:tenant = '' OR h.tenant = :tenant) AND (
            h.actor = ANY (:actors::text[]) OR h.actor = ANY (:forms::text[]) AND h.call_id = ANY (:own::text[])
            OR CAST(h.detail AS text) ~ :pattern
            OR h.machine = 'tool_call' AND h.to_state = 'answered' AND h.call_id = ANY (:results::text[])
            OR h.machine = 'execution' AND h.detail ? 'permit_id' AND h.call_id = ANY (:permitted::text[])
        )
        RETURNING h.tenant, h.detail ->> 'erased' AS said
    """  # noqa: S608
    named = {**forgetting.whose, "actors": forgetting.actors, "pattern": forgetting.pattern}
    return await connection.run(query(f"erase_{service}", statement), **lists, **named)


async def _record_erasure(connection: Connection, pseudonym: str, gone_by: Mapping[str, Sequence[str]]) -> None:
    """Say in each tenant's history which rows were erased, by the digests that they kept: the chain seals it.

    Otherwise whoever has the database could hide who did what by writing a row as an erasure leaves it.
    """
    for tenant, gone in gone_by.items():
        for at in range(0, len(gone), NAMED_AT_ONCE):
            named = json.dumps({"said": gone[at : at + NAMED_AT_ONCE]})
            await connection.run(QUERIES.record_erasure, tenant=tenant, pseudonym=pseudonym, detail=named)

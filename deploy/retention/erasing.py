"""Erases a person: their conversations go, and everywhere else a pseudonym that nobody can undo takes their place.

What the audit chain sealed of them is a salted digest. It stays; name, details and salt go, so the chain verifies as
before, and so do the receipts of calls that they decided about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from placet.contracts.visitors import ANONYMOUS
from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.purging import QUERIES, purge_conversations
from placet.domain.approvers import identity_of
from placet.runtime.database import SERVICES, Database
from placet.runtime.queries import query
from placet.runtime.sql import Connection

#: Written by machines: none of their texts names anybody, but history, which is erased in its own way.
_NOT_REPLACED = frozenset({"history", "inbox", "checkpoints", "sealing", "workspace_blobs"})
#: What no row of theirs is found by: a message's copy, what was asked to be erased, contents of files.
_NAMES_NOBODY = frozenset({"inbox", "erasures", "workspace_blobs"})
#: Whom an erasure that is not done yet is about: whoever does it has to know.
_ASKED = ("erasures", "who")
_NO_TIME = timedelta(0)
#: Shorter words are found in any text by chance.
WORDS_MIN = 8
#: Erased rows that one row of the history names.
NAMED_AT_ONCE = 500
#: What one statement replaces.
SPELLINGS = 20
_POSTGRES: sa.Dialect = pg.dialect()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Erased:
    """What was done."""

    #: Empty where nothing has their name.
    pseudonym: str
    conversations: int
    #: Theirs, in which something still goes on or waits: end them, and erase once more.
    left: list[str]
    #: Rows of the history that say no more who did what.
    history: int


async def erase(database: Database, name: str) -> Erased:
    """Erase a person by the id that the directory has (`ada`), or a visitor (`visitor:v77`); twice does no harm.

    Nothing is erased while something of theirs goes on: what is found by their name now would not be found again.
    """
    visitor = name.removeprefix(ANONYMOUS) if name.startswith(ANONYMOUS) else ""
    identity = name if visitor else identity_of(name)
    pseudonym = f"erased-{token_hex(6)}"
    async with database.single() as connection:
        rows = await connection.run(QUERIES.opened_by, identity=identity, visitor=visitor)
    theirs = [(row["tenant"], row["conversation_id"]) for row in rows]
    if not theirs and not await _is_known(database, identity, name):
        return Erased("", 0, [], 0)
    if left := await _going_on(database, theirs):
        return Erased(pseudonym, 0, left, 0)
    async with database.transaction() as connection:
        # First of all: what the rows are found by is gone afterwards.
        found = [*await connection.run(QUERIES.decided_calls, identity=identity)]
        for tenant, place in theirs:
            found += await connection.run(QUERIES.calls_of, tenant=tenant, ids=[place])
        calls = sorted({row["call_id"] for row in found})
        gone_by: dict[str, list[str]] = {}
        for service in SERVICES:
            for row in await _erase_history(connection, service, identity, visitor, calls):
                gone_by.setdefault(row["tenant"], []).append(row["said"])
        await _record_erasure(connection, pseudonym, gone_by)
        words = await connection.run(QUERIES.words, identity=identity, least=WORDS_MIN)
        for blank in ("blank_decisions", "blank_edits", "blank_approvals", "blank_stops", "forget_comments"):
            await connection.run(getattr(QUERIES, blank), identity=identity)
        await connection.run(QUERIES.forget_names, identity=identity, name=name, pattern=_pattern(identity))
        await connection.run(QUERIES.blank_permits, calls=calls)
        if not visitor:
            await connection.run(QUERIES.forget_addresses, identity=identity, name=name)
            await connection.run(QUERIES.revoke_keys, name=name, pseudonym=pseudonym)
            bare = rf"(?<![\w.@+-]){re.escape(name)}(?![\w.@+-]*\w)"
            await connection.run(QUERIES.forget_operator, identity=identity, words=bare, pseudonym=pseudonym)
        await connection.run(QUERIES.forget_unwritten, identity=identity, visitor=visitor)
    gone = await purge_conversations(database, _NO_TIME, [place for _, place in theirs]) if theirs else 0
    async with database.transaction() as connection:
        rows = await connection.run(QUERIES.opened_by, identity=identity, visitor=visitor)
        await _replace(connection, _spellings(identity, pseudonym, [row["said"] for row in words]))
    left = [row["conversation_id"] for row in rows]
    return Erased(pseudonym, gone, left, sum(map(len, gone_by.values())))


async def _is_known(database: Database, identity: str, name: str) -> bool:
    """Tell whether anything names somebody, in any spelling that would be replaced."""
    pattern = "|".join(old for old, _ in _spellings(identity, "", []))
    async with database.single() as connection:
        if await connection.run(QUERIES.bare_names, name=name):
            return True
        for table in metadata.sorted_tables:
            texts = [f'CAST("{each.name}" AS text) ~ :pattern' for each in table.columns if _is_text(each)]
            if table.name in _NAMES_NOBODY or not texts:
                continue
            statement = f'SELECT FROM "{table.schema}"."{table.name}" WHERE {" OR ".join(texts)} LIMIT 1'
            if await connection.run(query("named", statement), pattern=pattern):
                return True
    return False


async def _going_on(database: Database, theirs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the conversations of these in which something goes on or waits."""
    ids = [place for _, place in theirs]
    async with database.transaction() as connection:
        written = {row["conversation_id"] for row in await connection.run(QUERIES.written, ids=ids)}
        idle = await connection.run(QUERIES.idle, after="", only=ids, keep=_NO_TIME, most=len(ids))
    return sorted(written - {row["conversation_id"] for row in idle})


async def erase_asked(database: Database) -> int:
    """Erase everybody whom administrators asked for over HTTP; return how many there were of them.

    One with something open comes again; one whose name nothing has is done, and not counted.
    """
    done = 0
    async with database.single() as connection:
        asked = await connection.run(QUERIES.asked_erasures)
    for row in asked:
        erased = await erase(database, row["who"])
        if not erased.left:
            async with database.single() as connection:
                ended = {"erasure_id": row["erasure_id"], "pseudonym": erased.pseudonym}
                await connection.run(QUERIES.end_erasure, **ended)
            done += bool(erased.pseudonym)
    return done


async def _erase_history(
    connection: Connection, service: str, identity: str, visitor: str, calls: list[str]
) -> Sequence[Any]:
    """Take name, details and salt from rows that name somebody, or have the digest of a result that did.

    What a visitor did in the chat names them bare, as their frontend calls them: rows of their own calls alone.
    Return of each row its `tenant` and `said`, the digest that it keeps.
    """
    statement = f"""
        UPDATE {service}.history AS h
        SET actor = 'erased', salt = NULL, detail = jsonb_build_object('erased', CAST(r.line AS json) ->> 'said')
        FROM read.history AS r
        WHERE r.service = '{service}' AND r.id = h.id AND h.salt IS NOT NULL
            AND NOT (h.machine = 'erasure' AND h.event = 'erased') AND (
            h.actor = :identity OR :visitor <> '' AND h.actor = :visitor AND h.call_id = ANY (:calls::text[])
            OR CAST(h.detail AS text) ~ :pattern
            OR h.event = 'result_came' AND h.call_id = ANY (:calls::text[])
        )
        RETURNING h.tenant, h.detail ->> 'erased' AS said
    """  # noqa: S608
    named = {"identity": identity, "visitor": visitor, "pattern": _pattern(identity), "calls": calls}
    return await connection.run(query(f"erase_{service}", statement), **named)


async def _record_erasure(connection: Connection, pseudonym: str, gone_by: Mapping[str, Sequence[str]]) -> None:
    """Say in each tenant's history which rows were erased, by the digests that they kept: the chain seals it.

    Otherwise whoever has the database could hide who did what by writing a row as an erasure leaves it.
    """
    for tenant, gone in gone_by.items():
        for at in range(0, len(gone), NAMED_AT_ONCE):
            named = json.dumps({"said": gone[at : at + NAMED_AT_ONCE]})
            await connection.run(QUERIES.record_erasure, tenant=tenant, pseudonym=pseudonym, detail=named)


def _spellings(identity: str, pseudonym: str, words: Sequence[str]) -> list[tuple[str, str]]:
    """Return what is to be replaced, as regular expressions, and by what: whom they are, and what they wrote."""
    kind, _, bare = identity.rpartition(":")
    # An author as JSON has them: without prefix.
    found = [(_pattern(identity), f"{kind}:{pseudonym}")]
    found += [(re.escape(f'"id": "{bare}", "kind": "{kind}"'), f'"id": "{pseudonym}", "kind": "{kind}"')]
    for said in sorted(words, key=len, reverse=True):
        once = json.dumps(said, ensure_ascii=False)[1:-1]
        twice = json.dumps(once, ensure_ascii=False)[1:-1]
        found += [(re.escape(each), "[erased]") for each in dict.fromkeys((twice, once, said))]
    return found


async def _replace(connection: Connection, spellings: Sequence[tuple[str, str]]) -> None:
    """Replace texts in every column of every table, also within JSON and lists."""
    for table in metadata.sorted_tables:
        columns = [each.name for each in table.columns if _is_text(each) and (table.name, each.name) != _ASKED]
        if table.name in _NOT_REPLACED or not columns:
            continue
        for at in range(0, len(spellings), SPELLINGS):
            await _replace_in(connection, table, columns, spellings[at : at + SPELLINGS])


async def _replace_in(
    connection: Connection, table: sa.Table, columns: Sequence[str], spellings: Sequence[tuple[str, str]]
) -> None:
    changed = []
    for name in columns:
        text = f'CAST("{name}" AS text)'
        for number in range(len(spellings)):
            text = f"regexp_replace({text}, :old_{number}, :new_{number}, 'g')"
        changed.append(f'"{name}" = CAST({text} AS {table.columns[name].type.compile(_POSTGRES)})')
    wanted = " OR ".join(
        f'CAST("{name}" AS text) ~ :old_{number}' for name in columns for number in range(len(spellings))
    )
    statement = f'UPDATE "{table.schema}"."{table.name}" SET {", ".join(changed)} WHERE {wanted}'  # noqa: S608
    values = {f"old_{number}": old for number, (old, _) in enumerate(spellings)}
    values |= {f"new_{number}": new for number, (_, new) in enumerate(spellings)}
    await connection.run(query("replace", statement), **values)


def _is_text(column: sa.Column[object]) -> bool:
    return column.type.compile(_POSTGRES) in {"TEXT", "VARCHAR", "JSONB", "TEXT[]"} and column.computed is None


def _pattern(identity: str) -> str:
    """Return the regular expression of an identity that is no beginning of a longer one; a sentence may end with it."""
    return f"{re.escape(identity)}(?![A-Za-z0-9._@+-]*[A-Za-z0-9_@+-])"

"""Deletes what is older than it is to be kept: whole conversations, jobs, dead letters, and the history's beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog

from placet.contracts.chain import Checkpoint, read_checkpoint
from placet.contracts.signing import BadSignature, Verifier
from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.rules import RULES
from placet.gateway.audit import store as audit
from placet.runtime.database import Database
from placet.runtime.queries import load_queries, query
from placet.runtime.sql import Connection

log = structlog.get_logger(__name__)

QUERIES = load_queries(__file__)
#: Conversations, jobs or letters of one transaction.
BATCH = 100
#: Blocks of the audit chain that go in one transaction, with their rows.
BLOCKS = 200

#: Tables of a conversation by the column that says which; a table comes before those that it points to.
OF_CONVERSATION: Sequence[tuple[str, str, str]] = (
    ("agent.facts", "conversation_id", "ids"),
    ("agent.staged_entries", "conversation_id", "ids"),
    ("agent.messages", "conversation_id", "ids"),
    ("agent.tool_calls", "conversation_id", "ids"),
    ("agent.steps", "conversation_id", "ids"),
    ("agent.turns", "conversation_id", "ids"),
    ("agent.attempts", "conversation_id", "ids"),
    ("agent.log", "conversation_id", "ids"),
    ("agent.pseudonyms", "conversation_id", "ids"),
    ("agent.conversations", "conversation_id", "ids"),
    ("gateway.conversations", "conversation_id", "ids"),
    ("executor.workspaces", "conversation_id", "ids"),
    ("executor.executions", "call_id", "calls"),
    ("policy.verdicts", "call_id", "calls"),
    ("approval.calls", "call_id", "calls"),
    ("notifier.deliveries", "approval_id", "approvals"),
    ("gateway.link_uses", "approval_id", "approvals"),
    ("gateway.comments", "approval_id", "approvals"),
    ("approval.words", "approval_id", "approvals"),
    ("approval.edits", "approval_id", "approvals"),
    ("approval.decisions", "approval_id", "approvals"),
    ("approval.approvals", "approval_id", "approvals"),
)
#: Tables of a job; the job itself comes last.
OF_JOB = tuple(sorted((table for table, rule in RULES.items() if rule == "job"), key="jobs.jobs".__eq__))


@dataclass(frozen=True, slots=True)
class Keep:
    """How long each kind is kept; None: for ever."""

    conversations: timedelta | None = None
    jobs: timedelta | None = None
    dead_letters: timedelta | None = None
    history: timedelta | None = None


async def purge(database: Database, keep: Keep, verifier: Verifier | None = None) -> dict[str, int]:
    """Delete what is too old, a batch in a transaction; return how much of each kind went.

    No history goes without `verifier`, which knows who has sealed it.
    """
    gone = {}
    if keep.conversations is not None:
        gone["conversations"] = await purge_conversations(database, keep.conversations)
    if keep.jobs is not None:
        gone["jobs"] = await _purge_jobs(database, keep.jobs)
    if keep.dead_letters is not None:
        gone["dead_letters"] = await _repeat(database, "old_letters", keep.dead_letters)
    if keep.history is not None:
        gone["history"] = await _purge_history(database, keep.history, verifier)
    return gone


async def purge_conversations(database: Database, keep: timedelta, only: Sequence[str] | None = None) -> int:
    """Delete conversations, of `only` these, in which nothing has happened for so long and nothing waits; say how many.

    With them go their calls, with verdicts, approvals, votes and executions, and grants that cover nothing any more.
    """
    gone, after = 0, ""
    while True:
        async with database.transaction() as connection:
            rows = await connection.run(
                QUERIES.idle, after=after, only=None if only is None else list(only), keep=keep, most=BATCH
            )
            for tenant in {row["tenant"] for row in rows}:
                await _delete(
                    connection, tenant, [each["conversation_id"] for each in rows if each["tenant"] == tenant]
                )
        gone += len(rows)
        if len(rows) < BATCH:
            break
        after = rows[-1]["conversation_id"]
    async with database.transaction() as connection:
        await connection.run(QUERIES.forget_past)
    if only is None:
        gone += await _repeat(database, "unwritten", keep)
        await _repeat(database, "spent_grants", keep)
    return gone


async def _delete(connection: Connection, tenant: str, ids: Sequence[str]) -> None:
    """Delete conversations of one tenant with all that is about them."""
    calls = [row["call_id"] for row in await connection.run(QUERIES.calls_of, tenant=tenant, ids=ids)]
    approvals = [row["approval_id"] for row in await connection.run(QUERIES.approvals_of, calls=calls)]
    named = {"ids": ids, "calls": calls, "approvals": approvals}
    await connection.run(QUERIES.keep_past, tenant=tenant, calls=calls)
    for table, column, kind in OF_CONVERSATION:
        statement = f"DELETE FROM {table} WHERE {column} = ANY (:given::text[])"  # noqa: S608
        if "tenant" in metadata.tables[table].columns:
            await connection.run(query(table, f"{statement} AND tenant = :tenant"), given=named[kind], tenant=tenant)
        else:
            await connection.run(query(table, statement), given=named[kind])


async def _purge_jobs(database: Database, keep: timedelta) -> int:
    gone = 0
    while True:
        async with database.transaction() as connection:
            ids = [row["job_id"] for row in await connection.run(QUERIES.old_jobs, keep=keep, most=BATCH)]
            for table in OF_JOB:
                statement = f"DELETE FROM {table} WHERE job_id = ANY (:ids::text[])"  # noqa: S608
                await connection.run(query(table, statement), ids=ids)
        gone += len(ids)
        if len(ids) < BATCH:
            return gone


async def _repeat(database: Database, name: str, keep: timedelta) -> int:
    gone = 0
    while True:
        async with database.transaction() as connection:
            rows = await connection.run(getattr(QUERIES, name), keep=keep, most=BATCH)
        gone += len(rows)
        if len(rows) < BATCH:
            return gone


async def _purge_history(database: Database, keep: timedelta, verifier: Verifier | None) -> int:
    """Cut the beginning off each tenant's history: whole blocks, so that the chain verifies from the next one on.

    The newest block that goes keeps its checkpoint, and none of its rows: the next one names it. Anybody with the
    gateway's login can write a checkpoint, so that only one is believed that the house has signed.
    """
    if verifier is None:
        log.warning("retention.kept", kind="history", reason="there are no public keys to verify checkpoints with")
        return 0
    gone = 0
    async with database.single() as connection:
        tenants = await audit.list_tenants(connection)
    for tenant in tenants:
        reached = after = 0
        while (batch := await _cut(database, verifier, tenant, keep, after)) is not None:
            after, proved, rows = batch
            reached, gone = proved or reached, gone + rows
        if after > reached:
            reason = "no public key here verifies these blocks"
            log.warning("retention.kept", kind="history", tenant=tenant, first=reached + 1, last=after, reason=reason)
    return gone


async def _cut(
    database: Database, verifier: Verifier, tenant: str, keep: timedelta, after: int
) -> tuple[int, int, int] | None:
    """Cut off what is old of the blocks behind `after`; None where there is none.

    Returns the last block that was looked at, the last one that was cut off, 0 for none, and how many rows went.
    """
    async with database.transaction() as connection:
        found = await connection.run(QUERIES.old_blocks, tenant=tenant, keep=keep, after=after, most=BLOCKS)
        if not found:
            return None
        last: int = found[-1]["number"]
        block = next((each for row in reversed(found) if (each := _proved(verifier, tenant, row))), None)
        if block is None:
            return last, 0, 0
        rows = 0
        for service in audit.ORDER:
            statement = (
                f"DELETE FROM {service}.history WHERE tenant = :tenant AND id <= :upto"  # noqa: S608 - ours
                " AND at <= clock_timestamp() - :keep::interval RETURNING id"
            )
            upto = int(block.upto.get(service, 0))
            rows += len(await connection.run(query("cut", statement), tenant=tenant, upto=upto, keep=keep))
        await connection.run(QUERIES.forget_blocks, tenant=tenant, number=block.number)
        return last, block.number, rows


def _proved(verifier: Verifier, tenant: str, row: Any) -> Checkpoint | None:
    """Return the block of a checkpoint that the house has signed for this place; how old it is the database says."""
    try:
        block = read_checkpoint(verifier, row["token"])
    except BadSignature:
        return None
    return block if (block.tenant, block.number) == (tenant, row["number"]) else None

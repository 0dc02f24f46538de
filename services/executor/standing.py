"""Whether what a genuine permit let begin may begin now: a staged call at its turn, a lost attempt, a lost commit.

The claim asks the same within its own statement, for all calls that arrived together.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from placet.contracts.messages import COMMIT_TOOL, ToolCall
from placet.contracts.permit import Permit
from placet.domain.conditions import consent_lost
from placet.domain.directory import Directory
from placet.executor import rules
from placet.executor.plans import arguments_of
from placet.executor.rules import Admission
from placet.executor.store import QUERIES, Holder, Wanted
from placet.runtime.sql import Connection


async def why_void(connection: Connection, call: ToolCall, permit: Permit, directory: Directory) -> Admission | None:
    """Return what becomes of a call that is stopped, or whose yes counts no more; None where it may begin.

    A commit is stopped with any entry that it names. When the permit ends is no question here.
    """
    named = arguments_of(call.arguments) if call.tool == COMMIT_TOOL else None
    about = {"tenant": call.tenant, "tool": call.tool, "agent": call.agent, "keys": permit.keys}
    (row,) = await connection.run(QUERIES.void, **about, entries=named.entries if named else [])
    revoked = row["revoked"] or consent_lost(permit, call, directory)
    return rules.void(stop=row["stopped"], revoked=revoked, late=False)


async def take_up(connection: Connection, wanted: Wanted, holder: Holder, moments: Sequence[datetime]) -> bool | None:
    """Take a call that this process has claimed at one of `moments` without hearing so, once; tell whether it is late.

    None where it has not, or where somebody has gone on with it since.
    """
    about = {"call_id": wanted.attempt.call.call_id, "worker": holder.worker, "lease": holder.lease}
    rows = await connection.run(QUERIES.take_up, **about, begun_at=wanted.attempt.begun_at, moments=moments)
    return rows[0]["late"] if rows else None

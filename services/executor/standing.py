"""Whether what a genuine permit let begin may begin now: a staged call at its turn, a lost attempt, a commit's changes.

The claim asks the same within its own statement, for all calls that arrived together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from placet.contracts.errors import SecurityAlert
from placet.contracts.messages import COMMIT_TOOL, ToolCall
from placet.contracts.permit import NOTHING_RAN, Permit, verify_permit
from placet.contracts.signing import Verifier
from placet.domain.conditions import consent_lost
from placet.domain.directory import Directory
from placet.executor import rules, store
from placet.executor.plans import arguments_of
from placet.executor.rules import Admission
from placet.executor.store import QUERIES, Attempt, Holder, Wanted
from placet.runtime.database import Database
from placet.runtime.sql import Connection

#: How long ago the question may have been sent whose answer lets an attempt begin, in seconds: more than a claim takes
#: under load, and less than anybody needs to place a stop and to rely on it.
FRESH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Standing:
    """What tells of an attempt that is under way whether it may still begin."""

    verifier: Verifier
    directory: Callable[[], Directory]
    holder: Holder
    monotonic: Callable[[], float] = time.monotonic

    def permit_of(self, attempt: Attempt) -> Permit:
        """Return the permit of an attempt; raise SecurityAlert where it is not of its call."""
        modes = (attempt.mode,)
        return verify_permit(self.verifier, attempt.permit, attempt.call, pool=attempt.pool, modes=modes)

    async def why_refused(self, connection: Connection, call: ToolCall, permit: Permit) -> Admission | None:
        """Return what becomes of a call that is stopped, or whose yes counts no more; None where it may begin.

        A commit is stopped with any entry that it names. When the permit ends is no question here.
        """
        named = arguments_of(call.arguments) if call.tool == COMMIT_TOOL else None
        about = {"tenant": call.tenant, "tool": call.tool, "agent": call.agent, "keys": permit.keys}
        (row,) = await connection.run(QUERIES.void, **about, entries=named.entries if named else [])
        revoked = row["revoked"] or consent_lost(permit, call, self.directory())
        return rules.void(stop=row["stopped"], revoked=revoked, late=False)

    async def why_void(self, connection: Connection, attempt: Attempt) -> Admission | None:
        """Return why an attempt may not begin; None where it may, and where its permit is not of its call."""
        with suppress(SecurityAlert):
            return await self.why_refused(connection, attempt.call, self.permit_of(attempt))
        return None

    async def why_unmade(self, connection: Connection, attempt: Attempt) -> str:
        """Return why nothing of a commit may be made, half a sentence; empty where it may."""
        return half_sentence(await self.why_void(connection, attempt))

    def is_late(self, attempt: Attempt) -> bool:
        """Tell whether what let an attempt begin was asked so long ago that it says nothing of now."""
        return self.monotonic() - attempt.asked_at > FRESH_SECONDS

    async def ask_again(self, database: Database, attempt: Attempt) -> tuple[Attempt, Admission | None] | None:
        """Ask until an answer is not late itself; return the attempt as of then, and why it may not begin.

        None where it is not ours any more.
        """
        void = None
        while self.is_late(attempt):
            async with database.single() as connection:
                attempt = replace(attempt, asked_at=self.monotonic())
                if not await store.renew(connection, attempt, self.holder):
                    return None
                void = await self.why_void(connection, attempt)
        return attempt, void


def half_sentence(void: Admission | None) -> str:
    """Return why nothing of a commit may be made; empty where it may."""
    return void.reason.removeprefix(NOTHING_RAN).removesuffix(".") if void else ""


async def take_up(connection: Connection, wanted: Wanted, holder: Holder, moments: Sequence[datetime]) -> bool | None:
    """Take a call that this process has claimed at one of `moments` without hearing so, once; tell whether it is late.

    None where it has not, or where somebody has gone on with it since.
    """
    about = {"call_id": wanted.attempt.call.call_id, "worker": holder.worker, "lease": holder.lease}
    rows = await connection.run(QUERIES.take_up, **about, begun_at=wanted.attempt.begun_at, moments=moments)
    return rows[0]["late"] if rows else None

"""What is left after the storm: the ledger of the tools and the rows, held against each other."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from placet.cli import invariants
from placet.contracts.topology import SERVICES
from tests.chaos.model import DENIED, FORBIDDEN

#: Everything has come to its end when each of these counts nothing.
_OPEN: Mapping[str, str] = {
    "turns": "agent.turns WHERE ended_at IS NULL",
    "calls": "agent.tool_calls WHERE state <> 'answered'",
    "approvals": "approval.approvals WHERE state = 'pending'",
    "executions": "executor.executions WHERE lease_until IS NOT NULL OR state = 'committing'",
    **{f"outbox of {name}": f"{name}.outbox" for name in SERVICES},
}
_COUNTED = " UNION ALL ".join(f"SELECT '{what}', count(*) FROM {rows}" for what, rows in _OPEN.items())  # noqa: S608 - our own
#: After everything has ended, this is time enough for what follows of it.
_SETTLED_SECONDS = 1.0


def still_open(url: str) -> Mapping[str, int]:
    """Return how much of what has not come to its end."""
    try:
        with psycopg.connect(url) as connection:
            return {what: count for what, count in connection.execute(_COUNTED.encode()).fetchall() if count}
    except psycopg.OperationalError:
        return {"database that does not answer": 1}


@dataclass(frozen=True)
class Verdict:
    """The numbers of a storm; the first four, and what is broken, must be nothing."""

    #: Messages that were accepted and that the agent never got.
    lost: int
    #: Calls of tools that are not safe to repeat that began twice, and any attempt that began twice.
    doubled: int
    #: Calls that began without a permit, or that people or a rule had refused.
    unauthorised: int
    #: Calls without an answer, and turns without an end.
    unanswered: int
    calls: int
    results: Mapping[str, int]
    #: Why messages were given up, with what and how often.
    dead_letters: Mapping[str, int]
    broken: Mapping[str, Sequence[invariants.Violation] | None]

    @property
    def good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.doubled or self.unauthorised or self.unanswered or self.broken)


def judged(url: str, ledger: Path, accepted: Sequence[str]) -> Verdict:
    """Return the numbers, once nothing is under way."""
    with psycopg.connect(url) as connection:

        def rows(query: str, *values: Any) -> list[tuple[Any, ...]]:
            return connection.execute(query.encode(), values).fetchall()

        known = {row[0] for row in rows("SELECT message_id FROM agent.messages")}
        calls = rows("SELECT call_id, tool, arguments, result_kind FROM agent.tool_calls")
        permitted = {row[0]: row[1] for row in rows("SELECT call_id, idempotent FROM executor.executions")}
        letters = rows(
            "SELECT queue || ' ' || message_type || ': ' || reason, count(*) FROM dead_letters.dead_letters GROUP BY 1"
        )
        (turns,) = rows("SELECT count(*) FROM agent.turns WHERE ended_at IS NULL")
    lines = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    begins = [line for line in lines if line["what"] == "begin"]
    often = Counter(line["call"] for line in begins)
    attempts = Counter((line["call"], line["fence"]) for line in begins)
    refused = {call for call, _, arguments, _ in calls if DENIED in arguments or FORBIDDEN in arguments}
    found = invariants.check(url, settled_after_seconds=_SETTLED_SECONDS)
    return Verdict(
        lost=len(set(accepted) - known),
        doubled=sum(count > 1 and not permitted.get(call, False) for call, count in often.items())
        + sum(count > 1 for count in attempts.values()),
        unauthorised=len(often.keys() - permitted.keys()) + len(often.keys() & refused),
        unanswered=sum(kind is None for *_, kind in calls) + turns[0],
        calls=len(calls),
        results=Counter(str(kind) for *_, kind in calls),
        dead_letters=dict(letters),
        broken={invariant.name: broken for invariant, broken in found.items() if broken != []},
    )

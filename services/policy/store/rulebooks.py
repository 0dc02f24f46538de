"""SQL around rulebooks: which one was active since when, and what was judged in the past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from difflib import unified_diff
from typing import Literal

import sqlalchemy as sa

from placet.contracts.ids import new_id
from placet.contracts.messages import ApprovalRule
from placet.policy.rules import Effect
from placet.policy.rules.call import COLUMNS, facts_from
from placet.policy.rules.simulate import Past
from placet.policy.tables import ActivationRow, VerdictRow
from placet.runtime.database import Database, table_of
from placet.runtime.work import Work

ACTIVATIONS = table_of(ActivationRow)
VERDICTS = table_of(VerdictRow)

#: What can take over.
Kind = Literal["rulebook", "directory"]
#: Past proposals read at once.
PAGE = 500
_TIME = sa.TIMESTAMP(timezone=True)
#: One activation at a time, whichever replica it is: "Rulebook" in ASCII.
_LOCK = sa.select(sa.func.pg_advisory_xact_lock(0x52756C65626F6F6B))
_NEWEST = (
    sa.select(ACTIVATIONS.c.digest, ACTIVATIONS.c.source)
    .where(ACTIVATIONS.c.kind == sa.bindparam("kind", type_=sa.Text))
    .order_by(ACTIVATIONS.c.activated_at.desc())
    .limit(1)
)
_ADD = sa.insert(ACTIVATIONS)


def _past() -> sa.Select[tuple[str, str, str, str, str | None, object]]:
    c = VERDICTS.c
    since = sa.bindparam("now", type_=_TIME) - sa.bindparam("since", type_=sa.Interval)
    place = sa.tuple_(sa.bindparam("at", type_=_TIME), sa.bindparam("id", type_=sa.Text))
    return (
        sa.select(c.verdict_id, c.facts, c.effect, c.rule, c.approval, c.judged_at, *(c[name] for name in COLUMNS))
        .where(c.tenant == sa.bindparam("tenant"), c.judged_at > since, c.facts.is_not(None))
        .where(sa.tuple_(c.judged_at, c.verdict_id) < place)
        .order_by(c.judged_at.desc(), c.verdict_id.desc())
        .limit(PAGE)
    )


_PAST = _past()
#: After every id that there is.
_LAST = "~"


async def add_activation(work: Work, *, digest: str, source: str, by: str, kind: Kind = "rulebook") -> bool:
    """Note that a rulebook or a directory took over; False where it is the newest already.

    So it is for every replica but the first.
    """
    await work.connection.execute(_LOCK)
    newest = (await work.connection.execute(_NEWEST, {"kind": kind})).first()
    if newest is not None and newest.digest == digest:
        return False
    values = {
        "activation_id": new_id(),
        "kind": kind,
        "digest": digest,
        "activated_by": by,
        # Not the transaction's beginning: another replica may have held the lock since.
        "activated_at": await work.clock(),
        "source": source,
        "diff": await asyncio.to_thread(_diff, newest.source if newest else "", source),
    }
    await work.connection.execute(_ADD, values)
    return True


def _diff(before: str, after: str) -> str:
    lines = unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return "\n".join(lines)


async def past_proposals(
    database: Database, tenant: str, now: datetime, since: timedelta
) -> AsyncIterator[Sequence[Past]]:
    """Yield a tenant's judged calls, the newest first, PAGE at a time; between two pages no connection is held."""
    at, after = now + timedelta(days=1), _LAST
    while True:
        values = {"tenant": tenant, "now": now, "since": since, "at": at, "id": after}
        async with database.single() as connection:
            rows = (await connection.execute(_PAST, values)).mappings().all()
        if rows:
            yield [
                Past(
                    facts_from(row["facts"], dict(row)),
                    Effect(row["effect"]),
                    row["rule"],
                    ApprovalRule.model_validate_json(row["approval"]) if row["approval"] else None,
                    row["judged_at"],
                )
                for row in rows
            ]
        if len(rows) < PAGE:
            return
        at, after = rows[-1]["judged_at"], rows[-1]["verdict_id"]

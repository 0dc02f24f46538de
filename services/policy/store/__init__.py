"""All SQL of policy: verdicts here, `limits`, `grants` and `rulebooks` beside it.

Statements are built once: building one costs more than running it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.policy.rules import Verdict
from services.policy.rules.history import COUNTERS
from services.policy.tables import VerdictRow
from shared.database import table_of
from shared.messages import AbandonCall, ApprovalRule, ToolCall
from shared.sql import records
from shared.work import Work

VERDICTS = table_of(VerdictRow)

_COLUMNS = tuple(column.name for column in VERDICTS.c)


def _add_statement() -> sa.Executable:
    """Store verdicts on calls that have none, in the order of their ids: nobody locks another one out."""
    given = records("given", {name: VERDICTS.c[name].type for name in _COLUMNS})
    chosen = sa.select(*(given.c[name] for name in _COLUMNS)).order_by(given.c.call_id)
    added = pg.insert(VERDICTS).from_select(list(_COLUMNS), chosen)
    return added.on_conflict_do_nothing(index_elements=["call_id"]).returning(VERDICTS.c.call_id)


_ADD = _add_statement()
_APPROVAL = sa.select(VERDICTS.c.approval).where(
    VERDICTS.c.tenant == sa.bindparam("tenant"), VERDICTS.c.call_id == sa.bindparam("call_id")
)
_DIGEST = sa.select(VERDICTS.c.digest).where(VERDICTS.c.call_id == sa.bindparam("call_id"))
_CHANGE = (
    sa.update(VERDICTS)
    .where(VERDICTS.c.verdict_id == sa.bindparam("changing"))
    .values({name: sa.bindparam(name) for name in ("effect", "rule", "reason", "model_reason", "approval")})
)


def _earlier_calls(shared: str, window: timedelta) -> sa.ScalarSelect[int]:
    since = sa.bindparam("now", type_=sa.TIMESTAMP(timezone=True)) - sa.literal(window, sa.Interval)
    same = [VERDICTS.c[name] == sa.bindparam(name) for name in ("tenant", "tool", shared)]
    same.append(VERDICTS.c.call_id != sa.bindparam("call_id"))
    return sa.select(sa.func.count()).where(*same, VERDICTS.c.judged_at > since).scalar_subquery()


_HISTORY = sa.select(*(_earlier_calls(*each) for each in COUNTERS.values()))


@dataclass(frozen=True, slots=True)
class Entry:
    """A verdict to be stored."""

    verdict_id: str
    call: ToolCall | AbandonCall
    verdict: Verdict
    #: The text that `kept` makes of the call; None for a call that nobody has seen.
    facts: str | None = None


async def add_verdicts(work: Work, entries: Sequence[Entry]) -> set[str]:
    """Store verdicts; return the ids of the calls that had none. A second proposal waits for the first one's commit.

    No two may be of one call.
    """
    found = await work.connection.execute(_ADD, {"given": [_row(each, work.now) for each in entries]})
    return set(found.scalars())


def _row(entry: Entry, judged_at: datetime) -> dict[str, str | None]:
    call = entry.call
    return {
        "verdict_id": entry.verdict_id,
        "call_id": call.call_id,
        "tenant": call.tenant,
        "conversation_id": call.conversation_id,
        "requester": call.requester if isinstance(call, ToolCall) else "",
        "tool": call.tool,
        "digest": call.digest,
        "schema_digest": call.schema_digest,
        "rulebook_digest": entry.verdict.rulebook_digest,
        "judged_at": judged_at.isoformat(),
        "facts": entry.facts,
        **_answer(entry.verdict),
    }


async def change_verdict(work: Work, verdict_id: str, verdict: Verdict) -> None:
    """Change a verdict that this transaction has stored: a limit had no room, or a grant covers the call."""
    await work.connection.execute(_CHANGE, {"changing": verdict_id, **_answer(verdict)})


async def load_history(work: Work, call: ToolCall) -> dict[str, int]:
    """Return how many calls of this tool were judged lately, for conditions; `call` itself is not among them.

    What is judged at the same moment elsewhere is not seen: limits are exact, these counters are not.
    """
    values = {name: getattr(call, name) for name in ("tenant", "conversation_id", "requester", "tool", "call_id")}
    row = (await work.connection.execute(_HISTORY, {**values, "now": work.now})).one()
    return dict(zip(COUNTERS, row, strict=True))


def _answer(verdict: Verdict) -> dict[str, str | None]:
    given: dict[str, str | None] = {
        name: getattr(verdict, name) for name in ("effect", "rule", "reason", "model_reason")
    }
    return given | {"approval": verdict.approval.model_dump_json() if verdict.approval else None}


async def load_approval(work: Work, tenant: str, call_id: str) -> ApprovalRule | None:
    """Return whom policy had asked about a held call; None where it asked nobody or does not know any more."""
    text = (await work.connection.execute(_APPROVAL, {"tenant": tenant, "call_id": call_id})).scalar_one_or_none()
    return ApprovalRule.model_validate_json(text) if text else None


async def load_digest(work: Work, call_id: str) -> str:
    """Return the digest of a call that has a verdict."""
    digest: str = (await work.connection.execute(_DIGEST, {"call_id": call_id})).scalar_one()
    return digest

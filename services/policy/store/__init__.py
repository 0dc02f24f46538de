"""All SQL of policy: verdicts here, `limits`, `grants` and `rulebooks` beside it.

Statements are built once: building one costs more than running it.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.policy.history import COUNTERS
from services.policy.rules import Verdict
from services.policy.tables import VerdictRow
from shared.database import table_of
from shared.messages import ToolCall
from shared.work import Work

VERDICTS = table_of(VerdictRow)

_ADD = pg.insert(VERDICTS).on_conflict_do_nothing(index_elements=["call_id"]).returning(VERDICTS.c.verdict_id)
_DIGEST = sa.select(VERDICTS.c.digest).where(VERDICTS.c.call_id == sa.bindparam("call_id"))
_CHANGE = (
    sa.update(VERDICTS)
    .where(VERDICTS.c.verdict_id == sa.bindparam("changing"))
    .values({name: sa.bindparam(name) for name in ("effect", "rule", "reason", "model_reason", "approval")})
)


def _earlier_calls(shared: str, window: timedelta) -> sa.ScalarSelect[int]:
    since = sa.bindparam("now", type_=sa.TIMESTAMP(timezone=True)) - sa.literal(window, sa.Interval)
    same = [VERDICTS.c[name] == sa.bindparam(name) for name in ("tenant", "tool", shared)]
    return sa.select(sa.func.count()).where(*same, VERDICTS.c.judged_at > since).scalar_subquery()


_HISTORY = sa.select(*(_earlier_calls(*each) for each in COUNTERS.values()))


async def add_verdict(work: Work, verdict_id: str, call: ToolCall, verdict: Verdict, facts: str) -> bool:
    """Store a verdict; False where the call has one already. A second proposal waits for the first one's commit.

    `facts` is the text that `kept` makes of the call.
    """
    values = {
        "verdict_id": verdict_id,
        "call_id": call.call_id,
        "tenant": call.tenant,
        "conversation_id": call.conversation_id,
        "requester": call.requester,
        "tool": call.tool,
        "digest": call.digest,
        "schema_digest": call.schema_digest,
        "rulebook_digest": verdict.rulebook_digest,
        "judged_at": work.now,
        "facts": facts,
        **_answer(verdict),
    }
    return (await work.connection.execute(_ADD, values)).first() is not None


async def change_verdict(work: Work, verdict_id: str, verdict: Verdict) -> None:
    """Change a verdict that this transaction has stored: a limit had no room, or a grant covers the call."""
    await work.connection.execute(_CHANGE, {"changing": verdict_id, **_answer(verdict)})


async def load_history(work: Work, call: ToolCall) -> dict[str, int]:
    """Return how many calls of this tool were judged lately, for conditions; `call` itself is not among them.

    What is judged at the same moment elsewhere is not seen: limits are exact, these counters are not.
    """
    values = {name: getattr(call, name) for name in ("tenant", "conversation_id", "requester", "tool")}
    row = (await work.connection.execute(_HISTORY, {**values, "now": work.now})).one()
    return dict(zip(COUNTERS, row, strict=True))


def _answer(verdict: Verdict) -> dict[str, str | None]:
    given: dict[str, str | None] = {
        name: getattr(verdict, name) for name in ("effect", "rule", "reason", "model_reason")
    }
    return given | {"approval": verdict.approval.model_dump_json() if verdict.approval else None}


async def load_digest(work: Work, call_id: str) -> str:
    """Return the digest of a call that has a verdict."""
    digest: str = (await work.connection.execute(_DIGEST, {"call_id": call_id})).scalar_one()
    return digest

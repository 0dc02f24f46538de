"""All SQL of policy. Statements are built once: building one costs more than running it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.policy.rules import Verdict
from services.policy.tables import VerdictRow
from shared.database import table_of
from shared.messages import ToolCall
from shared.work import Work

VERDICTS = table_of(VerdictRow)

_ADD = pg.insert(VERDICTS).on_conflict_do_nothing(index_elements=["call_id"]).returning(VERDICTS.c.verdict_id)
_DIGEST = sa.select(VERDICTS.c.digest).where(VERDICTS.c.call_id == sa.bindparam("call_id"))


async def add_verdict(work: Work, verdict_id: str, call: ToolCall, verdict: Verdict) -> bool:
    """Store a verdict; False where the call has one already. A second proposal waits for the first one's commit."""
    values = {
        "verdict_id": verdict_id,
        "call_id": call.call_id,
        "tenant": call.tenant,
        "conversation_id": call.conversation_id,
        "tool": call.tool,
        "digest": call.digest,
        "schema_digest": call.schema_digest,
        "effect": verdict.effect,
        "rule": verdict.rule,
        "reason": verdict.reason,
        "model_reason": verdict.model_reason,
        "rulebook_digest": verdict.rulebook_digest,
        "judged_at": work.now,
    }
    return (await work.connection.execute(_ADD, values)).first() is not None


async def load_digest(work: Work, call_id: str) -> str:
    """Return the digest of a call that has a verdict."""
    digest: str = (await work.connection.execute(_DIGEST, {"call_id": call_id})).scalar_one()
    return digest

"""SQL of budgets: what models read and wrote, summed from the stored steps.

Sums and no counters: nothing that turns write at the same moment is shared, so no turn waits for another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from services.agent.budgets import Scope, Used
from services.agent.store.statements import CONVERSATIONS, STEPS, given
from shared.sql import Connection


async def load_used(
    connection: Connection, scopes: Iterable[Scope], *, tenant: str, agent: str, conversation_id: str
) -> Mapping[Scope, Sequence[Used]]:
    """Return what was used of each model: of the conversation ever, of the agent and the tenant since midnight UTC."""
    found: dict[Scope, Sequence[Used]] = {}
    values = {"b_tenant": tenant, "b_agent": agent, "b_conversation_id": conversation_id}
    for scope in set(scopes):
        found[scope] = [Used(*row) for row in await connection.execute(_STATEMENTS[scope], values)]
    return found


def _sums() -> sa.Select[Any]:
    read, written = sa.func.sum(STEPS.c.input_tokens), sa.func.sum(STEPS.c.output_tokens)
    return sa.select(STEPS.c.model, read, written).group_by(STEPS.c.model)


def _today() -> sa.Select[Any]:
    midnight = sa.func.date_trunc("day", sa.func.clock_timestamp(), "UTC")
    return _sums().where(STEPS.c.tenant == given("tenant"), STEPS.c.said_at >= sa.select(midnight).scalar_subquery())


def _of_agent() -> sa.Select[Any]:
    same = CONVERSATIONS.c.conversation_id == STEPS.c.conversation_id
    return _today().join(CONVERSATIONS, same).where(CONVERSATIONS.c.agent == given("agent"))


_STATEMENTS: Mapping[Scope, sa.Select[Any]] = {
    "conversation": _sums().where(STEPS.c.conversation_id == given("conversation_id")),
    "agent": _of_agent(),
    "tenant": _today(),
}

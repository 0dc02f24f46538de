"""Where calls stand that people were asked about or that run now, as approval and executor tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from services.gateway.store.read import APPROVALS, EXECUTIONS
from shared.sql import Connection

#: States of an execution that somebody works on.
_AT_WORK = frozenset({"running", "verifying"})


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a call besides what the agent knows."""

    #: Empty where nobody was asked.
    approval_id: str = ""
    #: State of the approval, empty likewise.
    approval: str = ""
    #: State of the execution; empty where no executor took the call.
    execution: str = ""

    @property
    def status(self) -> str:
        """The status of a call that has no result: proposed, pending_confirmation, decided or executing."""
        if self.execution in _AT_WORK:
            return "executing"
        if self.approval == "pending":
            return "pending_confirmation"
        return "decided" if self.approval else "proposed"


#: Of a call that nobody was asked about and no executor took.
UNKNOWN = Standing()


def _statement() -> sa.Select[Any]:
    wanted = sa.func.unnest(sa.bindparam("call_ids", type_=pg.ARRAY(pg.TEXT))).table_valued("call_id", name="wanted")
    tenant: sa.BindParameter[str] = sa.bindparam("tenant")
    a, e = APPROVALS.c, EXECUTIONS.c
    known = wanted.render_derived()
    asked = known.outerjoin(APPROVALS, sa.and_(a.call_id == known.c.call_id, a.tenant == tenant))
    taken = asked.outerjoin(EXECUTIONS, sa.and_(e.call_id == known.c.call_id, e.tenant == tenant))
    columns = (known.c.call_id, a.approval_id, a.state.label("approval"), e.state.label("execution"))
    return sa.select(*columns).select_from(taken)


_LOAD = _statement()


async def load_standings(connection: Connection, tenant: str, call_ids: Collection[str]) -> Mapping[str, Standing]:
    """Return how calls stand, by their ids."""
    rows = await connection.execute(_LOAD, {"tenant": tenant, "call_ids": list(call_ids)})
    return {row.call_id: Standing(row.approval_id or "", row.approval or "", row.execution or "") for row in rows}

"""Who may have asked for calls beside their requesters, read from others' views when their cards are drawn first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placet.contracts.messages import ApprovalOpened
from placet.runtime.queries import load_queries
from placet.runtime.work import Work
from placet.surfaces.plan import is_commit

QUERIES = load_queries(__file__, "askers.sql")


async def load_askers(work: Work, opened: Sequence[ApprovalOpened]) -> Mapping[str, str]:
    """Return by approval id who may have asked, separated by spaces; no statement where four eyes exclude no asker."""
    wanted = [each for each in opened if "requester" in each.approval.exclude]
    if not wanted:
        return {}
    rows = await work.run(
        QUERIES.list_askers,
        approval_ids=[each.approval_id for each in wanted],
        tenants=[each.tenant for each in wanted],
        conversation_ids=[each.call.conversation_id for each in wanted],
        requesters=[each.call.requester for each in wanted],
        committed=[each.call.shown_arguments if is_commit(each.call.tool) else "" for each in wanted],
    )
    found: dict[str, str] = {}
    for row in rows:
        found[row["approval_id"]] = f"{found.get(row['approval_id'], '')} {row['people'] or ''}".strip()
    return found

"""Leaving entries of a commit out: an edit whose arguments are made here, from what the person does not want."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from placet.contracts.errors import Refused
from placet.domain.catalog import Catalog
from placet.gateway.approvals.decisions import Ask, Decisions
from placet.gateway.approvals.forms import DecisionIn
from placet.gateway.identity.auth import Caller
from placet.gateway.store import reading
from placet.gateway.store.read import Row
from placet.gateway.workspaces.plans import leaving_out, plans_of
from placet.runtime.database import Database


async def ask_of(database: Database, decisions: Decisions, caller: Caller, approval_id: str, wish: DecisionIn) -> Ask:
    """Return what a person wants done, with the arguments that leaving entries out comes to.

    Raise Refused: 400 where that cannot be done, 404 where there is no such approval.
    """
    ask = wish.ask()
    if not wish.leave_out:
        return ask
    row = await decisions.find(caller, approval_id)
    arguments, _ = await arguments_without(database, row, wish.digest, wish.leave_out)
    return replace(ask, arguments=arguments)


async def arguments_without(
    database: Database, row: Row, digest: str, wanted: Collection[str]
) -> tuple[str, frozenset[str]]:
    """Return a commit's arguments without some entries, and all that is left out with them; raise Refused (400).

    None about a card that is over or is not the one of this digest, which is refused: people and clients repeat their
    answers, and what is left out already is none of the commit any more.
    """
    if row["state"] != "pending" or row["digest"] != digest:
        return "", frozenset(wanted)
    async with reading(database) as connection:
        plan = (await plans_of(connection, [row], Catalog([]))).get(row["approval_id"])
    if plan is None:
        detail = "Only of commit_changes can entries be left out."
        raise Refused("This call has no entries.", status=400, kind="no-such-entry", detail=detail)
    return leaving_out(plan, plan.workspace_id, wanted)

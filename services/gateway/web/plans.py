"""Plans of commits on the pages: one diff or one call at a time, and what a form means that leaves entries out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import HTMLResponse
from starlette.datastructures import FormData

from placet.domain.cut_diff import not_shown
from placet.gateway.approvals.decisions import Ask
from placet.gateway.approvals.leaving_out import arguments_without
from placet.gateway.conversations.access import check_for
from placet.gateway.http.callers import DepsOf, PathId
from placet.gateway.http.deps import Deps
from placet.gateway.store import reading
from placet.gateway.store.read import Row
from placet.gateway.web.render import PageRoute, SignedIn, render
from placet.gateway.workspaces.routes import diffs_of, no_change
from placet.gateway.workspaces.store import load_entry_arguments
from placet.surfaces.plan import diff_lines, is_commit
from placet.surfaces.texts import text

router = APIRouter(prefix="/ui/conversations", include_in_schema=False, route_class=PageRoute)

Ordinal = Annotated[int, Path(ge=0, le=10_000)]


class MoreIsLeftOut(Exception):
    """Entries that a form leaves out take others with them, which their person has not seen: `entries` are all."""

    def __init__(self, entries: frozenset[str], asked: int) -> None:
        super().__init__("more entries would be left out")
        self.entries = entries
        self.more = len(entries) - asked

    def said(self, language: str) -> str:
        """Return what the person is told."""
        words = (
            "What touches the same would be left out too and is marked now (entries: {count}). Nothing was decided: "
            "look again, and approve what is left."
        )
        return text(language, words, count=self.more)


def left_in(form: FormData) -> frozenset[str]:
    """Return the entries that a form leaves out."""
    return frozenset(str(each) for each in form.getlist("leave"))


async def without_left_out(deps: Deps, row: Row, left: frozenset[str], ask: Ask) -> Ask:
    """Return an approval of a commit as its form means it: an edit, where entries are left out.

    Raise MoreIsLeftOut where that takes others with it, and Refused where nothing would be left.
    """
    if not left or ask.verb != "approve" or not is_commit(row["tool"]):
        return ask
    arguments, gone = await arguments_without(deps.runtime.database, row, ask.digest, left)
    if gone != left:
        raise MoreIsLeftOut(gone, len(left))
    return replace(ask, verb="edit", arguments=arguments, grant=None)


@router.get("/{conversation_id}/entries/{call_id}/arguments")
async def arguments(deps: DepsOf, caller: SignedIn, conversation_id: PathId, call_id: PathId) -> HTMLResponse:
    """Show all arguments of one staged call, as JSON: a card draws the first of very many."""
    async with reading(deps.runtime.database) as connection:
        await check_for(connection, caller, conversation_id)
        found = await load_entry_arguments(connection, caller.tenant, conversation_id, call_id)
    if found is None:
        raise no_change()
    return render("all_arguments.html", caller=caller, arguments=found)


@router.get("/{conversation_id}/entries/{call_id}/{ordinal}")
async def diff(
    deps: DepsOf, caller: SignedIn, conversation_id: PathId, call_id: PathId, ordinal: Ordinal
) -> HTMLResponse:
    """Show one diff of one staged entry."""
    found = await diffs_of(deps, caller, conversation_id, call_id)
    change = next((row for row in found if row["ordinal"] == ordinal), None)
    if change is None:
        raise no_change()
    shown = {"lines": diff_lines(change["diff"]), "cut": change["cut"], "more": not_shown(change)}
    return render("diff.html", caller=caller, change=change, **shown)

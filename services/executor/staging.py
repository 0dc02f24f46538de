"""Puts calls into their conversation's workspace: what a pack would change, or the call itself. Nothing else is done.

A pack plans outside of any transaction, by what really stands and what waits; where something it planned from has been
staged anew meanwhile, it plans again. So calls of one conversation may be staged at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import structlog

from placet.contracts.canonical import parse_arguments
from placet.domain.catalog import ToolSpec, render_summary
from placet.executor import rules, workspace_store
from placet.executor.plans import STAGED_CALL_NOTE, STAGED_NOTE
from placet.executor.redaction import redact_text
from placet.executor.rules import Outcome
from placet.executor.states import Event
from placet.executor.store import Attempt
from placet.executor.workspace_store import Bounds, ConversationWorkspace, Full, Moved, Placed, Planned
from placet.runtime.work import UnitOfWork
from placet.tools import Change, Described, ToolContext, ToolError
from placet.tools.registry import CRASHED, LoadedTool
from placet.tools.replies import checked_text

log = structlog.get_logger(__name__)

#: Times that a call is planned anew because others of its conversation were staged meanwhile.
PLANS_MAX = 10


class Stager:
    """Stages the calls of one executor process."""

    def __init__(
        self, units: UnitOfWork, tools: Mapping[str, LoadedTool], specs: Mapping[str, ToolSpec], bounds: Bounds
    ) -> None:
        self._units = units
        self._tools = tools
        self._specs = specs
        self.bounds = bounds

    async def stage(self, attempt: Attempt, context: ToolContext) -> Outcome:
        """Put a call into its workspace, once however often it is tried; what cannot be staged has failed."""
        arguments = parse_arguments(attempt.call.arguments)
        if attempt.is_repeated:
            async with self._units.database.single() as connection:
                if placed := await workspace_store.find_placed(connection, attempt):
                    return _told(placed)
        for _ in range(PLANS_MAX):
            try:
                planned = await self._plan(attempt, arguments, context)
                async with self._units.begin(attempt.cause) as work:
                    placed = await workspace_store.put(work, attempt, planned, self.bounds)
            except Moved as moved:
                log.info("stage.again", call_id=attempt.call.call_id, key=str(moved))
            except Full as full:
                text = f"The workspace is full: {full}. Propose what is in it first."
                return rules.not_staged(text)
            except ToolError as error:
                if error.code == CRASHED:
                    return rules.not_staged("The tool broke off with an internal error.")
                return Outcome(Event.FAILED, error.data, error.text, code=error.code)
            else:
                return _told(placed)
        return rules.not_staged("Other calls keep changing the same.")

    async def _plan(self, attempt: Attempt, arguments: Mapping[str, Any], context: ToolContext) -> Planned:
        tool, spec = self._tools[attempt.call.tool], self._specs[attempt.call.tool]
        if tool.staging is None:
            summary = render_summary(spec, dict(arguments), attempt.call.language)
            return Planned("call", "", summary)
        changes = await tool.plan(arguments, context)
        told = [await self._describe(tool, attempt, change, context) for change in changes]
        summary = checked_text("; ".join(each.summary for each in told))
        pack = tool.staging.name
        return Planned("change", pack, summary, tuple(zip(changes, told, strict=True)), _seen(pack, context))

    async def _describe(self, tool: LoadedTool, attempt: Attempt, change: Change, context: ToolContext) -> Described:
        """Return a change as people may see it."""
        found = await tool.describe(change, context)
        return replace(
            found, summary=redact_text(attempt.call, found.summary), diff=redact_text(attempt.call, found.diff)
        )


def _seen(pack: str, context: ToolContext) -> Collection[str]:
    """Return the keys under which a pack's plan found something waiting."""
    workspace = context.workspace
    seen = workspace.seen if isinstance(workspace, ConversationWorkspace) else ()
    return {key for name, key in seen if name == pack}


def _told(placed: Placed) -> Outcome:
    staged = placed.staged
    state = {"workspace_id": staged.workspace_id, "entries": placed.entries, "bytes": placed.bytes}
    note = STAGED_NOTE if staged.kind == "change" else STAGED_CALL_NOTE
    return Outcome(Event.STAGED, {"summary": staged.summary, "workspace": state, "note": note}, staged=staged)

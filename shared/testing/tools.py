"""Call tools as an executor does, without one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from placet.contracts.ids import new_id
from placet.domain.catalog import ToolSpec, load_catalog, validate_arguments
from placet.testing.workspaces import TestedWorkspace
from placet.tools import Described, Finding, PackSettings, Staging, ToolContext, ToolError, ToolReply
from placet.tools.registry import LoadedTool, load_tools, modules_of
from placet.tools.resources import open_tool_resources

#: Time that a call has by default, in seconds.
_DEADLINE_SECONDS = 60.0


def tool_context(**fields: Any) -> ToolContext:
    """Return the context of a call of its own; `fields` stand in place of the defaults."""
    call_id = new_id()
    context = ToolContext(
        tenant="default",
        conversation_id="conversation-1",
        call_id=call_id,
        idempotency_key=f"key-{call_id}",
        fence=1,
        requester="visitor-1",
        message_id="message-1",
        language="en",
        deadline=datetime.now(UTC) + timedelta(seconds=_DEADLINE_SECONDS),
    )
    return replace(context, **fields)


@dataclass(frozen=True)
class TestedTools:
    """The tools of a rulebook, with their resources open."""

    __test__ = False

    specs: Mapping[str, ToolSpec]
    loaded: Mapping[str, LoadedTool]
    resources: Mapping[str, object]
    #: What tools have reported of their progress, in order: (fraction or None, text).
    reports: list[tuple[float | None, str]] = field(default_factory=list)

    async def call(self, tool: str, /, *, context: ToolContext | None = None, **arguments: Any) -> ToolReply:
        """Run a tool once and return its reply as plain JSON; raise ToolError or ToolOutcomeUnknown as it does.

        Arguments that the rulebook's schema refuses are a ToolError with the code `invalid_arguments`.
        """
        if problems := validate_arguments(self.specs[tool], arguments):
            raise ToolError("; ".join(map(str, problems)), code="invalid_arguments")
        return await self.loaded[tool].run(arguments, self.context(context))

    async def stage(
        self, tool: str, workspace: TestedWorkspace, /, *, context: ToolContext | None = None, **arguments: Any
    ) -> list[Described]:
        """Stage a call as its pack does; return its changes as people see them. Raises ToolError as `call` does."""
        if problems := validate_arguments(self.specs[tool], arguments):
            raise ToolError("; ".join(map(str, problems)), code="invalid_arguments")
        loaded, context = self.loaded[tool], replace(self.context(context), workspace=workspace)
        name = self._pack(tool).name
        changes = await loaded.plan(arguments, context)
        workspace.changes += [(name, change) for change in changes]
        return [await loaded.describe(change, context) for change in changes]

    async def commit(
        self, tool: str, workspace: TestedWorkspace, /, *, context: ToolContext | None = None
    ) -> list[str]:
        """Commit what the tool's pack has staged; return the keys that conflict, and then nothing is made."""
        return await workspace.make(self._pack(tool), self.context(context))

    def _pack(self, tool: str) -> Staging:
        pack = self.loaded[tool].staging
        if pack is None:
            raise LookupError(f"the rulebook names no `stage` for the tool {tool!r}")
        return pack

    async def verify(self, tool: str, /, *, context: ToolContext | None = None, **arguments: Any) -> Finding:
        """Ask the tool's probe once."""
        probe = self.loaded[tool].probe
        if probe is None:
            raise LookupError(f"the rulebook names no `verify` for the tool {tool!r}")
        return await probe.find(arguments, self.context(context))

    def context(self, context: ToolContext | None = None) -> ToolContext:
        """Return a context with the resources of the tools."""

        def report(fraction: float | None, text: str) -> None:
            self.reports.append((fraction, text))

        return replace(context or tool_context(), resources=self.resources, reporter=report)


@asynccontextmanager
async def open_tools(rulebook: Path | str, *, database_url: str = "") -> AsyncIterator[TestedTools]:
    """Load the tools of a rulebook and open their resources; raise in one line what would stop an executor."""
    specs = load_catalog(Path(rulebook))
    loaded = load_tools(specs.values())
    async with open_tool_resources(modules_of(loaded.values()), PackSettings(database_url=database_url)) as resources:
        yield TestedTools(specs, loaded, resources)

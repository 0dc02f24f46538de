"""A tool's probe: finds out whether a call of unknown outcome took effect.

Owns the one rule about foreign probes: whatever is not a clear finding leaves the outcome unknown. A probe that raises,
returns something else or an answer that cannot be stored has told nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from placet.domain.catalog import ToolSpec
from placet.runtime.watchdog import place_of
from placet.tools.contract import CannotTell, DidNotRun, Finding, Ran, ToolContext, ToolError, ToolReply
from placet.tools.replies import call_function, checked_reply, checked_text
from placet.tools.signatures import Signature

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedProbe:
    """One tool's probe, ready to run; it takes the parameters of its tool."""

    spec: ToolSpec
    module: str
    function: Callable[..., Any]
    signature: Signature

    async def find(self, arguments: Mapping[str, Any], context: ToolContext) -> Finding:
        """Ask the probe once; raises nothing but the cancellation of the caller."""
        try:
            keywords = self.signature.keywords(arguments, context)
            found = await call_function(self.function, keywords, name=f"verify {self.spec.name}")
            return _checked(found)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # a probe is foreign code, and has told nothing
            # An error's text may quote an argument that logs must not see.
            ids = {"tenant": context.tenant, "call_id": context.call_id}
            told = {"error": type(error).__name__, "place": place_of(error)}
            log.error("probe.failed", tool=self.spec.name, **told, **ids)  # noqa: TRY400
            return CannotTell()


def _checked(found: object) -> Finding:
    match found:
        case Ran():
            reply = checked_reply(ToolReply(data=found.data, ui_blocks=found.ui_blocks))
            return Ran(data=reply.data, ui_blocks=reply.ui_blocks)
        case DidNotRun():
            return found
        case CannotTell():
            return CannotTell(checked_text(found.text))
        case _:
            raise ToolError(f"a probe returns Ran, DidNotRun or CannotTell, not {type(found).__name__}")

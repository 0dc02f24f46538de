"""The contract between the executor and the tools it runs.

A tool is a plain typed Python function, async or not, that the catalogue names as `module:function`. Its
parameters are the arguments by name; one more, annotated `ToolContext`, receives the context. It returns
any JSON value, or a `ToolReply` with blocks for the frontend. It raises `ToolError` with a text for the
model, or `ToolOutcomeUnknown` when it cannot say whether its effect happened. Any other exception fails the
call with a neutral text and is logged. A probe (`verify`) has the same parameters and returns a finding: `Ran`,
`DidNotRun` or `CannotTell`. Nothing in here knows a broker, a permit or a lease, so a tool can be
tested by calling it.
"""

from __future__ import annotations

from services.executor.tools.contract import (
    CannotTell,
    DidNotRun,
    Finding,
    Ran,
    ToolContext,
    ToolError,
    ToolOutcomeUnknown,
    ToolReply,
)
from services.executor.tools.ui_blocks import UiBlock

__all__ = [
    "CannotTell",
    "DidNotRun",
    "Finding",
    "Ran",
    "ToolContext",
    "ToolError",
    "ToolOutcomeUnknown",
    "ToolReply",
    "UiBlock",
]

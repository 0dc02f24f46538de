"""What a tool is written with; `docs/write-a-tool.md` shows how, and `placet.testing` tests it.

A tool is a typed Python function, async or not, that the rulebook names as `module:function`. Its parameters are the
arguments by name; one more, annotated `ToolContext`, receives the context. It returns any JSON value, or a `ToolReply`
with blocks for the frontend. It raises `ToolError` with a text for the model, or `ToolOutcomeUnknown` when it cannot
say whether its effect happened; any other exception fails the call with a neutral text and is logged. A probe
(`verify`) has the same parameters and returns `Ran`, `DidNotRun` or `CannotTell`. A module may have `open_resources`,
which opens what its tools share while the executor runs. A pack whose changes can wait for people extends `Staging`.
"""

from __future__ import annotations

from placet.tools.contract import (
    CannotTell,
    DidNotRun,
    Finding,
    Ran,
    ToolContext,
    ToolError,
    ToolOutcomeUnknown,
    ToolReply,
)
from placet.tools.resources import PackSettings, SecretMissing, secret
from placet.tools.staging import CannotApply, Change, Content, DecidedChange, Described, Staging, Waiting, Workspace
from placet.tools.ui_blocks import (
    CartBlock,
    CartLine,
    Money,
    NoticeBlock,
    NoticeLevel,
    PaymentLinkBlock,
    ProductCard,
    ProductCarousel,
    ProductVariant,
    StagedDiffBlock,
    UiBlock,
)

__all__ = [
    "CannotApply",
    "CannotTell",
    "CartBlock",
    "CartLine",
    "Change",
    "Content",
    "DecidedChange",
    "Described",
    "DidNotRun",
    "Finding",
    "Money",
    "NoticeBlock",
    "NoticeLevel",
    "PackSettings",
    "PaymentLinkBlock",
    "ProductCard",
    "ProductCarousel",
    "ProductVariant",
    "Ran",
    "SecretMissing",
    "StagedDiffBlock",
    "Staging",
    "ToolContext",
    "ToolError",
    "ToolOutcomeUnknown",
    "ToolReply",
    "UiBlock",
    "Waiting",
    "Workspace",
    "secret",
]

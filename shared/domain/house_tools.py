"""Tools of the house: `commit_changes`, which runs a workspace, `propose_changes`, which asks for it, `accomplish`.

No rulebook describes them. Agent, policy, approval and executor must agree on their schemas, so they stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from placet.contracts.messages import ACCOMPLISH_TOOL, COMMIT_TOOL, JOBS_POOL, PROPOSE_TOOL
from placet.contracts.messages.jobs import TASK_MAX
from placet.contracts.messages.stage import ENTRIES_MAX
from placet.contracts.messages.tool_calls import Category
from placet.domain.catalog import ToolSpec

_IDENTIFIER = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}

#: Never offered to a model: the agent proposes it where staged entries are to be decided.
COMMIT_SPEC = ToolSpec(
    name=COMMIT_TOOL,
    description="Commits staged changes and runs staged calls, after people have decided about each of them.",
    parameters={
        "type": "object",
        "properties": {
            "workspace_id": _IDENTIFIER,
            "tree_digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "entries": {"type": "array", "items": _IDENTIFIER, "minItems": 1, "maxItems": ENTRIES_MAX},
        },
        "required": ["workspace_id", "tree_digest", "entries"],
    },
    category=Category.UNSAFE_WRITE,
)
#: Offered where a tool of the agent can be staged.
PROPOSE_SPEC = ToolSpec(
    name=PROPOSE_TOOL,
    description="Asks people now to decide about everything that is staged, before the turn ends. Without it they are "
    "asked when the turn ends. Call it alone, and only when a later step needs the staged work done.",
    parameters={"type": "object", "properties": {}},
    category=Category.SAFE_COMPUTE,
)
#: Offered by agents whose profile says so. Policy judges it like any call, and so each call of its attempts.
ACCOMPLISH_SPEC = ToolSpec(
    name=ACCOMPLISH_TOOL,
    description="Has a task done that is too large, or too easily got wrong, for you alone: it is divided, several "
    "agents try each part, and the answer they agree on is the result. They know nothing but what you say here.",
    parameters={
        "type": "object",
        "properties": {
            "task": {"type": "string", "minLength": 1, "maxLength": TASK_MAX, "description": "What is to be done."},
            "context": {"type": "string", "maxLength": TASK_MAX, "description": "What helps to do it."},
        },
        "required": ["task"],
        "additionalProperties": False,
    },
    category=Category.SAFE_COMPUTE,
    pool=JOBS_POOL,
)
HOUSE_TOOLS: Mapping[str, ToolSpec] = MappingProxyType(
    {spec.name: spec for spec in (COMMIT_SPEC, PROPOSE_SPEC, ACCOMPLISH_SPEC)}
)

_CHANGES = {
    "en": ("apply 1 change", "apply {count} changes"),
    "de": ("1 Änderung übernehmen", "{count} Änderungen übernehmen"),
    "tr": ("1 değişikliği uygula", "{count} değişikliği uygula"),
}
_CALLS = {
    "en": ("run 1 call", "run {count} calls"),
    "de": ("1 Aufruf ausführen", "{count} Aufrufe ausführen"),
    "tr": ("1 çağrıyı çalıştır", "{count} çağrıyı çalıştır"),
}
_AND = {"en": " and ", "de": " und ", "tr": " ve "}


def commit_summary(language: str, *, changes: int, calls: int) -> str:
    """Return the card's sentence of a commit of so many changes and staged calls; English where `language` has none."""
    language = language if language in _AND else "en"
    parts = [
        words[language][count > 1].format(count=count)
        for words, count in ((_CHANGES, changes), (_CALLS, calls))
        if count
    ]
    text = _AND[language].join(parts)
    return text[:1].upper() + text[1:]

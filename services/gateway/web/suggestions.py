"""What a start page suggests to write: what the file of agents says, else what the example's tools can do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from placet.domain.agents import AgentEntry

#: By the tool that a suggestion needs.
_EXAMPLES = {
    "search_products": "Find red shoes under 500",
    "add_to_cart": "Add two of them to my cart",
    "create_pay_link": "Create a payment link over 299 TRY",
    "escalate_to_human": "I want to talk to a person",
}


def suggestions(agents: Mapping[str, AgentEntry], tools: Collection[str]) -> dict[str, list[str]]:
    """Return texts by the agents that have some; `tools` are those of the rulebook."""
    found = {name: _of(entry, tools) for name, entry in agents.items()}
    return {name: texts for name, texts in found.items() if texts}


def _of(entry: AgentEntry, tools: Collection[str]) -> list[str]:
    if entry.suggestions is not None:
        return entry.suggestions
    return [
        text
        for tool, text in _EXAMPLES.items()
        if tool in tools and any(fnmatchcase(tool, pattern) for pattern in entry.tools)
    ]
